"""Measures over load: one array of draws, its quantiles, and whether to trust them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from stationary import words
from stationary._support.types import Array
from stationary.errors import InputError
from stationary.learning.draws import Draws
from stationary.learning.inference import KNOWN, OPEN, Link
from stationary.terms.measures import as_names
from stationary.terms.slo import check_level
from stationary.terms.trust import Doubt, Horizon, Reason

NEGLIGIBLE = 1e-4
"""Share below which a probability is known well enough, whatever its logarithm."""

RESOLVED = 1e-8
"""Probability below which solvers that are only normwise accurate may have no correct digit."""

_FEWER = 256  # draws of each model for percentiles

MOST_LOST = 0.02
"""Weight of draws that could not be solved from which an answer is not trusted."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Measures at some inputs, with intervals."""

    x: Tensor  # [G, d]
    inputs: tuple[str, ...]  # their names; a single input is called load
    names: tuple[str, ...]  # of the measures
    value: Array  # [G, K]
    low: Array
    high: Array
    doubts: tuple[Doubt | None, ...]  # why each row is not trusted; None where it is
    failed: int = 0  # draws not solved at some input, which widen both ends

    def frame(self) -> pd.DataFrame:
        """Return one row per input, with ``trusted`` and the ``reason`` if it is not."""
        columns: dict[str, Any] = dict(zip(self.inputs, self.x.numpy().T, strict=True))
        for k, name in enumerate(self.names):
            ends = {"": self.value, "_low": self.low, "_high": self.high}
            columns |= {f"{name}{end}": values[:, k] for end, values in ends.items()}
        columns["trusted"] = np.array([doubt is None for doubt in self.doubts])
        reasons = ["" if doubt is None else words.doubt(doubt) for doubt in self.doubts]
        return pd.DataFrame({**columns, "reason": np.array(reasons, dtype=object)})


def forecast(
    draws: Draws,
    x: Any,
    measures: Sequence[str] | None = None,
    level: float = 0.95,
    doubt: Doubt | None = None,
    horizon: Horizon | None = None,
) -> Forecast:
    """Forecast measures at every input, with intervals.

    The value is that of the estimates for one model, and the median of the draws for several. By
    default the measures are those that all models show. No row is trusted where there is a
    ``doubt``, such as a fit that did not converge, and none beyond the ``horizon``.
    """
    check_level(level)
    names = names_for(draws, measures)
    model = draws.first
    inputs = model.as_inputs(x, least=1)
    shown = [model.measure(name) for name in names]
    # A percentile is the root of an equation per draw and load: fewer draws tell its ends.
    slow = np.array([measure.share is not None for measure in shown])
    value, low, high, lost = np.empty((4, len(inputs), len(names)))
    failed = 0
    for which, some in ((~slow, draws), (slow, draws.thinned(_FEWER))):
        if which.any():
            chosen = [names[k] for k in np.flatnonzero(which)]
            *found, unsolved = _summary(some, inputs, chosen, level)
            value[:, which], low[:, which], high[:, which], lost[:, which] = found
            failed = max(failed, unsolved)
    links = [Link(measure) for measure in shown]
    open_ = [_is_open(link, value[:, k], low[:, k], high[:, k]) for k, link in enumerate(links)]
    # A row keeps the first doubt of these, each about the first measure that it holds for.
    reasons = {
        Reason.UNDEFINED: np.isnan(value) | np.isnan(low) | np.isnan(high),
        Reason.UNSOLVED: lost > MOST_LOST,
        Reason.OPEN: np.stack(open_, -1),
        Reason.ROUNDING: _is_rounding(draws, inputs, links, value),
    }
    far = np.zeros(len(inputs), bool)
    if horizon is not None:
        far = inputs[:, 0].numpy() > horizon.load
    doubts = [doubt] * len(inputs)
    for row in range(len(inputs) if doubt is None else 0):
        held = (
            Doubt(reason, names[int(where[row].argmax())])
            for reason, where in reasons.items()
            if where[row].any()
        )
        doubts[row] = next(held, Doubt(Reason.HORIZON, horizon=horizon) if far[row] else None)
    columns = model.inputs if len(model.inputs) > 1 else ("load",)
    return Forecast(inputs, columns, tuple(names), value, low, high, tuple(doubts), failed)


def _summary(
    draws: Draws, inputs: Tensor, names: Sequence[str], level: float
) -> tuple[Array, Array, Array, Array, int]:
    """Value, ends and weight of unsolved draws ``[G, K]``, and how many draws were not solved."""
    values = draws.values(inputs, names)
    centre = draws.centre(inputs, names)  # which curves of a large chain know by now
    shown = [draws.first.measure(name) for name in names]
    lowest, highest = (np.array([getattr(m, end) for m in shown]) for end in ("low", "high"))
    low, middle, high = quantiles(values, draws.weights, three(level), lowest, highest)
    value = middle if centre is None else centre
    unsolved = np.isnan(values)
    lost = np.einsum("b,bgk->gk", draws.weights, unsolved)
    ends = np.minimum(low, value), np.maximum(high, value)
    return value, *ends, lost, int(unsolved.any((1, 2)).sum())


def names_for(draws: Draws, measures: Any = None) -> tuple[str, ...]:
    """Return the names of measures to forecast, by default all, or raise if there are none."""
    names = draws.measures if measures is None else as_names(measures, "measures", "loss")
    if not names:
        raise InputError(
            "the model has no measures, so there is nothing to forecast: override "
            "Model.measures, or pass measures= to FromFunction"
        )
    draws.check_measures(names)
    return names


def three(level: float) -> tuple[float, float, float]:
    """Probabilities of the ends and the middle of an interval of this coverage."""
    return 0.5 - level / 2, 0.5, 0.5 + level / 2


def quantiles(
    values: Array, weights: Array, at: Sequence[float], lows: Array, highs: Array
) -> Array:
    """Weighted quantiles ``[Q, G, K]`` of draws ``[B, G, K]``, by one sort.

    Draws that could not be solved may be anything: they count as the smallest value where a low
    quantile is asked for and as the largest where a high one is.
    """
    order = np.argsort(values, axis=0)  # NaN last
    ranked, weight = np.take_along_axis(values, order, 0), weights[order]
    unsolved = np.isnan(ranked)
    lost, last = (weight * unsolved).sum(0), np.maximum((~unsolved).sum(0) - 1, 0)
    # Each solved draw stands for the quantile in the middle of its own weight.
    places = np.where(unsolved, np.inf, np.cumsum(weight, 0) - weight / 2)
    return np.stack([_quantile(ranked, places, lost, last, q, lows, highs) for q in at])


def _quantile(
    ranked: Array, places: Array, lost: Array, last: Array, q: float, lows: Array, highs: Array
) -> Array:
    # Below the median, unsolved draws come first in the order; above it, last.
    place = q - lost * (1.0 if q < 0.5 else 0.5 if q == 0.5 else 0.0)
    right = np.minimum((places < place).sum(0), last)
    left = np.maximum(right - 1, 0)
    a, b, at_a, at_b = (
        np.take_along_axis(table, where[None], 0)[0]
        for table in (ranked, places)
        for where in (left, right)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(np.where(at_b > at_a, (place - at_a) / (at_b - at_a), 1.0), 0.0, 1.0)
        # Between two draws of which one is infinite there is nothing to interpolate.
        value = np.where(np.isfinite(a) & np.isfinite(b), a + share * (b - a), b)
    value = np.where((place < 0) | (np.isnan(value) & (q < 0.5)), lows, value)
    return np.where((place > 1 - lost) | np.isnan(value), highs, value)


def half_width(link: Link, value: Array, low: Array, high: Array) -> Array:
    """Half the width of an interval on the scale of its measure: in e-folds, or relative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        half = (link.to(high) - link.to(low)) / 2
        return np.asarray(half / np.abs(value) if link.free else half)


def is_rounding(link: Link, value: Array) -> Array:
    """Where a probability is below the error that solvers of large chains may make."""
    return np.asarray(link.bounded & (value - link.low < RESOLVED * link.width))


def _is_rounding(draws: Draws, inputs: Tensor, links: list[Link], value: Array) -> Array:
    """Where a probability is below the error of the solver that its chain needs."""
    small = np.stack([is_rounding(link, value[:, k]) for k, link in enumerate(links)], -1)
    rows = np.flatnonzero(small.any(-1))[:1]  # which solver it is depends on the chain
    return small & bool(len(rows) and not draws.is_entrywise(inputs[rows]))


def _is_open(link: Link, value: Array, low: Array, high: Array) -> Array:
    """Where an interval is too wide to be trusted."""
    with np.errstate(invalid="ignore"):  # what is infinite or NaN is not known
        known = np.maximum(high - value, value - low) <= KNOWN * np.abs(value)
    if link.bounded:
        known |= high - link.low <= NEGLIGIBLE * link.width
    return np.asarray(~(half_width(link, value, low, high) <= OPEN) & ~known)
