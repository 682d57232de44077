"""Compiled kernels for small chains on the CPU, one chain after the other.

Grassmann-Taksar-Heyman (GTH) elimination factors ``-Q = (I - U) L`` from the last state to the
first, with ``U >= 0`` strictly upper and ``L`` lower triangular, its off-diagonal entries ``<= 0``
and its pivot of state k the total rate from k to the states before it. Pivots are *sums* of rates,
so nothing is ever subtracted and every entry keeps its relative accuracy. ``A`` holds all three:
``U`` above the diagonal, the pivots on it, ``-L`` below.

The first state of the elimination is the ground state, whose equation is redundant. Grounding a
rare state would amplify rounding in the adjoint by the inverse of its probability, so a chain whose
first state turns out to be rare is eliminated once more, rare states first and the likeliest last:
then no entry of ``U`` exceeds 1, and one that underflows belongs to a state whose probability does.
The steady state itself needs no second elimination: the first has every digit of it.

A chain may have transient states, as long as one closed class is reached from everywhere. All
pivots are positive exactly if the ground state is in that class: each state then reaches those
before it. The first pivot that is zero belongs to a state of a closed class without the ground, so
that state is tried as the ground; should that fail too, there are several classes. Sums of zeros
are zero, so a transient state has no probability at all, and its ``v`` is still right: it says what
a first rate into that state would do.

A first derivative ``pi_i (v_j - v_i)`` needs differences of v. Where sets of states hardly
communicate, v is large and nearly constant on each, and its differences cancel. They need not be
taken: eliminating state k says that ``v_k = w_k / pivot_k + sum_j p_kj v_j``, a mean over the
states before it, so that ``v_k - v_i = w_k / pivot_k + sum_j p_kj (v_j - v_i)`` builds every
difference up from smaller ones, in ``O(n^3)`` instead of ``O(n^2)``. It is done for chains that
need it. Both ways the error is measured against the largest ``q_ij dL/dq_ij``.

Products of rates may leave the range of float64 although probabilities do not. Elimination looks
for that, one comparison per state, and is then done once more with an exponent for every number.
Derivatives that leave the range are refused.
"""

from __future__ import annotations

import math

import numba
import numpy as np

OK, FAILED, NO_ADJOINT = 0, 1, 2
"""Failed: several closed classes. No adjoint: rates too far apart for float64."""
_BLOCK = 48
_UNBLOCKED = 96  # below this many states, plain rank-one updates beat the matrix product
RARE_GROUND = 1e-3
_CANCELLATION = 1e4  # how much larger than its differences v may be
_BIG = 2.0**300
_SMALL = 2.0**-300
TINY = 2.0**-1022  # the least number with all its digits
_LEAST = 2.0**-1074  # the least of all
_DIGITS = 1e-12  # share of a gradient that may be missing from it
_FADING = 2.0**-960  # below it, what flows on from a state may be lost to underflow
_LOST = -1  # in place of a state's place
NOTHING = -(2**40)  # exponent of zero

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _eliminate(A):
    """Eliminate last to first, in place.

    Return the place of the first state whose pivot is zero, 0 if there is none, or `_LOST` as soon
    as a product may have under- or overflowed.
    """
    n = A.shape[0]
    block = n if n <= _UNBLOCKED else _BLOCK
    hi = n
    while hi > 1:
        lo = max(hi - block, 1)
        for k in range(hi - 1, lo - 1, -1):
            pivot, least_rate, least_share = 0.0, np.inf, np.inf
            for j in range(k):
                pivot += A[k, j]
                if 0.0 < A[k, j] < least_rate:
                    least_rate = A[k, j]
            if pivot == 0.0:
                return k
            A[k, k] = pivot
            for i in range(k):
                if A[i, k] > 0.0:
                    f = A[i, k] / pivot
                    least_share = min(least_share, f)
                    if not f < np.inf:
                        return _LOST
                    A[i, k] = f
                    # Rows of the block need every column for their pivots; the others wait for
                    # the matrix product below.
                    for j in range(0 if i >= lo else lo, k):
                        A[i, j] += f * A[k, j]
            if min(least_share, least_share * least_rate) < TINY or not pivot < np.inf:
                return _LOST
        if lo > 1:
            A[:lo, :lo] += np.dot(
                np.ascontiguousarray(A[:lo, lo:hi]), np.ascontiguousarray(A[lo:hi, :lo])
            )
        hi = lo
    return 0


@_jit
def _distribution(A, pi):
    """Solve ``pi (I - U) = e_0`` and normalise; rescale on the way so that nothing overflows."""
    n = A.shape[0]
    pi[:] = 0.0
    pi[0] = 1.0
    for i in range(n):
        if pi[i] > _BIG:
            pi *= _SMALL
        if not _FADING < pi[i] < np.inf:
            far_distribution(A, np.zeros((n, n), dtype=np.int64), pi)
            break
        for k in range(i + 1, n):
            pi[k] += pi[i] * A[i, k]
    pi /= pi.sum()


# Numbers beyond float64: a mantissa and an exponent of two, the least there is for zero.


@_jit
def add(a, exponent_a, b, exponent_b):
    """``a 2^exponent_a + b 2^exponent_b``."""
    if a == 0.0 or (b != 0.0 and exponent_a < exponent_b):
        a, exponent_a, b, exponent_b = b, exponent_b, a, exponent_a
    if b != 0.0 and exponent_a - exponent_b < 1100:
        a += math.ldexp(b, exponent_b - exponent_a)
    a, exponent = math.frexp(a)
    return a, exponent_a + exponent if a != 0.0 else NOTHING


@_jit
def _eliminate_far(A, exponents):
    """As `_eliminate`, with an exponent for every entry; twenty times slower."""
    for k in range(A.shape[0] - 1, 0, -1):
        pivot, exponent = 0.0, NOTHING
        for j in range(k):
            pivot, exponent = add(pivot, exponent, A[k, j], exponents[k, j])
        if pivot == 0.0:
            return k
        A[k, k], exponents[k, k] = pivot, exponent
        for i in range(k):
            if A[i, k] > 0.0:
                A[i, k] /= pivot
                exponents[i, k] -= exponent
                for j in range(k):
                    A[i, j], exponents[i, j] = add(
                        A[i, j],
                        exponents[i, j],
                        A[i, k] * A[k, j],
                        exponents[i, k] + exponents[k, j],
                    )
    return 0


@_jit
def far_distribution(A, exponents, pi):
    """As `_distribution`, with an exponent for every state.

    Two likely sets of states may be joined only by states so rare that they underflow: without
    the exponents, all that lies behind them would come out as impossible.
    """
    n = A.shape[0]
    far = np.zeros(n, dtype=np.int64)
    pi[0] = 1.0
    for k in range(1, n):
        total, exponent = 0.0, NOTHING
        for i in range(k):
            total, exponent = add(total, exponent, pi[i] * A[i, k], far[i] + exponents[i, k])
        pi[k], far[k] = total, exponent
    top = far.max()
    for k in range(n):
        pi[k] = math.ldexp(pi[k], max(far[k] - top, -1100))
    pi /= pi.sum()


@_jit
def _factor_one(src, dst, rates, place, A, pi):
    """Eliminate a chain and find its ``pi``; return the place of a pivot of zero, if there is one.

    Where products under- or overflow it is done again with exponents, and then rounded.
    """
    A[:] = 0.0
    for e in range(src.shape[0]):
        A[place[src[e]], place[dst[e]]] = rates[e]
    zero = _eliminate(A)
    if zero == 0:
        _distribution(A, pi)
    if zero != _LOST:
        return zero
    exponents = np.full(A.shape, NOTHING)
    A[:] = 0.0
    for e in range(src.shape[0]):
        i, j = place[src[e]], place[dst[e]]
        A[i, j], exponents[i, j] = add(rates[e], 0, 0.0, NOTHING)
    zero = _eliminate_far(A, exponents)
    if zero == 0:
        far_distribution(A, exponents, pi)
        for i in range(A.shape[0]):
            for j in range(A.shape[0]):
                A[i, j] = math.ldexp(A[i, j], min(max(exponents[i, j], -1100), 1100))
    return zero


@_jit
def gth_factor(src, dst, rates, A, pi, place, status):
    """Factor chains ``rates [B, E]`` into ``A [B, n, n]``, ``pi [B, n]``, ``place [B, n]``.

    ``place`` is the position of each state in the elimination.
    """
    n = A.shape[1]
    spare = np.empty(n)
    for b in range(rates.shape[0]):
        place[b] = np.arange(n)
        status[b] = OK
        ground = _factor_one(src, dst, rates[b], place[b], A[b], pi[b])
        if ground != 0:
            place[b, 0], place[b, ground] = ground, 0
            if _factor_one(src, dst, rates[b], place[b], A[b], pi[b]) != 0:
                status[b] = FAILED
                continue
        pi[b, 0], pi[b, ground] = pi[b, ground], pi[b, 0]  # from places to states
        if pi[b, ground] < RARE_GROUND * pi[b].max():
            place[b, np.argsort(-pi[b], kind="mergesort")] = np.arange(n)
            _factor_one(src, dst, rates[b], place[b], A[b], spare)
        for k in range(1, n):
            if not TINY <= A[b, k, k] < np.inf:
                status[b] = NO_ADJOINT


@_jit
def _solve_one(A, place, h, v):
    """Solve ``(I - U) L v = h`` with ``v = 0`` at the ground, whose equation is redundant."""
    n = A.shape[0]
    x = np.empty(n)
    for s in range(n):
        x[place[s]] = h[s]
    for k in range(n - 1, 0, -1):
        w = x[k]
        for j in range(k + 1, n):
            w += A[k, j] * x[j]
        x[k] = w
    x[0] = 0.0
    for k in range(1, n):
        w = x[k]
        for j in range(k):
            w += A[k, j] * x[j]
        x[k] = w / A[k, k]
    for s in range(n):
        v[s] = x[place[s]]


@_jit
def gth_solve(A, place, h, v):
    """``-Q v = h`` for every chain."""
    for b in range(h.shape[0]):
        _solve_one(A[b], place[b], h[b], v[b])


@_jit
def gth_solve_transposed(A, place, rhs, u):
    """``-Q^T u = rhs`` for every chain, ``L^T`` first."""
    n = A.shape[1]
    x = np.empty(n)
    for b in range(rhs.shape[0]):
        for s in range(n):
            x[place[b, s]] = rhs[b, s]
        for k in range(n - 1, 0, -1):
            x[k] /= A[b, k, k]
            for j in range(k):
                x[j] += A[b, k, j] * x[k]
        x[0] = 0.0
        for i in range(n):
            for k in range(i + 1, n):
                x[k] += A[b, i, k] * x[i]
        for s in range(n):
            u[b, s] = x[place[b, s]]


@_jit
def _differences(A, place, pi, g):
    """``v_k - v_i`` of every pair of states, in the order of the elimination, uncancelled."""
    n = A.shape[0]
    w = np.zeros(n)
    for s in range(n):
        for t in range(n):
            w[place[s]] += pi[t] * (g[s] - g[t])
    D = np.zeros((n, n))
    for k in range(n - 1, 0, -1):
        for j in range(k + 1, n):
            w[k] += A[k, j] * w[j]
    for k in range(1, n):
        for j in range(k):
            if A[k, j] > 0.0:
                share = A[k, j] / A[k, k]
                for i in range(k):
                    D[k, i] += share * D[j, i]
        for i in range(k):
            D[k, i] += w[k] / A[k, k]
            D[i, k] = -D[k, i]
    return D


@_jit
def out_of_range(src, rates, pi, steps, out):
    """Whether a gradient ``out = pi_i steps`` overflowed, or needs states that underflow.

    The last: where ``pi_i`` has lost digits, or all, and yet ``v`` differs so much across an edge
    that this matters beside the largest ``q_ij dL/dq_ij``.
    """
    total, largest, unseen = 0.0, 0.0, 0.0
    for e in range(src.shape[0]):
        total += abs(out[e])
        largest = max(largest, rates[e] * abs(out[e]))
        if pi[src[e]] < TINY:
            unseen = max(unseen, rates[e] * _LEAST * abs(steps[e]))
    return not total < np.inf or (largest > 0.0 and unseen > _DIGITS * largest)


@_jit
def gth_rate_gradient(src, dst, rates, A, place, pi, g, out, status):
    """``pi_i (v_j - v_i)`` on every edge, with ``-Q v = g - (pi . g)``, fused."""
    n, edges = A.shape[1], src.shape[0]
    h, v, steps = np.empty(n), np.empty(n), np.empty(edges)
    for b in range(g.shape[0]):
        mean, least = 0.0, 1.0
        for s in range(n):
            mean += pi[b, s] * g[b, s]
            least = min(least, pi[b, s])
        for s in range(n):
            h[s] = g[b, s] - mean
        _solve_one(A[b], place[b], h, v)
        largest, rounded = 0.0, 0.0
        for e in range(edges):
            i, j = src[e], dst[e]
            steps[e] = v[j] - v[i]
            out[b, e] = pi[b, i] * steps[e]
            largest = max(largest, rates[b, e] * abs(out[b, e]))
            rounded = max(rounded, pi[b, i] * rates[b, e] * max(abs(v[i]), abs(v[j])))
        status[b] = False
        # Also where v overflowed.
        cancelled = not (rounded <= _CANCELLATION * largest and largest < np.inf)
        if cancelled:
            D = _differences(A[b], place[b], pi[b], g[b])
            for e in range(edges):
                steps[e] = D[place[b, dst[e]], place[b, src[e]]]
                out[b, e] = pi[b, src[e]] * steps[e]
        if cancelled or least < TINY:
            status[b] = np.isfinite(mean) and out_of_range(src, rates[b], pi[b], steps, out[b])


@_jit
def bd_distribution(up, down, rates, pi, status):
    """Birth-death chains: ``pi_{k+1} = pi_k birth_k / death_{k+1}``.

    States below the last one without a death, or above the first one without a birth, are
    transient. The former may not lie above the latter: then both of them end a closed class.
    """
    n = pi.shape[1]
    for b in range(rates.shape[0]):
        status[b] = OK
        pi[b, 0] = 1.0
        far = False
        first, last = 0, n - 1
        for k in range(n - 1):
            birth, death = rates[b, up[k]], rates[b, down[k]]
            if birth == 0.0:
                last = min(last, k)
            if death == 0.0:
                pi[b, first : k + 1] = 0.0
                first = k + 1
                pi[b, first] = 1.0
                continue
            pi[b, k + 1] = pi[b, k] * (birth / death)
            # Also where the ratio overflowed.
            far |= k < last and not _SMALL < pi[b, k + 1] < _BIG
        if first > last:
            status[b] = FAILED
        elif far:
            inside = slice(first, last)
            _far_bd_distribution(up[inside], down[inside], rates[b], pi[b, first : last + 1])
        total = pi[b].sum()
        for k in range(n):  # one by one, which compiles far faster than a slice
            pi[b, k] /= total
        if not np.isfinite(pi[b, 0]):
            status[b] = FAILED


@_jit
def _far_bd_distribution(up, down, rates, pi):
    """As `bd_distribution`, with an exponent of its own for every state (`_far_distribution`)."""
    n = pi.shape[0]
    exponent = np.zeros(n, dtype=np.int64)
    for k in range(n - 1):
        # Mantissas and exponents apart: the ratio of two rates may itself overflow.
        birth, e_birth = math.frexp(rates[up[k]])
        death, e_death = math.frexp(rates[down[k]])
        pi[k + 1], e = math.frexp(pi[k] * (birth / death))
        exponent[k + 1] = exponent[k] + e_birth - e_death + e
    top = exponent.max()
    for k in range(n):
        pi[k] = math.ldexp(pi[k], max(exponent[k] - top, -1100))


@_jit
def _bd_increments(up, down, rates, mode, h, d):
    """``d_k = v_{k+1} - v_k``, from both ends to the mode so that no tail sum cancels."""
    n = h.shape[0]
    flow = 0.0
    for k in range(mode):
        flow = (rates[down[k - 1]] * flow if k > 0 else 0.0) - h[k]
        flow /= rates[up[k]]
        d[k] = flow
    flow = 0.0
    for k in range(n - 1, mode, -1):
        flow = h[k] + (rates[up[k]] * flow if k < n - 1 else 0.0)
        flow /= rates[down[k - 1]]
        d[k - 1] = flow


@_jit
def bd_solve(up, down, rates, pi, h, v):
    """``-Q v = h`` for birth-death chains, outwards from the mode, where v is zero."""
    n = pi.shape[1]
    d = np.empty(n - 1)
    for b in range(h.shape[0]):
        mode = pi[b].argmax()
        _bd_increments(up, down, rates[b], mode, h[b], d)
        v[b, mode] = 0.0
        for k in range(mode, n - 1):
            v[b, k + 1] = v[b, k] + d[k]
        for k in range(mode - 1, -1, -1):
            v[b, k] = v[b, k + 1] - d[k]


@_jit
def bd_solve_transposed(up, down, rates, pi, rhs, u):
    """``-Q^T u = rhs`` for birth-death chains, outwards from the mode, where u is zero."""
    n = pi.shape[1]
    flux = np.empty(n - 1)
    for b in range(rhs.shape[0]):
        mode = pi[b].argmax()
        total = 0.0
        for k in range(mode):
            total += rhs[b, k]
            flux[k] = total
        total = 0.0
        for k in range(n - 1, mode, -1):
            total -= rhs[b, k]
            flux[k - 1] = total
        u[b, mode] = 0.0
        for k in range(mode, n - 1):
            u[b, k + 1] = (u[b, k] * rates[b, up[k]] - flux[k]) / rates[b, down[k]]
        for k in range(mode - 1, -1, -1):
            u[b, k] = (u[b, k + 1] * rates[b, down[k]] + flux[k]) / rates[b, up[k]]


@_jit
def bd_rate_gradient(up, down, src, rates, pi, g, out, status):
    """``pi_i (v_j - v_i)`` on every edge of birth-death chains, fused.

    Where no probability underflows, from sums of ``pi h`` over the states beyond an edge: what
    crosses it in both directions is the same, so that these are ``q_ij dL/dq_ij``.
    """
    n, edges = pi.shape[1], src.shape[0]
    h, d, steps = np.empty(n), np.empty(n - 1), np.empty(edges)
    for b in range(g.shape[0]):
        mean, least, mode = 0.0, 1.0, 0
        for s in range(n):
            mean += pi[b, s] * g[b, s]
            least = min(least, pi[b, s])
            if pi[b, s] > pi[b, mode]:
                mode = s
        if least >= TINY:
            beyond = 0.0
            for k in range(mode):
                beyond -= pi[b, k] * (g[b, k] - mean)
                d[k] = beyond
            beyond = 0.0
            for k in range(n - 1, mode, -1):
                beyond += pi[b, k] * (g[b, k] - mean)
                d[k - 1] = beyond
            largest = 0.0
            for k in range(n - 1):
                out[b, up[k]] = d[k] / rates[b, up[k]]
                out[b, down[k]] = -d[k] / rates[b, down[k]]
                largest += abs(out[b, up[k]]) + abs(out[b, down[k]])
            status[b] = np.isfinite(mean) and not largest < np.inf
            continue
        for s in range(n):
            h[s] = g[b, s] - mean
        _bd_increments(up, down, rates[b], mode, h, d)
        for k in range(n - 1):
            steps[up[k]], steps[down[k]] = d[k], -d[k]
        for e in range(edges):
            out[b, e] = pi[b, src[e]] * steps[e]
        status[b] = np.isfinite(mean) and out_of_range(src, rates[b], pi[b], steps, out[b])
