"""Sparse GTH elimination: entrywise accurate steady states of chains whose factors stay small.

A queue with phases has states in levels, and each state is joined to the levels next to its own.
Eliminated from the far levels to the near ones, it costs the number of states times the square of
the size of a level, where dense elimination costs the cube of the number of states.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse.csgraph
from torch import Tensor

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers import _elimination_kernels as kernels
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import batch_of, raise_failure, raise_lost_gradient, rows_of
from stationary.solvers._chain import ChainsFactor, Solved
from stationary.solvers._dissection import neighbours
from stationary.solvers._kernels import RARE_GROUND

_MOST_ENTRIES = 20_000_000
"""Entries of a factor, 16 bytes each, from which elimination is refused."""


@dataclass(frozen=True)
class SparseGTH(Solver):
    """Grassmann-Taksar-Heyman elimination of sparse chains, which never subtracts; CPU only.

    States are eliminated by their distance from the ground state, the farthest first. A chain whose
    ground turns out to be rare is eliminated once more around its likeliest state.
    """

    def factor(self, generator: Generator) -> Factor:
        """Eliminate the states of every chain, one chain after the other."""
        if generator.rates.device.type != "cpu":
            raise InputError("SparseGTH() runs on the CPU; move the rates there, or use GTH()")
        recurrent = generator.recurrent()
        if elimination(generator.edges, 0) is None:
            raise SolverError(
                f"the factors of a chain of {generator.n:,} states would have more than "
                f"{_MOST_ENTRIES:,} entries; use SparseLU() or Auto()"
            )
        solved: list[_Eliminated] = []
        all_rates = rows_of(generator.rates)
        first = [0] * len(all_rates) if recurrent is None else rows_of(recurrent).argmax(-1)
        for k, rates in enumerate(all_rates):
            chain = _eliminated(generator.edges, rates, int(first[k]))
            if chain is None:
                raise_failure(generator, np.arange(generator.batch_shape.numel()) == k)
            solved.append(chain)
        return _SparseFactor(generator, solved)


class Elimination:
    """What elimination around a ground state needs to know of the edges, whatever the rates.

    The ground has ``place`` 0, the farthest states the largest. ``rows`` is the pattern: where each
    row starts, and its states by their places. Edges go from places ``source`` to ``target``.
    """

    def __init__(self, edges: Edges, ground: int) -> None:
        graph = neighbours(edges)
        order = scipy.sparse.csgraph.breadth_first_order(
            graph, ground, directed=False, return_predecessors=False
        ).astype(np.int64)
        missing = np.setdiff1d(np.arange(edges.n), order)  # of a chain that falls apart
        order = np.concatenate([order, missing])
        self.place = np.empty(edges.n, dtype=np.int64)
        self.place[order] = np.arange(edges.n)
        self.rows: tuple[Array, Array] = kernels.pattern(
            graph.indptr, graph.indices, order, self.place, _MOST_ENTRIES
        )
        src, dst = edges.numpy
        self.source, self.target = self.place[src], self.place[dst]

    @cached_property
    def slot(self) -> Array:
        """Where each edge stands in the pattern."""
        return kernels.slots(*self.rows, self.source, self.target)

    @cached_property
    def operations(self) -> float:
        """Multiply-adds that an elimination takes."""
        return float((np.diff(self.rows[0]).astype(float) ** 2).sum())


def elimination(edges: Edges, ground: int) -> Elimination | None:
    """Return how these edges are eliminated around a ground; None if the factors are too large."""
    found = edges.remembered(Elimination, ground)
    edges.remembered(_grounds).setdefault(ground)
    return found if edges.n == 1 or len(found.rows[0]) > 1 else None


def _grounds(edges: Edges) -> dict[int, None]:
    """Grounds around which these edges were eliminated, the first one first."""
    del edges
    return {}


def _eliminated(edges: Edges, rates: Array, ground: int) -> _Eliminated | None:
    """Eliminate a chain around a likely state; None if it cannot be done in float64.

    The ground is the state to try first, which must not be transient.
    """
    first = elimination(edges, ground)
    chain = None if first is None else _Eliminated.of(first, rates)
    if chain is None:
        return None
    pi, likely = chain.pi, int(chain.pi.argmax())
    if pi[ground] >= RARE_GROUND * pi[likely]:
        return chain
    # A ground that served another chain of these edges saves a pattern of its own.
    near = [g for g in [*edges.remembered(_grounds)] if pi[g] >= RARE_GROUND * pi[likely]]
    around = elimination(edges, near[0] if near else likely)
    again = None if around is None else _Eliminated.of(around, rates)
    if again is None:
        return chain
    again.pi = pi  # the first elimination has every digit of it already
    return again


class _Eliminated(Solved):
    """One chain, eliminated around a ground."""

    def __init__(self, how: Elimination, rates: Array, factor: tuple[Array, ...]) -> None:
        self._how, self._rates, self._factor = how, rates, factor
        placed = np.empty(len(how.place))
        kernels.distribution(*how.rows, factor[1], placed)
        self.pi = placed[how.place]

    @classmethod
    def of(cls, how: Elimination, rates: Array) -> _Eliminated | None:
        """Eliminate; None where a pivot or a probability under- or overflows."""
        lower, upper = np.zeros(len(how.rows[1])), np.zeros(len(how.rows[1]))
        down = how.source > how.target
        lower[how.slot[down]] = rates[down]
        upper[how.slot[~down]] = rates[~down]
        pivots = np.ones(len(how.place))
        if not kernels.eliminate(*how.rows, lower, upper, pivots):
            return None
        chain = cls(how, rates, (lower, upper, pivots))
        return chain if np.isfinite(chain.pi).all() else None

    def solve(self, h: Array) -> Array:
        return self._substitute(kernels.solve, h)

    def solve_transposed(self, b: Array) -> Array:
        return self._substitute(kernels.solve_transposed, b)

    def _substitute(self, kernel: Callable[..., None], rhs: Array) -> Array:
        placed = np.empty(len(rhs))
        placed[self._how.place] = rhs
        kernel(*self._how.rows, *self._factor, placed)
        return placed[self._how.place]

    def rate_gradient(self, g: Array, out: Array) -> bool:
        """Write ``pi_i (v_j - v_i)`` of every edge; return whether it is in range."""
        how = self._how
        pi, placed = np.empty(len(g)), np.empty(len(g))
        pi[how.place], placed[how.place] = self.pi, g
        edges = (how.source, how.target, how.slot, self._rates)
        return bool(kernels.rate_gradient(how.rows, self._factor, edges, pi, placed, out))


class _SparseFactor(ChainsFactor):
    accuracy = Accuracy.ENTRYWISE

    def rate_gradient(self, g: Tensor) -> Tensor:
        out = np.empty((len(self._chains), len(self.edges)))
        rows = zip(self._chains, rows_of(g), out, strict=True)
        lost = ~np.array([chain.rate_gradient(row, to) for chain, row, to in rows], dtype=bool)
        if lost.any():
            raise_lost_gradient(lost)
        return batch_of(out, g.shape[:-1])
