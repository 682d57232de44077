"""The settings of ``paper.toml`` as objects: rows, printed numbers, and the data sets they make."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from torch import Tensor

import stationary as st
from stationary.errors import InputError
from stationary.models.registry import build
from stationary.simulation import Events, PoissonCounts

SETTINGS: dict[str, Any] = tomllib.loads(
    files("stationary").joinpath("paper", "paper.toml").read_text(encoding="utf-8")
)
"""The sections of the file."""

PRINTED = ("gaps", "theta", "mape", "mse", "loss_alpha", "loss_p")
"""Fields of a row that hold what the paper prints."""

Printed = dict[str, list[float]]
"""A printed mean and the half-width of its interval, where there is one, by method."""


@dataclass(frozen=True)
class Row:
    """One line of the paper's tables: a chain, where it is observed, where it is judged.

    The fields are those of ``paper.toml``, which explains them.
    """

    name: str
    title: str
    model: dict[str, Any]
    train: list[float]
    observe: list[int]
    margin: float
    lr: float
    epochs: int
    studies: list[str]
    truth: list[float] | None = None
    test: list[float] | None = None
    windows: int = 1
    starts: int = 1
    source: str = "numbers"
    loads: str = "grid"
    scheme: str = "events"
    p: list[float] | None = None
    gaps: list[float] | None = None
    theta: list[float] | None = None
    mape: Printed = field(default_factory=dict)
    mse: Printed = field(default_factory=dict)
    loss_alpha: Printed = field(default_factory=dict)
    loss_p: Printed = field(default_factory=dict)

    def family(self) -> st.Model:
        """Return the model that a method learns, at its default parameters."""
        return build(dict(self.model))

    def build(self) -> st.Model:
        """Return the model at its true parameters, if they are known."""
        model = self.family()
        if self.truth is not None:
            model.set_theta(self.truth)
        return model

    @property
    def simulated(self) -> bool:
        """Whether the data are simulated, and not recorded."""
        return self.truth is not None

    def settings(self) -> dict[str, Any]:
        """Return what a run depends on: all fields but the titles and the printed numbers."""
        shown = ("title", "studies", "source", *PRINTED)
        return {name: value for name, value in vars(self).items() if name not in shown}

    def printed(self, method: str) -> tuple[float, float]:
        """Return the printed MAPE/100 and MSE of a method."""
        return self.mape[method][0], self.mse[method][0]

    def train_loads(self) -> list[float]:
        """Load of every training window."""
        return [x for x in _grid(self.train) for _ in range(self.windows)]

    def drawn_loads(self, seed: int) -> list[float]:
        """Loads of a data set: the grid, or as many drawn uniformly, as Algorithm 1 says."""
        grid = self.train_loads()
        if self.loads == "grid":
            return grid
        low, high, _ = self.train
        return np.random.default_rng([seed, 2]).uniform(low, high, len(grid)).tolist()

    def test_loads(self) -> list[float]:
        """Loads at which the forecast is judged."""
        return _grid(self.test or self.train)


@dataclass(frozen=True, eq=False)
class Problem:
    """A data set of a row: what a method may learn from, and what it is judged by.

    Methods use the counts of the states ``observe`` only; the baselines also use the last state.
    """

    row: Row
    windows: st.Windows  # for training, with the counts of every state
    x: Tensor  # test loads [T, 1]
    target: Tensor  # the true, or measured, probability of the last state there [T]

    @property
    def counts(self) -> Tensor:
        """Counts of the observed states ``[M, C]``; a window may have none."""
        return self.windows.counts[:, self.row.observe]

    def observed(self) -> st.Windows:
        """Return the windows for a fit: the observed states, without windows that count none."""
        seen = self.counts.sum(-1) > 0
        return st.Windows(
            self.windows.x[seen], self.counts[seen], self.row.observe, self.windows.sampling
        )


def draw(row: Row, seed: int) -> Problem:
    """Simulate a data set of a row by the paper's Algorithm 1, or with its Poisson counts."""
    if not isinstance(row, Row) or not row.simulated:
        known = "st.paper.rows()['mm1k-fast']"
        raise InputError(f"row must be a simulated one, such as {known}; got {row!r}")
    model, loads = row.build(), row.drawn_loads(seed)
    with torch.no_grad():
        gamma = model(loads).exit_rates().amax(-1) + row.margin
        scheme = PoissonCounts() if row.scheme == "poisson" else Events(gamma=gamma.tolist())
        windows = st.simulate(model, loads, duration=1.0, seed=seed, scheme=scheme)
        x = model.as_inputs(row.test_loads())
        return Problem(row, windows, x, st.steady_state(model(x)).pi[:, -1])


@cache
def rows() -> dict[str, Row]:
    """Return all rows by name; what a row does not give is that of the row named by ``of``."""
    found: dict[str, Row] = {}
    for entry in SETTINGS["rows"]:
        other = vars(found[entry["of"]]) if "of" in entry else {}
        own = {name: value for name, value in entry.items() if name != "of"}
        found[entry["name"]] = Row(**{**other, **own})
    return found


def _grid(bounds: list[float]) -> list[float]:
    first, last, step = bounds
    return np.arange(first, last + step / 2, step, dtype=np.float64).tolist()
