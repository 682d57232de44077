"""The next experiment: the load at which a short test would tell most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from stationary import words
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.draws import Draws, from_estimate
from stationary.learning.estimate import Estimate
from stationary.learning.inference import Covariance, Link, check_level
from stationary.models.inputs import grid
from stationary.planning.forecast import forecast
from stationary.planning.information import Knowledge
from stationary.planning.limits import FARTHEST, Limit, Status, limit
from stationary.terms.slo import Slo

_CANDIDATES = 12

_NEARLY = 0.9
"""Share of the best shrinkage from which a load that breaks no bound is the better choice."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What more windows at each of some loads would do to the interval of an answer.

    Attributes
    ----------
    table : DataFrame
        For each ``load``: the half-width of the interval now and after (``width_now``,
        ``width_after``, in e-folds), their ``ratio``, the interval then (``low``, ``high``) and,
        where the answer is a limit, whether the load ``meets`` it.
    best : float
        The load to test at: where the interval shrinks most, or a load that meets all SLOs where
        it shrinks nearly as much.
    windows : int
        How many more windows.
    now : (float, float)
        The interval as it is.
    limit : Limit, optional
        The answer, where it is a limit.
    measure, at
        The answer, where it is a measure at a load.
    model : str
        The model by which it goes, where answers come from several.
    """

    table: pd.DataFrame
    best: float
    windows: int
    now: tuple[float, float]
    limit: Limit | None = None
    measure: str = ""
    at: float = math.nan
    model: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as records."""
        return self.table.to_dict("records")

    def __str__(self) -> str:
        return words.experiment(self)


def next_experiment(
    estimate: Estimate,
    windows: Windows,
    slos: Sequence[Slo] = (),
    measure: str | None = None,
    at: float | None = None,
    loads: Any = None,
    more: int = 10,
    level: float = 0.95,
) -> Experiment:
    """Say at which load a short test would shrink the interval of an answer most.

    The answer is a limit on the load, or a measure at a load. A test is some more windows like
    those there are, as `stationary.planning.information` spells out; it supposes that the model is
    right. Say how long the windows were (``Windows(duration=)``): near saturation a system changes
    slowly, and a window there tells less than its counts.

    Parameters
    ----------
    estimate, windows
        A fit of the system as it is.
    slos : sequence of Slo
        The answer is the largest load that meets these ...
    measure, at
        ... or this measure at this load.
    loads : sequence, optional
        Candidates; by default 12, from the lightest observed to half more than the limit.
    more : int
        Length of the test, in windows.
    level : float
        Coverage of the intervals.
    """
    check_level(level)
    if isinstance(more, bool) or not isinstance(more, int) or more < 1:
        raise InputError(f"windows must be a whole number of at least 1; got {more!r}")
    if not estimate.converged:
        raise InputError("the fit did not converge, so what it knows cannot be told: fit again")
    if bool(slos) == (measure is not None and at is not None) or (measure is None) != (at is None):
        raise InputError(
            f"next_experiment takes bounds, as in loss=0.001, or a measure at a load, as in "
            f"measure='loss', at=40.0; got the bounds {[slo.measure for slo in slos]}"
        )
    asked = _Limit(estimate, windows, slos, level) if slos else _At(estimate, measure, at, level)
    low, high, width = asked.ends(estimate.covariance)
    if not width > 0:
        raise InputError(f"{asked.name} is as good as known: a test has nothing to tell")
    if loads is None:
        lightest = float(windows.loads.min())
        spread = np.linspace(min(lightest, asked.load / 2), 1.5 * asked.load, _CANDIDATES)
        loads = [float(f"{load:.3g}") for load in spread]
    candidates = np.unique(grid(estimate.model, loads)[:, 0].numpy())
    known = Knowledge.of(estimate, windows)
    after = [asked.ends(cov) for cov in known.after(candidates, more)]
    table = pd.DataFrame(
        {
            "load": candidates,
            "width_now": width,
            "width_after": [half for _, _, half in after],
            "ratio": [half / width for _, _, half in after],
            "low": [end for end, _, _ in after],
            "high": [end for _, end, _ in after],
        }
    )
    if slos:
        table["meets"] = table["load"] <= asked.load
    return Experiment(table, _best(table), more, (low, high), **asked.answer())


class _Asked:
    """An answer whose interval follows from a covariance of the parameters."""

    name: str
    load: float

    def __init__(self, estimate: Estimate, level: float) -> None:
        self.estimate, self.level = estimate, level

    def _draws(self, cov: Covariance) -> Draws:
        return Draws((from_estimate(replace(self.estimate, covariance=cov)),))


class _Limit(_Asked):
    def __init__(
        self, estimate: Estimate, windows: Windows, slos: Sequence[Slo], level: float
    ) -> None:
        super().__init__(estimate, level)
        self.near = float(windows.loads.max())
        self.slos = slos
        draws = self._draws(estimate.covariance)
        self.now = replace(limit(draws, slos, self.near, level), present=self.near)
        self.name = words.answer(slos, "", math.nan)
        if self.now.status is not Status.FOUND:
            clause = words.limit(self.now, present=False, reason=False)
            raise InputError(f"{clause}: a test has no limit to tell better")
        self.load = self.now.load

    def ends(self, cov: Covariance) -> tuple[float, float, float]:
        found = limit(self._draws(cov), self.slos, self.load, self.level)
        edges = max(found.low, self.near / FARTHEST), min(found.high, self.near * FARTHEST)
        return found.low, found.high, math.log(edges[1] / edges[0]) / 2

    def answer(self) -> dict[str, Any]:
        return {"limit": self.now}


class _At(_Asked):
    def __init__(
        self, estimate: Estimate, measure: str | None, at: float | None, level: float
    ) -> None:
        super().__init__(estimate, level)
        self.measure = str(measure)
        if len(estimate.model.inputs) != 1:
            raise InputError(
                f"an experiment over the load needs a model of one input; this one has "
                f"{', '.join(estimate.model.inputs)}"
            )
        self.link = Link(estimate.model.measure(self.measure))
        self.load = float(grid(estimate.model, [at])[0, 0])
        self.name = words.answer((), self.measure, self.load)

    def ends(self, cov: Covariance) -> tuple[float, float, float]:
        found = forecast(self._draws(cov), [self.load], [self.measure], self.level)
        low, high = found.low[:, 0], found.high[:, 0]
        to = self.link.to
        half = (to(self.link.inside(high)) - to(self.link.inside(low))) / 2
        if self.link.free:
            half = half / np.abs(found.value[:, 0])
        return float(low[0]), float(high[0]), float(half[0])

    def answer(self) -> dict[str, Any]:
        return {"measure": self.measure, "at": self.load}


def _best(table: pd.DataFrame) -> float:
    """Load that shrinks the interval most, or nearly so without breaking an SLO."""
    shrinkage = 1 - table["ratio"]
    choice = shrinkage.idxmax()
    if "meets" in table and table["meets"].any():
        safe = shrinkage.where(table["meets"]).idxmax()
        if shrinkage[safe] >= _NEARLY * shrinkage[choice]:
            choice = safe
    return float(table["load"][choice])
