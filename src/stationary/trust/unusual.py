"""Windows unlike others at their load: a mix of two loads, bunched arrivals, a stall.

They are found without a model, so that no window is put down to fit one: what a window counted is
compared with a line through the windows of nearly the same load, by medians (Theil and Sen). Counts
are correlated the more, the heavier the load, so how far such a line is usually off is read from
the windows around. Of windows with nothing wrong, 1 or 2 % are found, of the three kinds above 50
to 90 %.
"""

from __future__ import annotations

import numpy as np
import torch

from stationary._support.types import Array
from stationary.data import Counts
from stationary.data.numbers import distinct_rows
from stationary.data.windows import Windows

_FEWEST = 10
"""Windows below which nothing is said."""

_NEIGHBOURS = 6
_AROUND = 20, 200
"""Fewest and most windows that show how far a line through neighbours is usually off."""

_FAR = 5.0
"""Times the usual distance from which a window is unlike its neighbours."""

_WEIGHT = 0.05
"""What such a window counts in a fit."""

_MAD = 1.4826
"""Standard deviation of a normal distribution by its median absolute deviation."""


def weigh_unusual(windows: Windows) -> Windows:
    """Let windows that are unlike others at their load count little, where a fit uses counts.

    Service times do not depend on when requests come, and are left as they are.
    """
    if windows.weights is not None or not all(isinstance(k, Counts) for k in windows.observations):
        return windows
    weights = np.ones(len(windows))
    weights[unusual(windows)] = _WEIGHT
    return windows.weighed(weights) if weights.min() < 1 else windows


def unusual(windows: Windows) -> list[int]:
    """Positions of the windows whose counts are unlike those of others at nearly their load."""
    kind = windows.counted
    if kind is None or kind.independent or windows.is_pooled:
        return []
    usable = (kind.size > 0) & (windows.loads > 0)
    found: list[int] = []
    others = windows.x.clone()
    others[:, 0] = 0.0
    _, group = distinct_rows(others)
    for setting in group.unique():  # of inputs other than the load
        rows = (usable & (group == setting)).nonzero()[:, 0]
        if len(rows) >= _FEWEST:
            unlike = _unlike_neighbours(windows.loads[rows].numpy(), kind.data[rows].numpy())
            found += rows[torch.from_numpy(unlike)].tolist()
    return sorted(found)


def _unlike_neighbours(loads: Array, counts: Array) -> Array:
    """Whether the counts ``[M, C]`` of each window are unlike those at nearly the same load."""
    order = np.argsort(loads, kind="stable")
    size = len(order)
    load, counts, column = np.log(loads[order]), counts[order], np.arange(counts.shape[1])
    total = counts.sum(1)
    shares = counts / total[:, None]
    mean = shares @ column
    variance = shares @ column**2 - mean**2
    near = _around(size, _NEIGHBOURS + 1)
    near = near[near != np.arange(size)[:, None]].reshape(size, _NEIGHBOURS)
    line = _lines(load[near] - load[:, None], mean[near])
    spread = np.maximum(np.median(variance[near], 1), np.finfo(float).tiny)
    off = np.abs(mean - line) * np.sqrt(total / spread)
    least, most = _AROUND
    around = _around(size, min(size, max(least, min(size // 2, most))))
    unlike = np.empty(size, dtype=bool)
    unlike[order] = off > _FAR * _MAD * np.median(off[around], 1)
    return unlike


def _around(size: int, count: int) -> Array:
    """Positions ``[size, count]`` of those around each, itself included."""
    first = np.clip(np.arange(size) - count // 2, 0, size - count)
    return np.asarray(first[:, None] + np.arange(count))


def _lines(x: Array, y: Array) -> Array:
    """Values at zero of a line through each row of points, ``[M]``."""
    first, second = np.triu_indices(x.shape[1], 1)
    run, rise = x[:, first] - x[:, second], y[:, first] - y[:, second]
    slope = np.median(np.divide(rise, run, out=np.zeros_like(rise), where=run != 0), 1)
    return np.asarray(np.median(y - slope[:, None] * x, 1))
