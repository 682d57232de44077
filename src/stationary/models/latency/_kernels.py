"""Compiled kernels for distributions of times."""

from __future__ import annotations

import math

import numba
import numpy as np

_LEAST = 1e-20
"""Beyond the likeliest number of ticks, terms below this share of the largest are left out."""

_LEAST_BELOW = 1e-40
"""Below it, the same: there, a term may be multiplied by far more."""

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
            low, high = _probabilities(x[row, t], _LEAST_BELOW, p)
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
            low, high = _probabilities(x[row, t], _LEAST_BELOW, p)
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
            first, end = _probabilities(at, _LEAST, p)
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
def _probabilities(x, least_below, p):
    """Fill in the Poisson probabilities of x that count, and return from where and up to where."""
    mode, largest = _mode(x, len(p))
    p[mode], low, over = largest, mode, 1 / x
    value = largest
    while low > 0 and value >= least_below * largest:
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
    if abs(off) < 0.1:
        away, power = 0.0, off
        for j in range(2, 20):
            power *= -off
            away += power / j
    else:
        away = math.log1p(off) - off
    return k, math.exp(k * away - rest) / math.sqrt(2 * math.pi * k)


@_jit
def total_rates(rates, moves, part, out):
    """Add up the rates of all moves out of every state."""
    for row in range(rates.shape[0]):
        for move in range(len(part)):
            out[row, moves[0, move]] += rates[row, moves[2, move]] * part[move]


@_jit
def run(rates, lost, clock, moves, part, least, state, ended):
    """Let a clock tick as often as ``ended`` has columns, and change the state in place.

    Rows in which less than ``least`` is left are done. What is dropped ends, but is not counted.
    """
    source, target, edge = moves[0], moves[1], moves[2]
    size = state.shape[1]
    p = np.empty(len(source), dtype=rates.dtype)
    stay = np.empty(size, dtype=rates.dtype)
    new = np.empty(size + 1, dtype=rates.dtype)
    for row in range(state.shape[0]):
        v = state[row]
        if v.sum().real < least:
            continue
        _per_tick(rates[row], clock[row], source, edge, part, p, stay)
        for tick in range(ended.shape[1]):
            new[size] = 0.0
            for s in range(size):
                new[s] = v[s] * stay[s]
            for move in range(len(source)):
                new[target[move]] += v[source[move]] * p[move]
            for s in range(lost.shape[1]):
                new[size] -= v[s] * lost[row, s] / clock[row]
            for s in range(size):
                v[s] = new[s]
            ended[row, tick] = new[size]


@_jit
def _per_tick(rates, clock, source, edge, part, p, stay):
    """Probability of each move at a tick, and of staying in each state."""
    stay[:] = 1.0
    for move in range(len(source)):
        p[move] = rates[edge[move]] * part[move] / clock
        stay[source[move]] -= p[move]


@_jit
def sweep(rates, lost, clock, moves, part, least, factors, kept):
    """Slopes of ``sum_k factors[k] ended[k]``, from the state before each block of ticks.

    In the state before the first tick, in the rates, and in what is dropped.
    """
    by_start = np.zeros_like(kept[0])
    by_rate, by_lost = np.zeros_like(rates), np.zeros_like(lost)
    source, target, edge = moves[0], moves[1], moves[2]
    blocks, size = kept.shape[0], kept.shape[2]
    length = factors.shape[1] // blocks
    p = np.empty(len(source), dtype=rates.dtype)
    flow = np.empty(len(source), dtype=rates.dtype)
    stay = np.empty(size, dtype=rates.dtype)
    history = np.empty((length, size), dtype=rates.dtype)
    after = np.empty(size + 1, dtype=rates.dtype)
    before = np.empty(size, dtype=rates.dtype)
    for row in range(rates.shape[0]):
        _per_tick(rates[row], clock[row], source, edge, part, p, stay)
        after[:] = 0.0
        flow[:] = 0.0
        for block in range(blocks - 1, -1, -1):
            if kept[block, row].sum().real < least:
                continue
            history[0] = kept[block, row]
            for tick in range(1, length):
                v, new = history[tick - 1], history[tick]
                for s in range(size):
                    new[s] = v[s] * stay[s]
                for move in range(len(source)):
                    if target[move] < size:
                        new[target[move]] += v[source[move]] * p[move]
            for tick in range(length - 1, -1, -1):
                v, factor = history[tick], factors[row, block * length + tick]
                after[size] = factor
                for s in range(size):
                    before[s] = after[s] * stay[s]
                for s in range(lost.shape[1]):
                    before[s] -= factor * lost[row, s] / clock[row]
                    by_lost[row, s] -= factor * v[s] / clock[row]
                for move in range(len(source)):
                    s, t = source[move], target[move]
                    before[s] += p[move] * after[t]
                    flow[move] += v[s] * (after[t] - after[s])
                for s in range(size):
                    after[s] = before[s]
        by_start[row] = after[:size]
        for move in range(len(source)):
            by_rate[row, edge[move]] += flow[move] * part[move] / clock[row]
    return by_start, by_rate, by_lost
