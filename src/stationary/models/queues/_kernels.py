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

CLOSE = 1e-3
"""Relative change of that ratio at which it is close enough: it only keeps numbers in range."""

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
    at_least, more = np.empty((most + 2, known)), np.empty((most + 2, known))
    others = np.empty((2, most + 2, 1))
    mean, growth, none = np.empty(kinds), np.empty(kinds), np.empty(kinds)
    work = np.empty((5, known))
    y, units = np.empty(deep), np.empty(known)
    for row in range(len(load)):
        at, c2, down, full = load[row], variability[row], out[row], int(top[row])
        for k in range(kinds):
            mean[k] = at * turn[row, k]
            growth[k] = _growth(mean[k], c2)
        _arrivals(mean[:known], c2, growth[:known], most, none, at_least, more, work)
        for c in range(known):
            units[c] = 1.0
        y[0] = 1.0
        for r in range(deep - 1):
            grown = growth[min(r, kinds - 1)]
            total = at_least[r + 1, 0] / growth[0]
            if kinds > 1:
                smaller = 1 / grown
                for c in range(r):
                    units[c] *= growth[c] * smaller
                total *= units[0] if r else 1.0
                for c in range(r):
                    total += y[c + 1] * at_least[r - c + 1, c] * units[c]
            else:
                for c in range(r):
                    total += y[c + 1] * at_least[r - c + 1, 0]
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
                away = mean[0]
            elif free > 0:
                if k < known:
                    beyond = more[free, k]
                else:
                    one = slice(k, k + 1)
                    _arrivals(
                        mean[one], c2, growth[one], most, none[one], others[0], others[1], work
                    )
                    beyond = others[1, free, 0]
                away += math.exp(log_x + (free - 1) * math.log(growth[k])) * beyond
        if room > 1:
            down[room - 1] = down[room - 2]
        down[full - 1] = at / away


@_jit
def _growth(mean, c2):
    """By Newton steps, which come to the root from one side: the function bends one way."""
    spread = mean * c2
    value = 0.0 if mean > 1 else 1 + 1 / spread
    for _ in range(STEPS):
        if mean > 1:
            inside = 1 + spread * (1 - value)
            there = inside ** (-1 / c2)
            slope = mean * there / inside
        else:
            power = value ** (-c2)
            there = 1 + (1 - power) / spread
            slope = power / (value * mean)
        step = (there - value) / (1 - slope)
        if not abs(step) > CLOSE * value:  # also where both are 1, and there is no slope
            break
        value += step
    return 1 / min(max(value, 1e-100), 1e100)


@_jit
def _arrivals(mean, c2, growth, most, none, at_least, more, work):
    """Fill in what arrives during services of each kind, and the probability that nothing does.

    Each step goes over the kinds, which do not wait for one another: processors do several at once.
    """
    kinds = len(mean)
    step, per, unit, exactly, total = work[0], work[1], work[2], work[3], work[4]
    for j in range(kinds):
        spread = mean[j] * c2
        none[j] = math.exp(-math.log1p(spread) / c2)
        # Where long queues are rare, from the start in their units: else they would underflow.
        step[j] = min(growth[j], 1.0)
        per[j] = mean[j] / (1 + spread)
        exactly[j] = total[j] = none[j]
        at_least[0, j] = none[j] * step[j]
        unit[j] = 1 / step[j]
    for k in range(most):
        slope = (1 + k * c2) / (k + 1)
        for j in range(kinds):
            ratio = per[j] * slope
            exactly[j] *= ratio
            total[j] += exactly[j]
            at_least[k + 1, j] = at_least[k, j] * (ratio * unit[j])
    slope = (1 + most * c2) / (most + 1)
    for j in range(kinds):
        ratio = per[j] * slope
        if exactly[j] < SMALL and ratio < FALLING:
            rest = at_least[most, j] * ratio / (1 - ratio)
            more[most, j] = rest / (1 - ratio)
        else:
            rest = max(1 - total[j], TINY) * step[j] ** (1 - most)
            more[most, j] = -1.0  # not known yet
        at_least[most, j] += rest
    for k in range(most - 1, -1, -1):
        for j in range(kinds):
            at_least[k, j] += step[j] * at_least[k + 1, j]
    for j in range(kinds):
        if more[most, j] < 0:
            scale = step[j] ** (1 - most)
            seen = at_least[most, j] / scale
            for k in range(most - 1, 0, -1):
                seen += at_least[k, j] * step[j] ** (k - 1)
            more[most, j] = max(mean[j] - seen, TINY) * scale
    for k in range(most - 1, -1, -1):
        for j in range(kinds):
            more[k, j] = step[j] * (at_least[k + 1, j] + more[k + 1, j])
    for j in range(kinds):
        unit[j] = max(growth[j], 1.0)
        per[j] = 1 / unit[j]
    for k in range(most + 1):
        for j in range(kinds):
            at_least[k, j] *= unit[j]
            more[k, j] *= unit[j]
            unit[j] *= per[j]
