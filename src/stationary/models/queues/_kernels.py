"""The recursion of `Service` without gradients, compiled: what draws and searches ask for.

Everything is as in `stationary.models.queues.service`, in loops. Probabilities of long queues are
kept in units of how fast they grow, so that they neither over- nor underflow: ``T_k`` and ``M_k``
below are divided by ``growth ** (k - 1)``.
"""

from __future__ import annotations

import math

import numba
import numpy as np

STEPS = 12
"""Steps towards the ratio of successive probabilities, by which the recursion is scaled."""

FALLING = 0.95
"""Ratio of successive probabilities below which their rest is a geometric series."""

SMALL = 1e-9
"""Probability below which what is left of 1 has too few digits."""

TINY = 1e-150
"""Stands for zero where a logarithm follows."""

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def deaths(load, turn, variability, top, deep, most, out):
    """Fill in the rates ``[R, room]`` out of 1 to ``room`` requests."""
    kinds, room = turn.shape[1], out.shape[1]
    known = min(kinds, deep)
    # At least k arrivals, and the expected number beyond k, during services of each kind.
    at_least, more = np.empty((known, most + 2)), np.empty((known, most + 2))
    others = np.empty((2, most + 2))
    growth, none = np.empty(kinds), np.empty(known)
    y, units = np.empty(deep), np.empty(known)
    for row in range(len(load)):
        at, c2, down, full = load[row], variability[row], out[row], int(top[row])
        for k in range(kinds):
            growth[k] = _growth(at * turn[row, k], c2)
        for k in range(known):
            none[k] = _arrivals(at * turn[row, k], c2, growth[k], most, at_least[k], more[k])
        units[:] = 1.0
        y[0] = 1.0
        for r in range(deep - 1):
            grown = growth[min(r, kinds - 1)]
            total = at_least[0, r + 1] / growth[0]
            if kinds > 1:
                for c in range(r):
                    units[c] *= growth[c] / grown
                total *= units[0] if r else 1.0
                for c in range(r):
                    total += y[c + 1] * at_least[c, r - c + 1] * units[c]
            else:
                for c in range(r):
                    total += y[c + 1] * at_least[0, r - c + 1]
            y[r + 1] = total / none[min(r, kinds - 1)]
            down[r] = at * y[r] / y[r + 1] / grown
        for j in range(deep - 1, room - 1):
            slower = turn[row, deep - 1] / turn[row, j] if kinds > 1 else 1.0
            down[j] = down[deep - 2] * slower
        # Expected numbers turned away per service, in units of how likely the longest queue is.
        away, log_x = 0.0, 0.0
        for n in range(full - 1, -1, -1):
            if n < full - 1:
                log_x += math.log(down[n] / at)
            begins = max(n, 1)
            free, k = full - begins, min(begins - 1, kinds - 1)
            if free >= most:
                break
            if full == 1:
                away = at * turn[row, 0]
            elif free > 0:
                if k >= known:
                    _arrivals(at * turn[row, k], c2, growth[k], most, others[0], others[1])
                beyond = others[1, free] if k >= known else more[k, free]
                away += math.exp(log_x + (free - 1) * math.log(growth[k])) * beyond
        if room > 1:
            down[room - 1] = down[room - 2]
        down[full - 1] = at / away


@_jit
def _growth(mean, c2):
    spread = mean * c2
    low, high = 0.0, 1 + 1 / spread
    for _ in range(STEPS):
        if mean > 1:
            low = (1 + spread * (1 - low)) ** (-1 / c2)
        else:
            high = 1 + (1 - high ** (-c2)) / spread
    return 1 / min(max(low if mean > 1 else high, 1e-100), 1e100)


@_jit
def _arrivals(mean, c2, growth, most, at_least, more):
    """Fill in what arrives during a service, and return the probability that nothing does."""
    spread = mean * c2
    none = math.exp(-math.log1p(spread) / c2)
    exactly, total, scale = none, none, 1.0
    # Where long queues are rare, from the start in their units: else they would underflow.
    step = growth if growth < 1 else 1.0
    at_least[0] = none * step
    for k in range(most):
        ratio = (1 + k * c2) * mean / ((1 + spread) * (k + 1))
        exactly *= ratio
        total += exactly
        at_least[k + 1] = at_least[k] * ratio / step
    ratio = (1 + most * c2) * mean / ((1 + spread) * (most + 1))
    small = exactly < SMALL and ratio < FALLING
    last = at_least[most]
    if small:
        rest = last * ratio / (1 - ratio)
    else:
        scale = step ** (1 - most)
        rest = max(1 - total, TINY) * scale
    at_least[most] += rest
    seen = at_least[most] / scale
    for k in range(most - 1, -1, -1):
        at_least[k] += step * at_least[k + 1]
        if not small and k > 0:
            seen += at_least[k] * step ** (k - 1)
    more[most] = rest / (1 - ratio) if small else max(mean - seen, TINY) * scale
    for k in range(most - 1, -1, -1):
        more[k] = step * (at_least[k + 1] + more[k + 1])
    if growth >= 1:
        unit = growth
        for k in range(most + 1):
            at_least[k] *= unit
            more[k] *= unit
            unit /= growth
    return none
