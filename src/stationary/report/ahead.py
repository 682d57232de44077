"""What the pictures and tables of a report show: forecasts over a range of loads, and data."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.ticker import MaxNLocator

from stationary.errors import InputError
from stationary.inference import Array
from stationary.report.headline import Answer, at_loads
from stationary.result import Fit

_POINTS = 97
"""Loads of a curve."""

_ROWS = 12
"""About how many loads the table has."""

_MOST_MARKS = 200
"""Marks of a picture; where there are more windows, neighbours are added up."""

_FARTHEST = 10.0
"""How many times the heaviest load a limit may lie away and still be in the picture."""


@dataclass(frozen=True, eq=False)
class Ahead:
    """Forecasts over loads, and what was measured.

    Attributes
    ----------
    curve, rows : DataFrame
        What `Fit.forecast` says on a fine grid of loads and at a few round ones; the load is ``x``.
    pooled : DataFrame or None
        The forecast of several models together, on the fine grid.
    seen : (low, high)
        Loads of the data.
    tested : float
        The load beyond which no forecast is trusted.
    learnt, later : DataFrame
        Measured values: of the windows the fit saw, and of others. ``x``, and measures by name.
    """

    curve: pd.DataFrame
    rows: pd.DataFrame
    pooled: pd.DataFrame | None
    seen: tuple[float, float]
    tested: float
    learnt: pd.DataFrame
    later: pd.DataFrame

    def covers(self, load: float) -> bool:
        """Whether a load lies in the pictures."""
        return float(self.curve["x"].min()) < load < float(self.curve["x"].max())


def look_ahead(
    fit: Fit, answer: Answer, level: float, comparison: Any, observed: pd.DataFrame | None
) -> Ahead:
    """Forecast over the loads that matter for an answer."""
    loads = fit.windows.loads.numpy()
    seen = float(loads.min()), float(loads.max())
    later = _checked(fit, observed)
    low, high = _span(seen, answer, later["x"].tolist())
    fine = np.linspace(low, high, _POINTS)
    if answer.limit is not None and low < answer.limit.load < high:
        fine = np.unique(np.append(fine, answer.limit.load))
    ticks = MaxNLocator(_ROWS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    few = [tick for tick in map(float, ticks) if low <= tick <= high and (tick > 0 or seen[0] <= 0)]

    def forecast(grid: list[float]) -> pd.DataFrame:
        return _by_x(fit.forecast(at_loads(fit, grid), level))

    pooled = None
    if comparison is not None:
        with suppress(InputError):  # where the data determines no model there is nothing to pool
            pooled = _by_x(comparison.forecast(at_loads(fit, fine.tolist()), level))
    return Ahead(
        curve=forecast(fine.tolist()),
        rows=forecast(few),
        pooled=pooled,
        seen=seen,
        tested=fit.horizon.load,
        learnt=measured(fit),
        later=later,
    )


def _by_x(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns={frame.columns[0]: "x"})


def _span(seen: tuple[float, float], answer: Answer, loads: list[float]) -> tuple[float, float]:
    """Loads from somewhat below the lightest that matters to well above the heaviest."""
    points = [*seen, answer.present, *loads]
    if answer.limit is not None:
        ends = (answer.limit.low, answer.limit.load, answer.limit.high)
        points += [end for end in ends if 0 < end <= _FARTHEST * abs(seen[1])]
    low, high = min(points), max(points)
    width = (high - low) or abs(high) or 1.0
    above = 0.1 if loads else 0.6  # what was measured shows how far one needs to see
    below = low - 0.1 * width
    return (max(below, low / 2) if low > 0 else below), high + above * width


def _checked(fit: Fit, observed: pd.DataFrame | None) -> pd.DataFrame:
    if observed is None:
        return pd.DataFrame({"x": []})
    names = [name for name in fit.model.measures if name in observed]
    if "x" not in observed or not names:
        raise InputError(
            f"observed needs a column 'x' of loads and one of the measures "
            f"{', '.join(fit.model.measures)}; it has {', '.join(map(str, observed.columns))}"
        )
    frame = observed[["x", *names]].astype(float)
    frame = frame[np.isfinite(frame["x"])]
    if len(frame) <= _MOST_MARKS:
        return frame
    return frame.groupby(_bins(frame["x"].to_numpy())).mean()


def measured(fit: Fit) -> pd.DataFrame:
    """Measures as the windows themselves show them, for those that count every state.

    A measure is left out where the counts do not tell it: where it hangs on parameters, or on how
    the states of one category share its counts.
    """
    model, windows = fit.model, fit.windows
    observation = windows.observation(model)
    nothing = pd.DataFrame({"x": []})
    if len(model.inputs) != 1 or not bool(observation.observed.all()):
        return nothing
    x, counts = _added_up(windows.loads.numpy(), windows.counts.numpy())
    loads = torch.from_numpy(x)[:, None]
    share = torch.from_numpy(counts / counts.sum(1, keepdims=True))
    A = observation.dense()
    # Each category's counts on its first state, on its last, and on all of them alike.
    first = torch.zeros_like(A).scatter_(1, A.argmax(1, keepdim=True), 1.0)
    last = torch.zeros_like(A).scatter_(1, A.shape[1] - 1 - A.flip(1).argmax(1, keepdim=True), 1.0)
    columns = {"x": x}
    point = model.at(loads, model.theta.detach())
    for name in model.measures:
        measure = model.measure(name)
        ways = (A / A.sum(1, keepdim=True), first, last)
        values = [measure(point.with_pi(share @ way)) for way in ways]
        if all(torch.allclose(values[0], other, rtol=1e-9) for other in values[1:]):
            columns[name] = values[0].numpy()
    return pd.DataFrame(columns) if len(columns) > 1 else nothing


def _added_up(x: Array, counts: Array) -> tuple[Array, Array]:
    """Counts of neighbouring loads added up, if there are too many windows for a picture."""
    where = _bins(x) if len(x) > _MOST_MARKS else np.arange(len(x))
    total = counts.sum(1)
    sums = np.zeros((where.max() + 1, counts.shape[1]))
    np.add.at(sums, where, counts)
    return np.bincount(where, x * total) / np.bincount(where, total), sums


def _bins(x: Array) -> Array:
    """Which of many equal steps of load each belongs to, numbered without gaps."""
    edges = np.linspace(x.min(), math.nextafter(x.max(), math.inf), _MOST_MARKS + 1)
    return np.unique(np.digitize(x, edges), return_inverse=True)[1]
