"""Models of choice: PCMC against SLSQP with numerical gradients, Plackett-Luce against choix.

``python -m benchmarks choice ../shared/data/choice/`` reads SFwork.csv and SFshop.csv there: one
row per person, ``Choice`` the number (from 1) of the column that was chosen.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import choix
import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize

import stationary as st
from benchmarks.timing import compare, milliseconds, table
from stationary.learning.estimate import FitResult, Method
from stationary.learning.ilsr import ILSR
from stationary.learning.likelihood import Likelihood

SMOOTHING = {"SFwork": 0.1, "SFshop": 5.0}
PUBLISHED = {
    "SFwork": (3098.9, 3043.1, 2980.4, 3034.0, 3105.5, 3027.1),
    "SFshop": (4298.4, 4310.8, 4303.5, 4273.1, 4293.5, 4274.0),
}
"""Negative log-likelihoods of training that the published code reached on the same splits."""

NEWTON = st.Newton(starts=1)


def main() -> None:
    """Print both tables; the first only where the data are."""
    folders = [Path(word) for word in sys.argv[1:] if Path(word).is_dir()]
    if folders:
        table(
            "PCMC on six splits of travel choices",
            [
                "data",
                "split",
                "nll",
                "published",
                "test error",
                "of Plackett-Luce",
                "ms",
                "SLSQP ms",
            ],
            (row for name in SMOOTHING for row in travel(folders[0] / f"{name}.csv")),
        )
    table(
        "Plackett-Luce, ms",
        ["data", "choix ILSR", "choix Newton", "ILSR", "Newton", "largest difference"],
        luce(),
    )


def travel(file: Path):
    """Yield a row per split, and the median of the ratios of times."""
    people, smoothing = pd.read_csv(file), SMOOTHING[file.stem]
    ratios = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(people))
        parts = np.split(order, [int(0.75 * len(people))])
        train, test = (
            st.data.choices(part.iloc[:, 1:], part["Choice"] - 1, smoothing=smoothing)
            for part in (people.iloc[rows] for rows in parts)
        )
        model = st.models.PCMC(train.inputs)
        fitted = Fit(model, train)
        took = median(timed(fitted) for _ in range(5))
        slow = timed(partial(published, train, smoothing))
        ratios.append(slow / took)
        theta = fitted().theta
        model.set_theta(theta)
        base = st.models.PlackettLuce(train.inputs)
        base.set_theta(Fit(base, train)().theta)
        nll = fitted().nll - float(model.penalty(theta))
        errors = [f"{off(each, test):.3f}" for each in (model, base)]
        reached = [f"{nll:.1f}", f"{PUBLISHED[file.stem][seed]}"]
        yield [file.stem, str(seed), *reached, *errors, milliseconds(took), milliseconds(slow)]
    yield [file.stem, "all", *[""] * 5, f"{median(ratios):.0f} times ours"]


@dataclass(frozen=True)
class Fit:
    """One fit from one start, without its covariance."""

    model: st.Model
    windows: st.Windows
    method: Method = NEWTON

    def __call__(self) -> FitResult:
        """Fit."""
        return self.method.run(Likelihood(self.model, self.windows), self.windows, 0)


def timed(function) -> float:
    """Seconds of processor time of one call."""
    began = time.process_time()
    function()
    return time.process_time() - began


def off(model, windows: st.Windows) -> float:
    """Mean L1 distance between forecast and observed shares, weighted by the menus' sizes."""
    counts = windows.data
    p = model.shares(model.at(windows.x)).detach()
    size = counts.sum(-1, keepdim=True)
    return float((size / size.sum() * (p - counts / size).abs()).sum())


def published(windows: st.Windows, smoothing: float) -> float:
    """Maximum likelihood as in the published code: 25 iterations, one solve per menu."""
    n = windows.x.shape[1]
    menus = [np.flatnonzero(row) for row in windows.x.numpy()]
    counts = [row[menu] + smoothing for row, menu in zip(windows.data.numpy(), menus, strict=True)]
    off_diagonal = ~np.eye(n, dtype=bool)

    def nll(q):
        Q, total = np.zeros((n, n)), 0.0
        Q[off_diagonal] = q
        for menu, count in zip(menus, counts, strict=True):
            A = Q[menu, :][:, menu]
            A[np.diag_indices_from(A)] = -A.sum(1)
            A[:, -1] = 1.0
            if np.linalg.matrix_rank(A) < len(A):  # asked of every menu there, too
                return np.inf
            total -= count @ np.log(np.linalg.solve(A.T, np.eye(len(A))[-1]))
        return total

    place = np.zeros((n, n), dtype=int)
    place[off_diagonal] = np.arange(n * (n - 1))
    pairs = [(place[i, j], place[j, i]) for i in range(n) for j in range(i)]
    above = [{"type": "ineq", "fun": lambda q, a=a, b=b: q[a] + q[b] - 1} for a, b in pairs]
    start = np.random.default_rng(0).random(n * (n - 1)) + 0.5
    bounds = [(1e-9, None)] * len(start)
    options = {"maxiter": 25}
    return minimize(
        nll, start, method="SLSQP", bounds=bounds, constraints=above, options=options
    ).fun


def luce():
    """Yield a row per data set."""
    random = np.random.default_rng(0)
    for n, count, length in ((20, 2_000, 2), (100, 5_000, 2), (20, 500, 6), (50, 1_000, 10)):
        strength = random.normal(size=n)
        drawn = random.permuted(np.tile(np.arange(n), (count, 1)), axis=1)[:, :length]
        order = (-(strength[drawn] + random.gumbel(size=drawn.shape))).argsort(1)
        data = [tuple(map(int, row)) for row in np.take_along_axis(drawn, order, 1)]
        windows, model = st.data.rankings(data, items=range(n)), st.models.PlackettLuce(range(n))
        kind = "pairwise" if length == 2 else "rankings"
        theirs = getattr(choix, f"ilsr_{kind}")
        newton = getattr(choix, f"opt_{kind}")
        ours = Fit(model, windows)
        rivals = {
            "choix ILSR": partial(theirs, n, data, tol=1e-10, max_iter=1000),
            "choix Newton": partial(newton, n, data, tol=1e-10),
            "ILSR": Fit(model, windows, ILSR()),
            "Newton": ours,
        }
        spent = compare(rivals, seconds=1.0)
        apart = float((torch.from_numpy(theirs(n, data, tol=1e-12)) - ours().theta).abs().max())
        name = f"{count:,} {'comparisons' if length == 2 else f'rankings of {length}'}, {n} items"
        yield [name, *map(milliseconds, spent.values()), f"{apart:.0e}"]
