"""The recursion of `Service`, compiled, for real numbers and for the complex ones of derivatives.

Everything is as in `stationary.models.queues.service`, in loops. Probabilities of long queues are
kept in units of how fast they grow, so that they neither over- nor underflow: ``T_k`` and ``M_k``
below are divided by ``growth ** (k - 1)``.
"""

from __future__ import annotations

import math

import numba
import numpy as np

_DEEPEST = 200
"""Queue lengths above the servers that are computed; beyond, the distribution is geometric."""

_MORE = 60
"""Arrivals during a service beyond these that are counted one by one."""

_RAREST = 200.0
"""Minus the logarithm of the smallest probability of no arrival during a service: float64 holds its
products over a queue."""

_LEAST_ARRIVALS = 1e-6
"""Fewest arrivals during a service that the recursion is asked for."""

_STEPS = 12
"""Steps towards the ratio of successive probabilities, by which the recursion is scaled."""

_FALLING = 0.95
"""Ratio of successive probabilities below which their rest is a geometric series."""

_CLOSE = 1e-3
"""Relative change of that ratio at which it is close enough: it only keeps numbers in range."""

_SMALL = 1e-9
"""Probability below which what is left of 1 has too few digits."""

TINY = 1e-150
"""Stands for zero where a logarithm follows."""

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def deaths(turn, load, variability, top, out):
    """Fill in the rates ``[R, room]`` out of 1 to ``room`` requests at one server.

    Services that begin with 1, 2, ... requests take ``turn [R, room]``, more and more, or, all
    alike, ``[R, 1]``.
    There are at most ``top [R]`` requests.
    """
    kinds, room = turn.shape[1], out.shape[1]
    deep = min(room, _DEEPEST)
    known, most = min(kinds, deep), deep + _MORE
    # At least k arrivals, and the expected number beyond k, during services of each kind.
    at_least = np.empty((most + 2, known), out.dtype)
    more, others = np.empty_like(at_least), np.empty((2, most + 2, 1), out.dtype)
    mean, none = np.empty(kinds, out.dtype), np.empty(kinds, out.dtype)
    work, y = np.empty((5, known), out.dtype), np.empty(deep, out.dtype)
    growth, units = np.empty(kinds), np.empty(known)
    for row in range(len(load)):
        c2, down, full = variability[row], out[row], int(top[row])
        at = _within(load[row], c2, turn[row, kinds - 1])
        for k in range(kinds):
            mean[k] = at * turn[row, k]
            growth[k] = _growth(mean[k].real, c2.real)
        _arrivals(mean[:known], c2, growth[:known], most, none, at_least, more, work)
        units[:] = 1.0
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
            down[j] = down[deep - 2] * (turn[row, deep - 1] / turn[row, j] if kinds > 1 else 1.0)
        # Expected numbers turned away per service, in units of how likely the longest queue is.
        away, log_x = 0.0 * at, 0.0 * at
        for n in range(full - 1, -1, -1):
            if n < full - 1:
                log_x += np.log(down[n] / at)
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
                away += np.exp(log_x + (free - 1) * math.log(growth[k])) * beyond
        if room > 1:
            down[room - 1] = down[room - 2]
        down[full - 1] = at / away


@_jit
def _within(load, c2, longest):
    """The load, within limits: beyond, the system is always empty or full, and rates stay."""
    exponent = _RAREST * c2
    if exponent.real > 30:
        exponent = 30 + 0 * c2
    most = (np.exp(exponent) - 1) / c2 / longest
    least = _LEAST_ARRIVALS / longest
    if load.real > most.real:
        return most
    return load if load.real > least.real else least


@_jit
def _growth(mean, c2):
    """Ratio of successive probabilities of long queues, with so many arrivals during a service.

    The inverse of the root, other than 1, of ``y = G(y)``, with G the generating function of the
    arrivals. By Newton steps, which come to the root from one side: the function bends one way.
    """
    spread = mean * c2
    value = 0.0 if mean > 1 else 1 + 1 / spread
    for _ in range(_STEPS):
        if mean > 1:
            inside = 1 + spread * (1 - value)
            there = inside ** (-1 / c2)
            slope = mean * there / inside
        else:
            power = value ** (-c2)
            there = 1 + (1 - power) / spread
            slope = power / (value * mean)
        step = (there - value) / (1 - slope)
        if not abs(step) > _CLOSE * value:  # also where both are 1, and there is no slope
            break
        value += step
    return 1 / min(max(value, 1e-100), 1e100)


@_jit
def _log1p(x):
    """Of small numbers, too; their imaginary part, if they have one, is tiny."""
    return (x - x.real) / (1 + x.real) + math.log1p(x.real)


@_jit
def _rest(x):
    """What is left of a sum, if that is anything."""
    return x if x.real > TINY else 0 * x + TINY


@_jit
def _arrivals(mean, c2, growth, most, none, at_least, more, work):
    """Fill in what arrives during services of each kind, and the probability that nothing does.

    Each step goes over the kinds, which do not wait for one another: processors do several at once.
    """
    kinds = len(mean)
    step, per, unit, exactly, total = work[0], work[1], work[2], work[3], work[4]
    for j in range(kinds):
        spread = mean[j] * c2
        none[j] = np.exp(-_log1p(spread) / c2)
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
        if exactly[j].real < _SMALL and ratio.real < _FALLING:
            rest = at_least[most, j] * ratio / (1 - ratio)
            more[most, j] = rest / (1 - ratio)
        else:
            rest = _rest(1 - total[j]) * step[j] ** (1 - most)
            more[most, j] = -1.0  # not known yet
        at_least[most, j] += rest
    for k in range(most - 1, -1, -1):
        for j in range(kinds):
            at_least[k, j] += step[j] * at_least[k + 1, j]
    for j in range(kinds):
        if more[most, j].real < 0:
            scale = step[j] ** (1 - most)
            seen = at_least[most, j] / scale
            for k in range(most - 1, 0, -1):
                seen += at_least[k, j] * step[j] ** (k - 1)
            more[most, j] = _rest(mean[j] - seen) * scale
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
