"""What the pictures and tables of a report show: forecasts over a range of loads, and data."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from matplotlib.ticker import MaxNLocator

from stationary import words
from stationary._support.types import Array
from stationary.errors import InputError
from stationary.output.report.headline import Answer, forecast_at, is_compared

if TYPE_CHECKING:
    from stationary.facade import Plan

_POINTS = 49
"""Loads of a curve."""

_ROWS = 12
"""About how many loads the table has."""

_MOST_MARKS = 200
"""Marks of a picture; where there are more windows, neighbours are added up."""

_FARTHEST = 10.0
"""How many times the heaviest load a limit may lie away and still be in the picture."""


_MOST_SMALL = 6
"""Measures shown beside that of the answer."""


@dataclass(frozen=True, eq=False)
class Ahead:
    """Forecasts over loads, and what was measured.

    Attributes
    ----------
    curve : DataFrame
        What `Plan.forecast` says on a fine grid of loads; the load is ``load``.
    rows : DataFrame
        A few rows of it, at round loads.
    names : tuple of str
        The measures that are shown, that of the answer first.
    pooled : DataFrame or None
        The forecast of several models together, beside that of one, of the answer's measure.
    together : str
        The largest load by several models together, beside that of one; empty without them.
    seen : (low, high)
        Loads of the data.
    tested : float
        The load beyond which no forecast is trusted.
    learnt, later : DataFrame
        Measured values: of the windows the fit saw, and of others. ``load``, and measures by name.
    """

    curve: pd.DataFrame
    rows: pd.DataFrame
    names: tuple[str, ...]
    pooled: pd.DataFrame | None
    together: str
    seen: tuple[float, float]
    tested: float
    learnt: pd.DataFrame
    later: pd.DataFrame

    def covers(self, load: float) -> bool:
        """Whether a load lies in the pictures."""
        return float(self.curve["load"].min()) < load < float(self.curve["load"].max())


def look_ahead(plan: Plan, answer: Answer, observed: pd.DataFrame | None) -> Ahead:
    """Forecast over the loads that matter for an answer."""
    level = answer.question.level
    loads = plan.windows.loads.numpy()
    seen = float(loads.min()), float(loads.max())
    names = tuple(dict.fromkeys([answer.measure, *answer.bounds, *plan.draws.measures]))
    names = names[: max(1 + _MOST_SMALL, len(answer.bounds))]
    later = _checked(observed, plan.draws.measures)
    low, high = _span(seen, answer, later["load"].tolist())
    fine = np.linspace(low, high, _POINTS)
    ticks = MaxNLocator(_ROWS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    few = [tick for tick in map(float, ticks) if low <= tick <= high and (tick > 0 or seen[0] <= 0)]
    exact = [answer.limit.load] if answer.limit is not None else []
    union = np.unique([*fine, *few, *(load for load in exact if low < load < high)])
    curve = forecast_at(plan, union.tolist(), level, names)
    pooled, together = _all_models(plan, answer, fine.tolist())
    return Ahead(
        curve=curve,
        rows=curve[curve["load"].isin(few)],
        names=names,
        pooled=pooled,
        together=together,
        seen=seen,
        tested=plan.horizon.load,
        learnt=measured(plan),
        later=later,
    )


def _all_models(plan: Plan, answer: Answer, loads: list[float]) -> tuple[pd.DataFrame | None, str]:
    """Return what all models say by weight, beside a plan that answers by one of them."""
    if plan.pooled or not is_compared(plan) or not any(plan.comparison.weights.values()):
        return None, ""
    # Draws of models that were fitted before: nothing is fitted here.
    every = plan.having(pooled=True, refits=None, known_draws=None)
    with suppress(InputError):  # another model may lack the measure
        frame = forecast_at(every, loads, answer.question.level, [answer.measure])
        if answer.limit is None:
            return frame, ""
        return frame, words.pooled(every.limit_of(answer.question))
    return None, ""


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


def _checked(observed: pd.DataFrame | None, measures: tuple[str, ...]) -> pd.DataFrame:
    if observed is None:
        return pd.DataFrame({"load": []})
    names = [name for name in measures if name in observed]
    if "load" not in observed or not names:
        raise InputError(
            f"observed needs a column 'load' and one of the measures {', '.join(measures)}; it has "
            f"{', '.join(map(str, observed.columns))}"
        )
    frame = observed[["load", *names]].astype(float)
    frame = frame[np.isfinite(frame["load"])]
    if len(frame) <= _MOST_MARKS:
        return frame
    return frame.groupby(_bins(frame["load"].to_numpy())).mean()


def measured(plan: Plan) -> pd.DataFrame:
    """Measures as the windows themselves show them, for those that count every state.

    A measure is left out where the counts do not tell it: where it hangs on parameters, or on how
    the states of one category share its counts. Nothing is left where requests counted that do not
    see time averages, nor in a what-if, whose system was not observed.
    """
    model, windows = plan.model, plan.windows
    nothing = pd.DataFrame({"load": []})
    if plan.change is not None or len(model.inputs) != 1 or not windows.has_states:
        return nothing
    observation = windows.observation(model)
    x, counts = _added_up(windows.loads.numpy(), windows.counts.numpy())
    point = model.at(torch.from_numpy(x)[:, None], model.theta.detach())
    unlike = windows.by_arrivals and model.arrivals(point) is not None
    if unlike or not bool(observation.observed.all()):
        return nothing
    share = torch.from_numpy(counts / counts.sum(1, keepdims=True))
    # Each category's counts on all of its states alike, on its first, and on its last.
    states = torch.arange(len(observation.category))
    alike = share / observation.of(torch.ones(len(states), dtype=share.dtype))
    ways = [observation.to_states(alike)]
    for end in ("amin", "amax"):
        chosen = torch.zeros(observation.count, dtype=states.dtype).scatter_reduce(
            0, observation.category, states, end, include_self=False
        )
        ways.append(share.new_zeros(len(share), len(states)).index_copy(1, chosen, share))
    columns = {"load": x}
    for name in plan.draws.measures:
        measure = model.measure(name)
        values = [measure(point.with_pi(pi)) for pi in ways]
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
