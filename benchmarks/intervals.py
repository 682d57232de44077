"""Do intervals cover what they promise? Simulated truth, fresh data sets, nominal 90 %.

Every data set is made as in the paper: windows of one second at light load, by its Algorithm 1. The
interval is for the loss at a heavy load, where nothing was observed. ``python -m benchmarks
intervals 20`` runs fewer data sets.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.timing import table
from stationary._support.parallel import in_parallel
from stationary.errors import StationaryError
from stationary.learning.covariances import (
    Correlated,
    CovarianceKind,
    Dispersed,
    Information,
    Minimum,
    Sandwich,
)
from stationary.learning.draws import Draws, Part, from_estimate, from_refits
from stationary.learning.fitting import recorded
from stationary.learning.likelihood import Likelihood
from stationary.learning.newton import Newton
from stationary.learning.resampling import bootstrap
from stationary.paper.settings import Problem, draw, rows
from stationary.planning.forecast import forecast

SETS = 200
REPEATS = 100
LEVEL = 0.9
ROWS = ("mm1k-fast", "mm1k-slow", "mmmmr", "multiple")

KINDS: dict[str, CovarianceKind] = {
    "sandwich (default)": Sandwich(),
    "own autocorrelation": Correlated(),
    "overdispersion": Dispersed(),
    "naive": Information(),
}


@dataclass(frozen=True)
class Trial:
    """Whether each interval covers the truth, and how wide it is in e-folds of the odds."""

    row: str

    def __call__(self, seed: int) -> dict[str, tuple[bool, float]]:
        """One data set."""
        row = rows()[self.row]
        problem = draw(row, seed)
        at, truth = heavy(problem)
        windows = problem.windows
        seen = windows.counts[:, row.observe].sum(-1) > 0
        windows = windows.select(seen.numpy()).observing(row.observe)
        likelihood = Likelihood(row.family(), windows)
        best = Newton(starts=1).run(likelihood, windows, seed=0)
        whole = recorded(likelihood, windows, best)
        minimum = Minimum(likelihood, windows, best.theta)
        found = {
            name: _judged(from_estimate(replace(whole, covariance=kind.at(minimum))), at, truth)
            for name, kind in KINDS.items()
        }
        try:
            drawn = from_refits(whole, bootstrap(whole, windows, REPEATS, seed=seed, jobs=1))
            found["bootstrap"] = _judged(drawn, at, truth)
        except StationaryError:
            found["bootstrap"] = (False, float("inf"))
        return found


def heavy(problem: Problem) -> tuple[float, float]:
    """A load in the middle of those above the training windows, and the true loss there."""
    loads = problem.x[:, 0]
    above = (loads > problem.windows.loads.max()).nonzero()[:, 0]
    middle = int(above[len(above) // 2])
    return float(loads[middle]), float(problem.target[middle])


def main() -> None:
    """Print coverage and width."""
    sets = next((int(word) for word in sys.argv[1:] if word.isdigit()), SETS)
    lines = []
    for name in ROWS:
        trials = in_parallel(Trial(name), range(sets))
        at, _ = heavy(draw(rows()[name], 0))
        for kind in trials[0]:
            hits = np.mean([trial[kind][0] for trial in trials])
            width = np.median([trial[kind][1] for trial in trials])
            lines.append([rows()[name].title, f"{at:g}", kind, f"{hits:.1%}", f"{width:.2f}"])
    table(
        f"Coverage of nominal {LEVEL:.0%} intervals of the loss, {sets} data sets each",
        ["data", "at load", "interval", "covers the truth", "median half-width, e-folds"],
        lines,
    )


def _judged(part: Part, at: float, truth: float) -> tuple[bool, float]:
    ahead = forecast(Draws((part,)), [at], ["loss"], LEVEL)
    low, high = ahead.low[0, 0], ahead.high[0, 0]
    with np.errstate(divide="ignore"):
        odds = np.log([low / (1 - low), high / (1 - high)])
    return bool(low <= truth <= high), float(odds[1] - odds[0]) / 2
