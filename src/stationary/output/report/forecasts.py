"""The data of a report's charts: forecasts over a range of loads, and what was measured."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from matplotlib.ticker import MaxNLocator

from stationary import words
from stationary.errors import InputError
from stationary.output.charts import ROUND_STEPS, ForecastChart, Points
from stationary.output.report.answer import Answer, forecast_at, is_compared

if TYPE_CHECKING:
    from stationary.facade import Plan

_POINTS = 15  # loads of a curve that are solved, beside those of the table

_SMOOTH = 150
"""Loads of a curve that is drawn: between those that are solved it bends, and never overshoots."""

_WIDE = 100.0  # ratio of values from which on they are compared by their logarithms
_ROWS = 12  # about how many loads the table has
_MOST_MARKS = 200  # most marks of a chart; where there are more windows, neighbours are pooled
_FARTHEST = 10.0  # a limit beyond so many times the heaviest load is not in the charts
_MOST_MEASURES = 8  # measures that are shown, unless more have bounds


def forecast_chart(
    plan: Plan, answer: Answer, observed: pd.DataFrame | None
) -> tuple[ForecastChart, str]:
    """Forecast over the loads that matter for an answer; also return what all models answer."""
    level, limit = answer.question.level, answer.limit
    loads = plan.windows.loads.numpy()
    seen = float(loads.min()), float(loads.max())
    names = list(dict.fromkeys([answer.measure, *answer.bounds, *plan.draws.measures]))
    later = _checked(observed, plan.draws.measures)
    low, high = _load_range(seen, answer, later["load"].tolist())
    fine = np.linspace(low, high, _POINTS).tolist()
    exact = [limit.load] if limit is not None and low < limit.load < high else []
    shown = sorted({low, high, *round_loads(low, high), *exact})
    names = names[: max(_MOST_MEASURES, len(answer.bounds))]
    curve = forecast_at(plan, sorted({*fine, *shown}), level, names)
    pooled, sentence = _of_all_models(plan, answer, fine)
    chart = ForecastChart(
        _smooth(curve),
        level,
        seen,
        plan.horizon.load,
        (
            Points("windows the fit saw", measured(plan), filled=False),
            Points("measured, not used in the fit", later),
        ),
        answer.bounds,
        limit,
        None if answer.present in seen else answer.present,
        pooled,
        plan.in_seconds,
    )
    return chart, sentence


def _smooth(curve: pd.DataFrame) -> pd.DataFrame:
    """Return a forecast with rows between its own, which stay as they are."""
    exact = curve.set_index("load")
    fine = np.linspace(exact.index.min(), exact.index.max(), _SMOOTH)
    frame = exact.reindex(np.union1d(exact.index, fine))
    for name in ("trusted", "reason"):
        frame[name] = exact[name].reindex(frame.index, method="ffill")
    for name in exact.columns.difference(["trusted", "reason"]):
        known = exact[name][np.isfinite(exact[name])]
        if len(known) > 1:
            # Small probabilities are drawn by their logarithms.
            small = bool((known > 0).all() and known.max() > _WIDE * known.min())
            values = (np.log(known) if small else known).reindex(frame.index)
            values = values.interpolate("pchip", limit_area="inside")
            frame[name] = frame[name].fillna(np.exp(values) if small else values)
    return frame.reset_index(names="load")


def round_loads(low: float, high: float) -> list[float]:
    """Return about a dozen round loads, for a table."""
    ticks = MaxNLocator(_ROWS, steps=ROUND_STEPS).tick_values(low, high)
    return [tick for tick in map(float, ticks) if low <= tick <= high and (tick > 0 or low < 0)]


def _of_all_models(
    plan: Plan, answer: Answer, loads: list[float]
) -> tuple[pd.DataFrame | None, str]:
    """Return what all models forecast and answer by weight, if the plan itself uses one model."""
    if plan.pooled or not is_compared(plan) or not any(plan.comparison.weights.values()):
        return None, ""
    # These models were fitted before; only their draws are made here.
    every = plan.having(pooled=True, refits=None, known_draws=None)
    with suppress(InputError):  # another model may lack the measure
        frame = forecast_at(every, loads, answer.question.level, [answer.measure])
        if answer.limit is None:
            return frame, ""
        names = [name for name, weight in every.weights.items() if weight > 0]
        return frame, words.limit_of(every.limit_of(answer.question), names)
    return None, ""


def _load_range(
    seen: tuple[float, float], answer: Answer, measured: list[float]
) -> tuple[float, float]:
    """Return loads from somewhat below the lightest that matters to well above the heaviest."""
    points = [*seen, answer.present, *measured]
    if answer.limit is not None:
        ends = (answer.limit.low, answer.limit.load, answer.limit.high)
        points += [end for end in ends if 0 < end <= _FARTHEST * abs(seen[1])]
    low, high = min(points), max(points)
    width = (high - low) or abs(high) or 1.0
    above = 0.1 if measured else 0.6  # later measurements show how far one needs to see
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
    if len(frame) > _MOST_MARKS:
        frame = frame.groupby(pd.cut(frame["load"], _MOST_MARKS, labels=False)).mean()
    return frame


def measured(plan: Plan) -> pd.DataFrame:
    """Return measures as the windows themselves show them, if they count every state.

    A measure is left out if the counts do not determine it: it depends on parameters, or on how the
    states of one category share its counts. All are left out if the counts were taken by requests
    that do not see time averages, and in a what-if, whose system was not observed.
    """
    model, windows = plan.model, plan.windows
    nothing = pd.DataFrame({"load": []})
    if plan.change is not None or len(model.inputs) != 1 or not windows.has_states:
        return nothing
    observation = windows.observation(model)
    loads, share = _pooled_shares(windows.loads.numpy(), windows.counts.numpy())
    point = model.at(loads[:, None], model.theta.detach())
    biased = windows.by_arrivals and model.arrivals(point) is not None
    if biased or not bool(observation.observed.all()):
        return nothing
    # Three ways to spread a category's counts over its states: evenly, on the first, on the last.
    # A measure that comes out the same does not depend on the split.
    states = torch.arange(len(observation.category))
    even = share / observation.of(torch.ones(len(states), dtype=share.dtype))
    ways = [observation.to_states(even)]
    for end in ("amin", "amax"):
        chosen = torch.zeros(observation.count, dtype=states.dtype).scatter_reduce(
            0, observation.category, states, end, include_self=False
        )
        ways.append(share.new_zeros(len(share), len(states)).index_copy(1, chosen, share))
    columns = {"load": loads.numpy()}
    for name in plan.draws.measures:
        measure = model.measure(name)
        values = [measure(point.with_pi(pi)) for pi in ways]
        if all(torch.allclose(values[0], other, rtol=1e-9) for other in values[1:]):
            columns[name] = values[0].numpy()
    return pd.DataFrame(columns)


def _pooled_shares(loads: np.ndarray, counts: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return loads and shares of categories; neighbours are pooled if there are many windows."""
    frame = pd.DataFrame(counts).assign(load=loads * counts.sum(1))
    if len(frame) > _MOST_MARKS:
        frame = frame.groupby(pd.cut(loads, _MOST_MARKS, labels=False)).sum()
    load, counts = frame.pop("load").to_numpy(), frame.to_numpy()
    total = counts.sum(1, keepdims=True)
    return torch.from_numpy(load / total[:, 0]), torch.from_numpy(counts / total)
