"""Compiled kernels of the aggregation multigrid: flows between states, grouped and smoothed.

A level holds flows ``F_ij >= 0`` between its states in compressed rows, and the total ``out_i`` of
each row. The matrix that it stands for, ``A = diag(out) - F``, is never formed. Kernels that solve
with ``A`` get the rows of ``F``; given the rows of ``F^T`` and the same ``out``, they solve with
``A^T``.
"""

from __future__ import annotations

import numba
import numpy as np

_LEAST = 1e-300
_WEAK = 1e-2  # beside the strongest tie of a state: a pair that is not made
_jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def flows(start, source_rates, x):
    """Return ``F_ij = x_i q_ij`` and its row sums.

    A flow that underflows is kept as the least there is: states may be too rare for float64, but
    without any flow they would belong to no group.
    """
    values, out = np.empty_like(source_rates), np.empty_like(x)
    for i in range(len(x)):
        total = 0.0
        for k in range(start[i], start[i + 1]):
            values[k] = x[i] * source_rates[k]
            if values[k] < _LEAST and source_rates[k] > 0.0:
                values[k] = _LEAST
            total += values[k]
        out[i] = total
    return values, out


@_jit
def transpose(start, index, values, n):
    """Compressed rows of the transpose."""
    t_start = np.zeros(n + 1, dtype=start.dtype)
    for k in range(len(index)):
        t_start[index[k] + 1] += 1
    for i in range(n):
        t_start[i + 1] += t_start[i]
    place = t_start[:-1].copy()
    t_index = np.empty_like(index)
    t_values = np.empty_like(values)
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            p = place[index[k]]
            t_index[p] = i
            t_values[p] = values[k]
            place[index[k]] = p + 1
    return t_start, t_index, t_values


@_jit
def pair(start, index, values, t_start, t_index, t_values, out, group):
    """Pair every state with the one it exchanges most flow with; return the number of groups.

    A pair is as good as its exchange is large beside the harmonic mean of the two states' flows:
    Notay's measure for matrices whose rows and columns sum to zero. A state whose neighbours are
    taken, but for some that it exchanges far less with, joins the pair that it exchanges most with:
    a group across two sets that hardly communicate would hide from coarser levels that they do.
    """
    n = len(out)
    exchange = np.zeros(n)
    near = np.empty(n, dtype=index.dtype)
    for i in range(n):
        group[i] = -1
    count = 0
    for i in range(n):
        if group[i] >= 0:
            continue
        found = 0
        for k in range(start[i], start[i + 1]):
            if values[k] == 0.0:
                continue
            j = index[k]
            if exchange[j] == 0.0:
                near[found] = j
                found += 1
            exchange[j] += values[k]
        for k in range(t_start[i], t_start[i + 1]):
            if t_values[k] == 0.0:
                continue
            j = t_index[k]
            if exchange[j] == 0.0:
                near[found] = j
                found += 1
            exchange[j] += t_values[k]
        best, partner, best_taken, taken = 0.0, -1, 0.0, -1
        for m in range(found):
            j = near[m]
            strength = exchange[j] / out[i] + exchange[j] / out[j]
            # A hair more, so that rounding does not break the ties of a lattice at random.
            if group[j] < 0 and strength > best * (1.0 + 1e-9):
                best, partner = strength, j
            if group[j] >= 0 and strength > best_taken * (1.0 + 1e-9):
                best_taken, taken = strength, j
            exchange[j] = 0.0
        if taken >= 0 and best < _WEAK * best_taken:
            group[i] = group[taken]
        else:
            group[i] = count
            if partner >= 0:
                group[partner] = count
            count += 1
    return count


@_jit
def coarsen(start, index, values, group, count):
    """Flows between groups, what stays inside left out, and their row sums."""
    n = len(group)
    first = np.zeros(count + 1, dtype=start.dtype)
    for i in range(n):
        first[group[i] + 1] += 1
    for g in range(count):
        first[g + 1] += first[g]
    member = np.empty(n, dtype=start.dtype)
    place = first[:-1].copy()
    for i in range(n):
        member[place[group[i]]] = i
        place[group[i]] += 1
    c_start = np.zeros(count + 1, dtype=start.dtype)
    c_index = np.empty_like(index)
    c_values = np.empty_like(values)
    c_out = np.zeros(count)
    where = np.full(count, -1, dtype=np.int64)
    filled = 0
    for g in range(count):
        begin = filled
        for m in range(first[g], first[g + 1]):
            i = member[m]
            for k in range(start[i], start[i + 1]):
                h = group[index[k]]
                if h == g:
                    continue
                if where[h] < begin:
                    where[h] = filled
                    c_index[filled] = h
                    c_values[filled] = values[k]
                    filled += 1
                else:
                    c_values[where[h]] += values[k]
                c_out[g] += values[k]
        c_start[g + 1] = filled
    return c_start, c_index[:filled].copy(), c_values[:filled].copy(), c_out


@_jit
def sweep(start, index, values, out, rhs, v, forward):
    """One Gauss-Seidel sweep of ``A v = rhs``, in either order."""
    n = len(out)
    for m in range(n):
        i = m if forward else n - 1 - m
        total = rhs[i]
        for k in range(start[i], start[i + 1]):
            total += values[k] * v[index[k]]
        v[i] = total / out[i]


@_jit
def residual(start, index, values, out, rhs, v):
    """Return ``rhs - A v``."""
    r = np.empty_like(v)
    for i in range(len(out)):
        total = rhs[i] - out[i] * v[i]
        for k in range(start[i], start[i + 1]):
            total += values[k] * v[index[k]]
        r[i] = total
    return r


@_jit
def product(start, index, values, out, v):
    """Return ``A v``."""
    y = np.empty_like(v)
    for i in range(len(out)):
        total = out[i] * v[i]
        for k in range(start[i], start[i + 1]):
            total -= values[k] * v[index[k]]
        y[i] = total
    return y


@_jit
def roughness(start, index, values, v):
    """``sum F_ij |v_j - v_i|``: the size of what a gradient reads off ``v``."""
    total = 0.0
    for i in range(len(start) - 1):
        for k in range(start[i], start[i + 1]):
            total += values[k] * abs(v[index[k]] - v[i])
    return total
