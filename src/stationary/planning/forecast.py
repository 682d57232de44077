"""Measures over load: one array of draws, its quantiles, and whether to trust them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.learning.draws import Draws
from stationary.learning.inference import KNOWN, OPEN, Link, check_level
from stationary.models.inputs import grid
from stationary.terms.trust import Doubt, Horizon, Reason

NEGLIGIBLE = 1e-6
"""Share below which a probability is known well enough, whatever its logarithm."""

MOST_LOST = 0.02
"""Weight of draws that could not be solved from which an answer is not trusted."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """Measures at some inputs, with intervals.

    Attributes
    ----------
    x : Tensor [G, d]
        Inputs.
    names : tuple of str
        Measures.
    value, low, high : ndarray [G, K]
        Each measure, and the ends of its interval.
    doubts : tuple of Doubt or None
        Why each row is not trusted; None where it is.
    failed : int
        Draws whose chain could not be solved at some input. They widen both ends.
    """

    x: Tensor
    names: tuple[str, ...]
    value: Array
    low: Array
    high: Array
    doubts: tuple[Doubt | None, ...]
    failed: int = 0


def forecast(
    draws: Draws,
    x: Any,
    measures: Sequence[str] | None = None,
    level: float = 0.95,
    doubt: Doubt | None = None,
    horizon: Horizon | None = None,
) -> Forecast:
    """Forecast measures at every input, with intervals.

    The value is that of the estimates for one model, and the median of the draws for several.

    Parameters
    ----------
    draws : Draws
        Models and their parameters.
    x : sequence, array [G, d], mapping or DataFrame
        Inputs.
    measures : sequence of str, optional
        What to forecast; by default what all models have to show.
    level : float
        Coverage of the intervals.
    doubt : Doubt, optional
        A reason not to trust any row, such as a fit that did not converge.
    horizon : Horizon, optional
        Beyond it no row is trusted.
    """
    check_level(level)
    names = draws.measures if measures is None else as_names(measures)
    draws.check_measures(names)
    inputs = grid(draws.first, x)
    centre, values = draws.values(inputs, names)
    ends = (0.5 - level / 2, 0.5, 0.5 + level / 2)
    of = [draws.first.measure(name) for name in names]
    lows, highs = (np.array([getattr(m, end) for m in of]) for end in ("low", "high"))
    low, middle, high = quantiles(values, draws.weights, ends, lows, highs)
    value = centre[0] if len(draws.parts) == 1 else middle
    low, high = np.minimum(low, value), np.maximum(high, value)
    doubts: list[Doubt | None] = [doubt] * len(inputs)
    lost = np.isnan(values)
    for row in np.flatnonzero(((draws.weights[:, None, None] * lost).sum(0) > MOST_LOST).any(-1)):
        doubts[row] = doubts[row] or Doubt(
            Reason.UNSOLVED, names[int(lost[:, row].sum(0).argmax())]
        )
    for k, measure in enumerate(of):
        for row in np.flatnonzero(_is_open(Link(measure), value[:, k], low[:, k], high[:, k])):
            doubts[row] = doubts[row] or Doubt(Reason.OPEN, names[k])
    if horizon is not None:
        beyond = Doubt(Reason.HORIZON, horizon=horizon)
        far = inputs[:, 0].numpy() > horizon.load
        doubts = [old or (beyond if f else None) for old, f in zip(doubts, far, strict=True)]
    failed = int(lost.any((1, 2)).sum())
    return Forecast(inputs, tuple(names), value, low, high, tuple(doubts), failed)


def as_names(measures: Any) -> tuple[str, ...]:
    """Return the names of measures, checked to be several or one."""
    if not isinstance(measures, Iterable):
        raise InputError(f"measures must be names, as in measures=['loss']; got {measures!r}")
    names = (measures,) if isinstance(measures, str) else tuple(measures)
    if not names:
        raise InputError("there is nothing to forecast: name a measure, as in measures=['loss']")
    return names


def quantiles(
    values: Array, weights: Array, at: Sequence[float], lows: Array, highs: Array
) -> Array:
    """Weighted quantiles ``[Q, G, K]`` of draws ``[B, G, K]``, by one sort.

    Draws that could not be solved may be anything: they count as the smallest value where a low
    quantile is asked for and as the largest where a high one is.
    """
    order = np.argsort(values, axis=0)  # NaN last
    ranked, weight = np.take_along_axis(values, order, 0), weights[order]
    lost = np.isnan(ranked)
    gone, last = (weight * lost).sum(0), np.maximum((~lost).sum(0) - 1, 0)
    # Where each draw stands on the way from 0 to 1; those that are lost stand nowhere.
    stands = np.where(lost, np.inf, np.cumsum(weight, 0) - weight / 2)
    return np.stack([_quantile(ranked, stands, gone, last, q, lows, highs) for q in at])


def _quantile(
    ranked: Array, stands: Array, gone: Array, last: Array, q: float, lows: Array, highs: Array
) -> Array:
    place = q - gone * (1.0 if q < 0.5 else 0.5 if q == 0.5 else 0.0)
    right = np.minimum((stands < place).sum(0), last)
    left = np.maximum(right - 1, 0)
    a, b, at_a, at_b = (
        np.take_along_axis(table, where[None], 0)[0]
        for table in (ranked, stands)
        for where in (left, right)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(np.where(at_b > at_a, (place - at_a) / (at_b - at_a), 1.0), 0.0, 1.0)
        # Between two draws of which one is infinite there is nothing to interpolate.
        value = np.where(np.isfinite(a) & np.isfinite(b), a + share * (b - a), b)
    value = np.where((place < 0) | (np.isnan(value) & (q < 0.5)), lows, value)
    return np.where((place > 1 - gone) | np.isnan(value), highs, value)


def _is_open(link: Link, value: Array, low: Array, high: Array) -> Array:
    """Where an interval says too little to be trusted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        half = (link.to(link.inside(high)) - link.to(link.inside(low))) / 2
        half = half / np.abs(value) if link.free else half
    known = np.maximum(high - value, value - low) <= KNOWN * np.abs(value)
    if link.bounded:
        known |= high - link.low <= NEGLIGIBLE * link.width
    return np.asarray(~(half <= OPEN) & ~known)
