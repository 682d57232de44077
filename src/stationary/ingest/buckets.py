"""Buckets of a Prometheus histogram of queue lengths, to counts of categories of states.

The bucket ``le`` counts observations of at most ``le`` since the system started. What lies between
two neighbouring buckets are the whole numbers above the lower and up to the upper one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.ingest.prometheus_answers import Series
from stationary.terms.categories import Category


def sorted_buckets(series: Sequence[Series], query: str) -> tuple[list[float], Array]:
    """Upper ends of the buckets, infinity last, and their totals ``[buckets, points]``."""
    found: dict[float, Series] = {}
    for one in series:
        try:
            edge = float(one.labels["le"])
        except (KeyError, ValueError):
            raise InputError(
                f"histogram: {query!r} gives a series without a bucket `le`, {one.labels}; take "
                f"the buckets, as in sum by (le) (queue_length_bucket)"
            ) from None
        if edge in found:
            raise InputError(
                f"histogram: {query!r} gives several series for le={one.labels['le']}, such as "
                f"{found[edge].labels} and {one.labels}; add them up, as in sum by (le) ({query})"
            )
        found[edge] = one
    edges = sorted(found)
    if edges[-1] != math.inf or len(edges) < 3:
        raise InputError(
            f"histogram: {query!r} has the buckets {', '.join(f'{edge:g}' for edge in edges)}; "
            f"two and +Inf are needed"
        )
    return edges, np.stack([found[edge].values for edge in edges])


def increases(totals: Array, steps: int) -> tuple[Array, list[int], list[int]]:
    """Return how much totals grew from end to end of each window, ``[windows, buckets]``.

    Totals are ``[buckets, windows * steps + 1]``, NaN where there is no value. Windows in which a
    counter fell, or without a value at their ends, grew by zero; their numbers are returned, too.
    """
    ends = totals[:, ::steps]
    grown = np.diff(ends, axis=1).T
    gap = ~np.isfinite(grown).all(1)
    # Compared with the last value before it, across gaps: a system that restarts leaves one.
    known = np.isfinite(totals)
    last = np.maximum.accumulate(np.where(known, np.arange(totals.shape[1]), 0), axis=1)
    filled = np.take_along_axis(np.where(known, totals, 0.0), last, axis=1)
    fell = (np.diff(filled, axis=1) < 0).any(0).reshape(-1, steps).any(1)
    grown[gap | fell] = 0.0
    return grown, np.flatnonzero(fell).tolist(), np.flatnonzero(gap & ~fell).tolist()


def bins(
    edges: Sequence[float], grown: Array, query: str, capacity: int | None
) -> tuple[NDArray[np.int64], list[Category], int]:
    """Turn the growth of cumulative buckets into counts of sets of states.

    Returns the counts ``[windows, categories]``, the categories, and how many observations lie
    above the last finite bucket and are left out, because without a capacity their states are not
    known. Errors name the expression ``query``.
    """
    apart = np.diff(grown, axis=1, prepend=0.0)
    if (apart < 0).any() or (apart != np.floor(apart)).any():
        raise InputError(
            f"histogram: {query!r} does not count: its buckets must grow by whole numbers, larger "
            f"ones by more; take the buckets themselves, as in sum by (le) "
            f"(queue_length_bucket), no rate"
        )
    lows = [0, *(math.floor(edge) + 1 for edge in edges[:-1])]
    beyond = int(apart[:, -1].sum()) if capacity is None else 0
    top = lows[-1] - 1 if capacity is None else capacity
    if capacity is not None and capacity < lows[-1] - 1:
        raise InputError(
            f"capacity must be at least that of the last bucket, {edges[-2]:g}; got {capacity}"
        )
    kept, observe = [], list[Category]()
    for column, (low, edge) in enumerate(zip(lows, edges, strict=True)):
        states = range(max(low, 0), top + 1 if edge == math.inf else math.floor(edge) + 1)
        if states:
            kept.append(column)
            observe.append(states[0] if len(states) == 1 else states)
        elif apart[:, column].any() and not (edge == math.inf and capacity is None):
            raise InputError(
                f"histogram: {query!r} has observations up to {edge:g} that are no states: queue "
                f"lengths are whole numbers, from 0 to {top}"
            )
    return apart[:, kept].astype(np.int64), observe, beyond
