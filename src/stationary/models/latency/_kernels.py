"""Compiled kernels for distributions of times."""

from __future__ import annotations

import math

import numba
import numpy as np

_LEAST = 1e-40
"""Terms below this share of the largest are left out."""

_STEPS = 100
_CLOSE = 1e-6
"""Relative step at which a root is close: one more step, with derivatives, squares its error."""

_FEW = 16
"""Up to here a Poisson probability is a product; from here on, Stirling's series is exact."""

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def geometric(x, p):
    """``y_j = p x_j + (1 - p) y_{j-1}`` in every row."""
    out = np.empty_like(x)
    for row in range(x.shape[0]):
        last = 0.0
        for j in range(x.shape[1]):
            last = p * x[row, j] + (1 - p) * last
            out[row, j] = last
    return out


@_jit
def poisson_sums(x, values, out):
    """``sum_k p_k(x) values_k`` for every x of a row."""
    p = np.empty(values.shape[1])
    for row in range(x.shape[0]):
        for t in range(x.shape[1]):
            low, high = _probabilities(x[row, t], p)
            total = 0.0
            for k in range(low, high):
                total += p[k] * values[row, k]
            out[row, t] = total


@_jit
def poisson_adjoint(x, factors, out):
    """Add up ``p_k(x) factor`` over the x of a row."""
    p = np.empty(out.shape[1])
    for row in range(x.shape[0]):
        for t in range(x.shape[1]):
            low, high = _probabilities(x[row, t], p)
            for k in range(low, high):
                out[row, k] += p[k] * factors[row, t]


@_jit
def poisson_roots(more, weights, share, normal, x):
    """Solve ``sum_k p_k(x) more_k = 1 - share`` for each row, by Newton steps in a bracket."""
    p = np.empty(more.shape[1])
    for row in range(len(x)):
        if not more.shape[1] or not more[row, 0] > 1 - share:
            continue
        mean, square = 0.0, 0.0
        for k in range(more.shape[1]):
            mean += more[row, k]
            square += 2 * (k + 1) * more[row, k]
        # The quantile of a normal distribution with this mean and variance.
        at = max(mean + normal * math.sqrt(max(square - mean * mean, 0.0)), share * mean)
        low, high = 0.0, np.inf
        for _ in range(_STEPS):
            excess, density = 1 - share, 0.0
            first, end = _probabilities(at, p)
            for k in range(first, end):
                excess -= p[k] * more[row, k]
                density += p[k] * weights[row, k]
            if excess < 0:
                low = at
            else:
                high = at
            new = at - excess / density
            if not low < new < high:
                new = 2 * at if high == np.inf else (low + high) / 2
            done = abs(new - at) <= _CLOSE * at
            at = new
            if done:
                break
        x[row] = at


@_jit
def _probabilities(x, p):
    """Fill in the Poisson probabilities of x that count, and return from where and up to where."""
    mode, largest = _mode(x, len(p))
    p[mode], low, over = largest, mode, 1 / x
    value = largest
    while low > 0 and value >= _LEAST * largest:
        value *= low * over
        low -= 1
        p[low] = value
    high, value = mode, largest
    while value >= _LEAST * largest:
        p[high] = value
        high += 1
        if high == len(p):
            break
        value *= x / high
    return low, high


@_jit
def _mode(x, number):
    """The likeliest k below a number, and its Poisson probability, by Loader's saddle point."""
    if not x < np.inf:
        return number - 1, 0.0
    k = number - 1 if x >= number else int(x)
    if k < _FEW:
        p = math.exp(-x)
        for j in range(1, k + 1):
            p *= x / j
        return k, p
    # log k! by Stirling's series, whose error is below 1e-16 from 16 on.
    square = 1.0 / (k * k)
    rest = (1 / 12 - (1 / 360 - (1 / 1260 - square / 1680) * square) * square) / k
    off = (x - k) / k
    # k log(x / k) - (x - k) without the cancellation of large terms where x is close to k.
    return k, math.exp(k * (math.log1p(off) - off) - rest) / math.sqrt(2 * math.pi * k)


@_jit
def run(rates, lost, clock, moves, part, least, state, ended):
    """Let a clock tick as often as ``ended`` has columns, and change the state in place.

    Rows in which less than ``least`` is left are done. What is dropped ends, but is not counted.
    """
    for row in range(len(state)):
        v = state[row]
        if v.sum().real < least:
            continue
        p, stay = _chances(rates[row], clock[row], moves, part, len(v))
        uncounted, after = lost[row] / clock[row], np.empty(len(v) + 1, v.dtype)
        for tick in range(ended.shape[1]):
            _tick(v, moves, p, stay, after)
            ended[row, tick] = after[-1] - np.dot(v, uncounted)
            v[:] = after[:-1]


@_jit
def _chances(rates, clock, moves, part, size):
    """Probability of each move at a tick, and of staying in each state."""
    p, stay = np.empty(len(part), rates.dtype), np.ones(size, rates.dtype)
    for move in range(len(part)):
        p[move] = rates[moves[2, move]] * part[move] / clock
        stay[moves[0, move]] -= p[move]
    return p, stay


@_jit
def _tick(v, moves, p, stay, after):
    """Fill in the probability of each state after a tick, and that the time ends at it."""
    for s in range(len(v)):
        after[s] = v[s] * stay[s]
    after[-1] = 0.0
    for move in range(len(p)):
        after[moves[1, move]] += v[moves[0, move]] * p[move]


@_jit
def sweep(rates, lost, clock, moves, part, least, factors, kept):
    """Slopes of ``sum_k factors[k] ended[k]``, from the state before each block of ticks.

    In the state before the first tick, in the rates, and in what is dropped.
    """
    by_start, by_rate, by_lost = np.zeros_like(lost), np.zeros_like(rates), np.zeros_like(lost)
    blocks, size = kept.shape[0], kept.shape[2]
    length = factors.shape[1] // blocks
    history = np.empty((length + 1, size + 1), rates.dtype)
    for row in range(len(rates)):
        p, stay = _chances(rates[row], clock[row], moves, part, size)
        after, flow = np.zeros(size + 1, rates.dtype), np.zeros_like(p)
        uncounted, before = lost[row] / clock[row], np.empty(size, rates.dtype)
        for block in range(blocks - 1, -1, -1):
            if kept[block, row].sum().real < least:
                continue
            history[0, :-1] = kept[block, row]
            for tick in range(length):
                _tick(history[tick, :-1], moves, p, stay, history[tick + 1])
            for tick in range(length - 1, -1, -1):
                v, factor = history[tick, :-1], factors[row, block * length + tick]
                after[-1] = factor
                before[:] = after[:-1] * stay - factor * uncounted
                by_lost[row] -= factor / clock[row] * v
                for move in range(len(p)):
                    s, t = moves[0, move], moves[1, move]
                    before[s] += p[move] * after[t]
                    flow[move] += v[s] * (after[t] - after[s])
                after[:-1] = before
        by_start[row] = after[:-1]
        for move in range(len(p)):
            by_rate[row, moves[2, move]] += flow[move] * part[move] / clock[row]
    return by_start, by_rate, by_lost
