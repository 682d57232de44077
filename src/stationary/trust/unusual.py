"""Windows unlike others at their load: a mix of two loads, bunched arrivals, a stall.

They are found without a model, so that no window is put down to fit one: what a window counted is
compared with a line through the windows of nearly the same load, by medians (Theil and Sen). With a
mean queue length L, that is `L / (1 + L)`: in a queue with one server it is proportional to the
load, and its variance to itself over the number of counts, also at the heaviest load, where lengths
bend upwards and scatter widely. How far such a line is usually off is read from the windows around.
Of windows with nothing wrong, one in a hundred is found; of bunched ones 70 to 95 %, of those in
which a client stalled for a second 75 to 90 %, in which the server did about half.
"""

from __future__ import annotations

import numpy as np
import torch

from stationary._support.types import Array
from stationary.data import Counts
from stationary.data.numbers import distinct_rows
from stationary.data.windows import Windows

_FEWEST = 10  # windows below which nothing is said
_NEIGHBOURS = 6
_AROUND = 20, 200
"""Fewest and most windows that show how far a line through neighbours is usually off."""

_FAR = 3.5  # times the usual distance from which a window is unlike its neighbours
_WEIGHT = 0.05  # what such a window counts in a fit
_MAD = 1.4826  # standard deviation of a normal distribution by its median absolute deviation


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
    found: list[int] = []
    others = windows.x.clone()
    others[:, 0] = 0.0
    _, group = distinct_rows(others)
    for setting in group.unique():  # of inputs other than the load
        rows = ((kind.size > 0) & (group == setting)).nonzero()[:, 0]
        if len(rows) >= _FEWEST:
            unlike = _unlike_neighbours(windows.loads[rows].numpy(), kind.data[rows].numpy())
            found += rows[torch.from_numpy(unlike)].tolist()
    return sorted(found)


def _unlike_neighbours(loads: Array, counts: Array) -> Array:
    """Whether the counts ``[M, C]`` of each window are unlike those at nearly the same load."""
    order = np.argsort(loads, kind="stable")
    size, load, counts = len(order), loads[order], counts[order]
    total = counts.sum(1)
    mean = counts @ np.arange(counts.shape[1]) / total
    full = mean / (1 + mean)
    near = _around(size, _NEIGHBOURS + 1)
    near = near[near != np.arange(size)[:, None]].reshape(size, _NEIGHBOURS)
    line = _lines(load[near] - load[:, None], full[near])
    usual = np.maximum(np.median(full[near], 1), np.finfo(float).tiny)
    off = np.abs(full - line) * np.sqrt(total / usual)
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
