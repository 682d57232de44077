"""The next experiment: the load at which a short test would narrow a limit most."""

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
from stationary.learning.estimate import Estimate, check_whole
from stationary.learning.inference import Covariance
from stationary.planning.information import Information
from stationary.planning.limits import Limit, Status, limit
from stationary.planning.roots import FARTHEST
from stationary.terms.slo import Slo, check_level

_CANDIDATES = 12

_NEARLY = 0.9
"""Share of the best shrinkage from which a load that breaks no bound is the better choice."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What more windows at each of some loads would do to the interval of a limit.

    Attributes
    ----------
    table : DataFrame
        For each ``load``: the half-width of the interval now and after (``width_now``,
        ``width_after``, in e-folds), their ``ratio``, the interval then (``low``, ``high``), and
        whether the load ``meets`` all SLOs.
    best : float
        The load to test at: where the interval shrinks most, or a load that meets all SLOs where
        it shrinks nearly as much.
    windows : int
        How many more windows.
    now : (float, float)
        The interval as it is.
    limit : Limit
        The limit that it would narrow.
    model : str
        The model that it is computed with, where answers come from several.
    """

    table: pd.DataFrame
    best: float
    windows: int
    now: tuple[float, float]
    limit: Limit
    model: str = ""

    def rows(self) -> list[dict[str, Any]]:
        """Return the table as records."""
        return self.table.to_dict("records")

    def __str__(self) -> str:
        return words.experiment(self)


def next_experiment(
    estimate: Estimate,
    windows: Windows,
    slos: Sequence[Slo],
    loads: Any = None,
    more: int = 10,
    level: float = 0.95,
) -> Experiment:
    """Say at which load a short test would shrink the interval of a limit on the load most.

    A test consists of more windows like the present ones, see `stationary.planning.information`;
    the model is supposed to be right. Give the windows' durations (``Windows(duration=)``): near
    saturation a system changes slowly, and a window there contains less information than its counts
    suggest.

    Parameters
    ----------
    estimate, windows
        A fit of the system as it is.
    slos : sequence of Slo
        The limit is the largest load that meets these.
    loads : sequence, optional
        Candidates; by default 12, from the lightest observed to half more than the limit.
    more : int
        Length of the test, in windows.
    level : float
        Coverage of the intervals.
    """
    check_level(level)
    check_whole(more, "windows")
    if isinstance(loads, str):
        raise InputError(f"loads must be numbers; an SLO is given as loss=0.01; got {loads!r}")
    if estimate.model.weights:
        raise InputError(
            "weights of a network have no standard errors to reduce: measure at the loads that you "
            "want to know about"
        )
    if not estimate.converged:
        raise InputError("the fit did not converge, so its information is unknown: fit again")
    heaviest = float(windows.loads.max())
    now = limit(_draws(estimate, estimate.covariance), slos, heaviest, level)
    now = replace(now, present=heaviest)
    if now.status is not Status.FOUND:
        clause = words.limit(now, reason=False)
        raise InputError(f"{clause}: there is no limit that a test could narrow")

    def interval(cov: Covariance) -> tuple[float, float, float]:
        found = limit(_draws(estimate, cov), slos, now.load, level)
        low, high = max(found.low, heaviest / FARTHEST), min(found.high, heaviest * FARTHEST)
        return found.low, found.high, math.log(high / low) / 2

    low, high, width = interval(estimate.covariance)
    if not width > 0:
        raise InputError("the limit is as good as known: a test would not narrow it")
    if loads is None:
        lightest = min(float(windows.loads.min()), now.load / 2)
        spread = np.linspace(lightest, 1.5 * now.load, _CANDIDATES)
        loads = [float(f"{load:.3g}") for load in spread]
    candidates = np.unique(estimate.model.as_inputs(loads, least=1)[:, 0].numpy())
    if candidates[-1] > FARTHEST * heaviest:
        raise InputError(
            f"loads must be at most {FARTHEST:g} times the heaviest observed ({heaviest:g}); got "
            f"{candidates[-1]:g}"
        )
    known = Information.of(estimate, windows)
    after = np.array([interval(cov) for cov in known.after(candidates, more)])
    table = pd.DataFrame(
        {
            "load": candidates,
            "width_now": width,
            "width_after": after[:, 2],
            "ratio": after[:, 2] / width,
            "low": after[:, 0],
            "high": after[:, 1],
            "meets": candidates <= now.load,
        }
    )
    return Experiment(table, best_load(table), more, (low, high), now)


def _draws(estimate: Estimate, cov: Covariance) -> Draws:
    return Draws((from_estimate(replace(estimate, covariance=cov)),))


def best_load(table: pd.DataFrame) -> float:
    """Load that shrinks the interval most, or nearly so without breaking an SLO."""
    shrinkage = 1 - table["ratio"]
    choice = shrinkage.idxmax()
    if table["meets"].any():
        safe = shrinkage.where(table["meets"]).idxmax()
        if shrinkage[safe] >= _NEARLY * shrinkage[choice]:
            choice = safe
    return float(table["load"][choice])
