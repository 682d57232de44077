"""Compiled kernels of sparse GTH elimination, one chain at a time.

The mathematics is that of `_kernels`: ``-Q = (I - U) L`` without a subtraction. States stand in the
order of their distance from the ground state, and only the entries that elimination can reach are
stored. Row k of the pattern lists the states ``j < k`` that are joined to k when k is eliminated;
``lower`` has the rates from k to them (``-L``), ``upper`` those from them to k (``U`` in the end).
If j < i are both in row k, then j is in row i: every update finds its place in the pattern.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from stationary.solvers._kernels import NOTHING, TINY, add, out_of_range

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
_CANCELLATION = 1e4  # how much larger than its differences v may be


@_jit
def pattern(start, index, order, place, most):
    """Rows of the pattern: where each starts and its states; empty if more than ``most``."""
    n = len(order)
    rows = np.empty(max(16, 4 * n), dtype=np.int64)
    first = np.zeros(n, dtype=np.int64)
    count = np.zeros(n, dtype=np.int64)
    child = np.full(n, -1, dtype=np.int64)  # the child of each state that was found last,
    sibling = np.full(n, -1, dtype=np.int64)  # and the child of the same parent before it
    mark = np.full(n, -1, dtype=np.int64)
    used = 0
    for k in range(n - 1, 0, -1):
        first[k] = used
        if used + n > len(rows):
            larger = np.empty(2 * len(rows) + n, dtype=np.int64)
            larger[:used] = rows[:used]
            rows = larger
        mark[k] = k
        for e in range(start[order[k]], start[order[k] + 1]):
            j = place[index[e]]
            if j < k and mark[j] != k:
                mark[j] = k
                rows[used] = j
                used += 1
        c = child[k]
        while c != -1:
            for e in range(first[c], first[c] + count[c]):
                j = rows[e]
                if mark[j] != k:
                    mark[j] = k
                    rows[used] = j
                    used += 1
            c = sibling[c]
        count[k] = used - first[k]
        if used > most:
            return np.zeros(1, dtype=np.int64), rows[:0]
        if count[k]:
            rows[first[k] : used].sort()
            parent = rows[used - 1]
            sibling[k] = child[parent]
            child[parent] = k
    # Rows were found last to first; they are stored first to last.
    starts = np.zeros(n + 1, dtype=np.int64)
    starts[1:] = np.cumsum(count)
    found = np.empty(used, dtype=np.int64)
    for k in range(1, n):
        found[starts[k] : starts[k + 1]] = rows[first[k] : first[k] + count[k]]
    return starts, found


@_jit
def slots(start, index, source, target):
    """Where each edge stands in the pattern."""
    found = np.empty(len(source), dtype=np.int64)
    for e in range(len(source)):
        k, j = max(source[e], target[e]), min(source[e], target[e])
        found[e] = start[k] + np.searchsorted(index[start[k] : start[k + 1]], j)
    return found


@_jit
def eliminate(start, index, lower, upper, pivots):
    """Eliminate last to first, in place; whether no product was lost to under- or overflow."""
    n = len(pivots)
    for k in range(n - 1, 0, -1):
        a0, a1 = start[k], start[k + 1]
        pivot, least_rate, least_share = 0.0, np.inf, np.inf
        for a in range(a0, a1):
            pivot += lower[a]
            if lower[a] > 0.0:
                least_rate = min(least_rate, lower[a])
        if not 0.0 < pivot < np.inf:
            return False
        pivots[k] = pivot
        for a in range(a0, a1):
            if upper[a] > 0.0:
                upper[a] /= pivot
                least_share = min(least_share, upper[a])
                if not upper[a] < np.inf:
                    return False
        if min(least_share, least_share * least_rate) < TINY:
            return False
        for a in range(a0 + 1, a1):
            p = start[index[a]]
            for b in range(a0, a):
                while index[p] < index[b]:
                    p += 1
                lower[p] += upper[a] * lower[b]
                upper[p] += upper[b] * lower[a]
    return True


@_jit
def distribution(start, index, upper, pi):
    """Solve ``pi (I - U) = e_0`` and normalise, with an exponent of its own for every state.

    Likely states may be joined by others so rare that they underflow: without the exponents, all
    that lies behind those would come out as impossible.
    """
    n = len(pi)
    far = np.zeros(n, dtype=np.int64)  # pi[k] stands for pi[k] * 2 ** far[k]
    pi[0] = 1.0
    for k in range(1, n):
        total, exponent = 0.0, NOTHING
        for a in range(start[k], start[k + 1]):
            j = index[a]
            total, exponent = add(total, exponent, pi[j] * upper[a], far[j])
        pi[k], far[k] = total, exponent
    top = far.max()
    for k in range(n):
        pi[k] = math.ldexp(pi[k], max(far[k] - top, -1100))
    pi /= pi.sum()


@_jit
def solve(start, index, lower, upper, pivots, v):
    """Solve ``(I - U) L v = h`` in place, with ``v_0 = 0``; its own equation is redundant."""
    n = len(v)
    for k in range(n - 1, 0, -1):
        for a in range(start[k], start[k + 1]):
            v[index[a]] += upper[a] * v[k]
    v[0] = 0.0
    for k in range(1, n):
        for a in range(start[k], start[k + 1]):
            v[k] += lower[a] * v[index[a]]
        v[k] /= pivots[k]


@_jit
def solve_transposed(start, index, lower, upper, pivots, u):
    """Solve ``L^T (I - U)^T u = b`` in place, with ``u_0 = 0``."""
    n = len(u)
    for k in range(n - 1, 0, -1):
        u[k] /= pivots[k]
        for a in range(start[k], start[k + 1]):
            u[index[a]] += lower[a] * u[k]
    u[0] = 0.0
    for k in range(1, n):
        for a in range(start[k], start[k + 1]):
            u[k] += upper[a] * u[index[a]]


@_jit
def differences(start, index, lower, upper, pivots, pi, g):
    """``v_k - v_j`` of every pair of the pattern, built up from smaller ones, uncancelled.

    Eliminating state k says that v_k is ``w_k / pivot_k`` more than a mean over the states of its
    row, and so are the differences from any of them.
    """
    n = len(g)
    w = np.zeros(n)
    for s in range(n):
        for t in range(n):
            w[s] += pi[t] * (g[s] - g[t])
    for k in range(n - 1, 0, -1):
        for a in range(start[k], start[k + 1]):
            w[index[a]] += upper[a] * w[k]
    found = np.zeros(len(index))
    for k in range(1, n):
        a0, a1 = start[k], start[k + 1]
        for a in range(a0, a1):
            found[a] = w[k] / pivots[k]
        for a in range(a0 + 1, a1):
            p = start[index[a]]
            for b in range(a0, a):
                while index[p] < index[b]:
                    p += 1
                # found[p] is v_i - v_j for the states i > j at a and b.
                found[b] += lower[a] / pivots[k] * found[p]
                found[a] -= lower[b] / pivots[k] * found[p]
    return found


@_jit
def rate_gradient(pattern, factor, edges, pi, g, out):
    """``pi_i (v_j - v_i)`` on every edge, with ``-Q v = g - (pi . g)``; whether it is in range."""
    start, index = pattern
    lower, upper, pivots = factor
    source, target, slot, rates = edges
    mean = pi @ g
    v = g - mean
    solve(start, index, lower, upper, pivots, v)
    largest, rounded = 0.0, 0.0
    steps = np.empty(len(source))
    for e in range(len(source)):
        i, j = source[e], target[e]
        steps[e] = v[j] - v[i]
        flow = pi[i] * rates[e]
        largest = max(largest, flow * abs(steps[e]))
        rounded = max(rounded, flow * max(abs(v[i]), abs(v[j])))
    if not rounded <= _CANCELLATION * largest:  # also where v overflowed
        apart = differences(start, index, lower, upper, pivots, pi, g)
        for e in range(len(source)):
            steps[e] = apart[slot[e]] if target[e] > source[e] else -apart[slot[e]]
    for e in range(len(source)):
        out[e] = pi[source[e]] * steps[e]
    return not (np.isfinite(mean) and out_of_range(source, rates, pi, steps, out))
