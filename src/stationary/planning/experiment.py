"""The next experiment: the load at which a short test would tell most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from stationary.derivatives import jacobian
from stationary.errors import InputError
from stationary.forecast import grid
from stationary.inference import Array, Covariance, check_level, interval
from stationary.limits import check_measure
from stationary.models import Point
from stationary.planning.information import Knowledge
from stationary.result import Fit

_CANDIDATES = 12

_NEARLY = 0.9
"""Share of the best shrinkage from which a load that breaks no bound is the better choice."""

_HARDLY = 0.05
"""Shrinkage below which a test is not worth its name."""

Ends = tuple[float, float, float]
"""Low, high and half-width of an interval, the last on the scale it is built on."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """What more windows at each of some loads would do to the interval of an answer.

    Attributes
    ----------
    table : DataFrame
        For each load ``x``: the half-width of the interval now and after (``width_now``,
        ``width_after``, in e-folds), their ``ratio``, the interval then (``low``, ``high``) and,
        where the answer is a limit, whether the load ``meets`` it.
    best : float
        The load to test at: where the interval shrinks most, or a load that meets the bound where
        it shrinks nearly as much.
    windows : int
        How many more windows.
    answer : str
        What the interval is of.
    now : (float, float)
        The interval as it is.
    """

    table: pd.DataFrame
    best: float
    windows: int
    answer: str
    now: tuple[float, float]

    def __str__(self) -> str:
        rows = self.table.set_index("x", drop=False)
        best, top = rows.loc[self.best], rows.loc[rows["ratio"].idxmin()]
        worst = rows.loc[rows["ratio"].idxmax()]
        tested = f"{self.windows} more window{'s' * (self.windows != 1)}"
        if top["ratio"] > 1 - _HARDLY:
            return f"{tested} would hardly shrink the interval of {self.answer} at any of the loads"
        text = (
            f"{tested} at load {self.best:g} would shrink the interval of {self.answer} from "
            f"{_span(*self.now)} to {_span(best['low'], best['high'])}"
        )
        if worst["ratio"] > 1 - _HARDLY:
            text += f"; at load {worst['x']:g} hardly at all"
        elif len(rows) > 1:
            text += f"; at load {worst['x']:g} only to {_span(worst['low'], worst['high'])}"
        if "meets" not in rows:
            return text
        if not best["meets"]:
            text += f". Load {self.best:g} is above the limit, so that a test there costs customers"
            kept = rows[rows["meets"]]
            if len(kept):
                safe = kept.loc[kept["ratio"].idxmin()]
                span = _span(safe["low"], safe["high"])
                text += f"; below it, load {safe['x']:g} does most: {span}"
        elif not top["meets"]:
            text += (
                f". Load {top['x']:g} would do little more, {_span(top['low'], top['high'])}, and "
                f"is above the limit"
            )
        return text


def next_experiment(
    fit: Fit,
    loads: Any = None,
    *,
    windows: int = 10,
    level: float = 0.95,
    measure: str | None = None,
    at: float | None = None,
    **bound: float,
) -> Experiment:
    """Say at which load a short test would shrink the interval of an answer most.

    The answer is a limit on the load, as in ``loss=0.001``, or a measure at a load, as in
    ``measure="loss", at=40.0``. A test is some more windows like those there are, as
    `stationary.planning.information` spells out; it supposes that the model is right. Say how long
    the windows were (``Windows(duration=)``): near saturation a system changes slowly, and a window
    there tells less than its counts.

    Parameters
    ----------
    fit : Fit
        A fit of the system as it is.
    loads : sequence, optional
        Candidates; by default 12, from the lightest observed to half more than the limit.
    windows : int
        Length of the test, in windows.
    level : float
        Coverage of the intervals.
    measure, at, **bound
        The answer.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=1, capacity=10, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[5.0, 6.0, 7.0] * 10, duration=10.0, seed=0)
    >>> fit = st.fit(st.models.MMmK(servers=1, capacity=10), windows.observing([0, 1]))
    >>> test = next_experiment(fit, loads=[5.0, 10.0, 15.0], loss=0.01)
    >>> test.best
    10.0
    >>> print(test)
    10 more windows at load 10 would shrink the interval of the load limit (loss <= 0.01) from ...
    """
    check_level(level)
    if isinstance(windows, bool) or not isinstance(windows, int) or windows < 1:
        raise InputError(f"windows must be a whole number of at least 1; got {windows!r}")
    fit.check_observed("the next experiment")
    if not fit.converged:
        raise InputError("the fit did not converge, so what it knows cannot be told: fit again")
    if measure is not None or at is not None:
        if measure is None or at is None or bound:
            raise InputError(_what_to_ask(bound))
        answer, centre, ends = _measure_at(fit, measure, at, level)
    else:
        if len(bound) != 1:
            raise InputError(_what_to_ask(bound))
        answer, centre, ends = _limit(fit, level, **bound)
    if loads is None:
        lightest = float(fit.windows.loads.min())
        spread = np.linspace(min(lightest, centre / 2), 1.5 * centre, _CANDIDATES)
        loads = [float(f"{load:.3g}") for load in spread]
    candidates = np.unique(grid(fit.model, loads)[:, 0].numpy())
    low, high, width = ends(fit.covariance)
    if not width > 0:
        raise InputError(f"{answer} is as good as known: a test has nothing to tell")
    after = [ends(cov) for cov in Knowledge.of(fit).after(candidates, windows)]
    table = pd.DataFrame(
        {
            "x": candidates,
            "width_now": width,
            "width_after": [half for _, _, half in after],
            "ratio": [half / width for _, _, half in after],
            "low": [end for end, _, _ in after],
            "high": [end for _, end, _ in after],
        }
    )
    if bound:
        table["meets"] = table["x"] <= centre
    return Experiment(table, _best(table), windows, answer, (low, high))


def _what_to_ask(bound: dict[str, float]) -> str:
    return (
        f"next_experiment takes one bound, as in loss=0.001, or a measure at a load, as in "
        f"measure='loss', at=40.0; got the bounds {sorted(bound)}"
    )


def _best(table: pd.DataFrame) -> float:
    """Load that shrinks the interval most, or nearly so without breaking the bound."""
    shrinkage = 1 - table["ratio"]
    choice = shrinkage.idxmax()
    if "meets" in table and table["meets"].any():
        safe = shrinkage.where(table["meets"]).idxmax()
        if shrinkage[safe] >= _NEARLY * shrinkage[choice]:
            choice = safe
    return float(table["x"][choice])


def _limit(
    fit: Fit, level: float, **bound: float
) -> tuple[str, float, Callable[[Covariance], Ends]]:
    """The limit's name, its value, and its interval for a covariance, by the implicit function."""
    limit = fit.max_load(level, **bound)
    if not 0 < limit.load < math.inf:
        raise InputError(f"{replace(limit, reason='')}: a test has no limit to tell better")
    slope = _slopes(fit, limit.measure, limit.load)
    along = -slope[:-1] / slope[-1]
    now = _half(along, fit.covariance, level)
    known = limit.low > 0 and limit.high < math.inf

    def ends(cov: Covariance) -> Ends:
        half = _half(along, cov, level)
        if not known:
            with np.errstate(over="ignore"):
                return limit.load * float(np.exp(-half)), limit.load * float(np.exp(half)), half
        # The interval of `max_load` is not quite symmetric: shrink it as it is.
        low, high = (
            limit.load * (end / limit.load) ** (half / now) for end in (limit.low, limit.high)
        )
        return low, high, half

    return f"the load limit ({limit.measure} <= {limit.bound:g})", limit.load, ends


def _measure_at(
    fit: Fit, measure: str, at: float, level: float
) -> tuple[str, float, Callable[[Covariance], Ends]]:
    """The measure's name, its load, and its interval for a covariance."""
    check_measure(fit.model, measure)
    load = float(grid(fit.model, [at])[0, 0])
    value = fit.forecast([load], level)[measure].to_numpy()
    slope = _slopes(fit, measure, load)[None, :-1]

    def ends(cov: Covariance) -> Ends:
        low, high, half = interval(value, slope, cov, fit.model.measure(measure), level)
        return float(low[0]), float(high[0]), float(half[0])

    return f"{measure.replace('_', ' ')} at load {load:g}", load, ends


def _slopes(fit: Fit, measure: str, load: float) -> Array:
    """Derivatives ``[P + 1]`` of a measure by the free parameters and by the log of the load."""
    scale = fit.covariance.scale

    def value(free: Tensor) -> Tensor:
        x, theta = free[-1:].exp()[:, None], scale.natural(free[:-1])
        return fit.model.measure(measure)(Point(fit.model, x, theta))

    z = scale.free(fit.model.theta.detach()).numpy()
    return jacobian(value, np.append(z, math.log(load)))[0]


def _half(slope: Array, cov: Covariance, level: float) -> float:
    return cov.quantile(level) * math.sqrt(max(float(slope @ cov.matrix @ slope), 0.0))


def _span(low: float, high: float) -> str:
    return f"{low:.4g}..{'any' if high == math.inf else f'{high:.4g}'}"
