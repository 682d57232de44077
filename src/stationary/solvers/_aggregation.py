"""Hierarchies of ever fewer states: what the multigrid solver cycles through.

Let ``x`` be near the steady state, ``F = diag(x) Q`` without its diagonal the flows, ``out`` their
row sums and ``A = diag(out) - F = -diag(x) Q``. Then

    -Q v = h      is  A v = x h,
    -Q^T u = b    is  A^T e = b  with  u = x e,

and at ``x = pi`` both the rows and the columns of A sum to zero. Adding the flows between groups of
states gives a smaller matrix of the same kind, for both equations at once; only sums of positive
numbers are taken. This is Notay's aggregation multigrid for nonsymmetric M-matrices (AGMG: pairs
of pairs by the quality of their coupling, Gauss-Seidel, and two Krylov steps on every smaller
level), which needs the zero sums that the steady state provides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.solvers import _kernels
from stationary.solvers import _multigrid_kernels as kernels

Rows = tuple[Array, Array, Array]
"""A matrix in compressed rows: where each starts, column indices, values."""

COARSEST = 300  # states that are eliminated directly
_PASSES = 2  # of pairing: groups of four
_WORK = 4.0  # most that all visits of one level may cost, in visits of the finest
_SMALLEST = 1e-280  # factor of a cycle
_SHRINKS = 0.9  # groups a state, at most: or levels would never end


def group_states(rows: Rows, columns: Rows, out: Array) -> tuple[Array, Rows, Array]:
    """Groups of about four states that exchange much flow, the flows between them, their sums."""
    n = len(out)
    group = np.arange(n, dtype=rows[1].dtype)
    for k in range(_PASSES):
        if k > 0:
            columns = kernels.transpose(*rows, len(out))
        pairs = np.empty(len(out), dtype=rows[1].dtype)
        count = kernels.pair(*rows, *columns, out, pairs)
        start, index, values, out = kernels.coarsen(*rows, pairs, count)
        rows = (start, index, values)
        group = pairs[group]
    if len(out) > _SHRINKS * n:
        raise SolverError(
            "multigrid finds no groups of states: flows are too far apart for float64; leave out "
            "transitions that never happen"
        )
    return group, rows, out


@dataclass(frozen=True)
class Elimination:
    """GTH elimination of the jump chain of the flows of a few states."""

    out: Array
    A: Array
    place: Array
    pi: Array

    @classmethod
    def of(cls, rows: Rows, out: Array) -> Self | None:
        """Eliminate, or return nothing where the flows are too far apart."""
        n = len(out)
        src = np.repeat(np.arange(n), np.diff(rows[0]))
        A, pi = np.empty((1, n, n)), np.empty((1, n))
        place, status = np.empty((1, n), dtype=np.int64), np.empty(1, dtype=np.int64)
        rates = (rows[2] / out[src])[None]
        _kernels.gth_factor(src, rows[1].astype(np.int64), rates, A, pi, place, status)
        return None if status[0] != _kernels.OK else cls(out, A, place, pi[0])

    def solve(self, rhs: Array, transposed: bool) -> Array:
        """Solution of ``A v = rhs`` or ``A^T v = rhs``, with the ground's equation left out."""
        v = np.empty((1, len(rhs)))
        if transposed:
            _kernels.gth_solve_transposed(self.A, self.place, rhs[None], v)
            return v[0] / self.out
        _kernels.gth_solve(self.A, self.place, (rhs / self.out)[None], v)
        return v[0]


def rescaled(rows: Rows, columns: Rows, out: Array, finest: bool = True) -> Array | None:
    """Return factors ``e > 0`` that bring flows nearer to balance: one multiplicative cycle.

    Horton and Leutenegger's: smooth, group by the new flows, do the same between groups, multiply.
    Every number stays positive however far the flows are from balance, where a linear correction
    would not. Nothing is returned if the flows are too far apart for float64.
    """
    n = len(out)
    if n <= COARSEST:
        chain = Elimination.of(rows, out)
        return None if chain is None else chain.pi / out
    e, zero = np.ones(n), np.zeros(n)
    for _ in range(1 if finest else 2):
        smooth(columns, out, zero, e)
        values, sums = kernels.flows(rows[0], rows[2], e)
        fine = (rows[0], rows[1], values)
        group, coarse, coarse_out = group_states(fine, kernels.transpose(*fine, n), sums)
        columns_of_groups = kernels.transpose(*coarse, len(coarse_out))
        factors = rescaled(coarse, columns_of_groups, coarse_out, finest=False)
        if factors is None:
            return None
        e *= (factors / factors.max())[group]
        np.maximum(e, _SMALLEST * e.max(), out=e)
        smooth(columns, out, zero, e)
    return e


def cycled(rates: Rows, x: Array) -> tuple[Array, Array]:
    """One multiplicative cycle on a distribution: a new one, and each state's imbalance before.

    The imbalance is a share of the state's own flow.
    """
    values, out = kernels.flows(rates[0], rates[2], x)
    rows = (rates[0], rates[1], values)
    columns: Rows = kernels.transpose(*rows, len(out))
    left = kernels.product(*columns, out, np.ones_like(x))
    e = rescaled(rows, columns, out)
    if e is None:
        raise SolverError(
            "rates or probabilities are too far apart for float64; leave out transitions that "
            "never happen, or pass a start"
        )
    after = x * e
    return after / after.sum(), np.abs(left) / out


def smooth(rows: Rows, out: Array, rhs: Array, v: Array) -> None:
    """Gauss-Seidel in both orders."""
    # Either order alone fails where the chain drifts against it.
    kernels.sweep(*rows, out, rhs, v, False)
    kernels.sweep(*rows, out, rhs, v, True)


class Level:
    """Flows between the states of a level, and the level of its groups, if there is one."""

    def __init__(self, rows: Rows, out: Array, visits: int = 1, most: float | None = None) -> None:
        n = len(out)
        self.n = n
        self.out = out
        self.rows = rows
        self.columns: Rows = kernels.transpose(*rows, n)
        self.direct: Elimination | None = None
        if n <= COARSEST:
            self.direct = Elimination.of(rows, out)
            return
        self.group, coarse, coarse_out = group_states(rows, self.columns, out)
        # Two Krylov steps on the next level, unless it has so many flows left, visited so often,
        # that it would cost more than this is worth.
        most = _WORK * len(rows[2]) if most is None else most
        twice = len(coarse_out) > COARSEST and 2 * visits * len(coarse[2]) <= most
        self.steps = 2 if twice else 1
        self.coarse = Level(coarse, coarse_out, self.steps * visits, most)

    def matrix(self, transposed: bool) -> Rows:
        """Flows of ``A`` or ``A^T``, row by row."""
        return self.columns if transposed else self.rows

    def precondition(self, rhs: Array, transposed: bool) -> Array:
        """Roughly solve ``A v = rhs`` or its transpose: smooth, correct by groups, smooth."""
        if self.n <= COARSEST:
            return rhs / self.out if self.direct is None else self.direct.solve(rhs, transposed)
        rows = self.matrix(transposed)
        v = np.zeros(self.n)
        smooth(rows, self.out, rhs, v)
        grouped = self.gathered(kernels.residual(*rows, self.out, rhs, v))
        if self.steps == 1:
            correction = self.coarse.precondition(grouped, transposed)
        else:
            correction, _ = krylov(self.coarse, grouped, transposed, self.steps)
        v += correction[self.group]
        smooth(rows, self.out, rhs, v)
        return v

    def gathered(self, r: Array) -> Array:
        """Sums over the groups."""
        return np.bincount(self.group, r, self.coarse.n)


@np.errstate(over="ignore", invalid="ignore")  # steps that overflow are not taken
def krylov(
    level: Level, rhs: Array, transposed: bool, steps: int, reduction: float = 0.0
) -> tuple[Array, float]:
    """Solve by conjugate steps around `Level.precondition`; return ``v`` and the last one's share.

    The residual is made orthogonal to every step taken. Where A is symmetric these are conjugate
    gradients, and the sum of squares of what the steps add, in the norm of ``v . A v``, is that of
    the whole. Minimising the residual instead stagnates for long: it is small for the smooth
    errors that matter. Steps end early where one adds less than the share ``reduction``.
    """
    rows = level.matrix(transposed)
    # Both matrices have ones for their left null vector. What rounding leaves of it in the
    # residual has no solution, and the steps would follow it.
    v, r = np.zeros(level.n), rhs - level.out * (rhs.sum() / level.out.sum())
    taken: list[tuple[Array, Array, float]] = []
    total, share = 0.0, np.inf
    for _ in range(steps):
        step = level.precondition(r, transposed)
        image = kernels.product(*rows, level.out, step)
        for earlier, its_image, square in taken:
            overlap = float(earlier @ image) / square
            step -= overlap * earlier
            image -= overlap * its_image
        square, along = float(step @ image), float(step @ r)
        if not 0.0 < square < np.inf:
            break
        v += along / square * step
        r -= along / square * image
        taken.append((step, image, square))
        added = along / square * along
        total += added
        share = math.sqrt(added / total) if 0.0 < total < np.inf else np.inf
        if share <= reduction:
            break
    return v, share
