"""The default solver: a decision table, and what to do when a row of it fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from stationary._support.memory import half_the_memory
from stationary.edges import Edges
from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._base import Factor, Solver
from stationary.solvers._dissection import separator
from stationary.solvers.birth_death import BirthDeath
from stationary.solvers.device import Jacobi
from stationary.solvers.gth import GTH
from stationary.solvers.lu import LU
from stationary.solvers.multigrid import Multigrid
from stationary.solvers.sparse import SparseLU
from stationary.solvers.sparse_gth import SparseGTH, elimination

_log = logging.getLogger(__name__)
T = TypeVar("T")

_MOST_GTH = 2_000
_MOST_DENSE_GTH = 10_000
_FEW_EDGES = 20
_MOST_SPARSE_GTH = 5e7
_OVERHEAD = 3e4
_PER_UPDATE = 4.0
_MOST_TENSOR_GTH = 256
_MOST_LU = 10_000
_MOST_OPERATIONS = 3e11


@dataclass(frozen=True)
class Auto(Solver):
    """Choose a solver by the structure, size and device of the generator.

    ======================  ==================  ===============  ================================
    chain                   device              solver           why
    ======================  ==================  ===============  ================================
    birth-death edges       CPU                 `BirthDeath`     O(n), entrywise accurate
    levels of few states,   CPU                 `SparseGTH`      entrywise accurate; n times the
    such as phases                                               square of a level
    up to 2,000 states      CPU                 `GTH`            entrywise accurate, compiled
    up to 10,000 states,    CPU                 `GTH`            entrywise accurate, compiled
    many edges
    more states, a plane    CPU                 `SparseLU`,      right at any load; a million
    lattice or like one                         `Multigrid`      states of a plane lattice take
                                                                 1.7 GiB and seconds
    more states, a solid    CPU                 `Multigrid`,     factors would take too long or
    lattice or worse                            `SparseLU`       too much memory
    up to 256 states        any other           `GTH`            entrywise accurate; one kernel on
                                                                 CUDA up to 64 states
    up to 10,000 states     any other           `LU`             matrix products; normwise
                                                                 accurate
    more                    any other           `Jacobi`         each step passes over the edges;
                                                                 slow where the chain mixes slowly
    ======================  ==================  ===============  ================================

    `SparseGTH` is chosen where it takes at most 5e7 multiply-adds per chain, about a tenth of a
    second, and fewer than `GTH` where that could be chosen. Many edges are more than 20 per state.
    Where rare states matter on a chain of 2,000 to 10,000 states that goes to `SparseLU`, ask for
    ``SparseGTH()`` or ``GTH()``: the solvers for larger chains are accurate normwise only.

    A chain is like a plane lattice if its factors are expected to fit in half of the memory and to
    take fewer than 3e11 multiply-adds, about a minute, by the number of states that cut it in
    halves. A solver that fails, and says so by a `SolverError` or for want of memory, is followed
    by the next of its row, with a warning in the log, and at last by those of the rows for larger
    chains; `SteadyState.solver` is the one that did it.
    """

    def candidates(self, generator: Generator) -> Iterator[Solver]:
        """Solvers of the row of the table that fits, in the order in which they are tried."""
        # One by one, since to judge the later ones costs more than a small chain takes.
        n = generator.n
        on_cpu = generator.rates.device.type == "cpu"
        if not on_cpu:
            yield GTH() if n <= _MOST_TENSOR_GTH else LU() if n <= _MOST_LU else Jacobi()
        elif generator.edges.birth_death is not None:
            yield BirthDeath()
        else:
            yield from _entrywise(generator.edges)
            plane = _plane(generator)
            yield from (SparseLU(), Multigrid()) if plane else (Multigrid(), SparseLU())

    def factor(self, generator: Generator) -> Factor:
        """Factor with the first solver of the row that succeeds."""
        return _FallingThrough(generator, self.candidates(generator))


def _entrywise(edges: Edges) -> list[Solver]:
    """Eliminations that can be afforded, the cheaper one first."""
    n = edges.n
    dense = n**3 / 3
    how = elimination(edges, 0) if dense > _OVERHEAD else None
    sparse = math.inf if how is None else _OVERHEAD + _PER_UPDATE * how.operations
    most = _MOST_GTH if len(edges) <= _FEW_EDGES * n else _MOST_DENSE_GTH
    costs: list[tuple[float, Solver]] = []
    if sparse <= _PER_UPDATE * _MOST_SPARSE_GTH:
        costs.append((sparse, SparseGTH()))
    if n <= most:
        costs.append((dense, GTH()))
    return [solver for _, solver in sorted(costs, key=lambda pair: pair[0])]


class _FallingThrough(Factor):
    """The factor of the first solver that succeeds, also at the adjoint equations, asked later."""

    def __init__(self, generator: Generator, solvers: Iterator[Solver]) -> None:
        self.edges = generator.edges
        self._generator, self._left, self._asked = generator, solvers, next(solvers)
        self._factor: Factor | None = None
        self._failures: list[str] = []
        self.pi, self.accuracy = self._ask(lambda factor: (factor.pi, factor.accuracy))
        self.solver = self._asked

    def solve(self, h: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.solve(h))

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.solve_transposed(b))

    def precondition(self, r: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.precondition(r))

    def rate_gradient(self, g: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.rate_gradient(g))

    def select(self, chains: Tensor) -> Factor:
        return self._ask(lambda factor: factor.select(chains))

    def _ask(self, question: Callable[[Factor], T]) -> T:
        while True:
            try:
                if self._factor is None:
                    self._factor = self._asked.factor(self._generator)
                return question(self._factor)
            except (SolverError, MemoryError) as error:
                self._factor = None  # before there are two
                self._go_on(error)

    def _go_on(self, error: Exception) -> None:
        """Log why a solver failed and which is next, or raise if there is none."""
        why = str(error) or "out of memory"
        self._failures.append(f"{self._asked!r}: {why}")
        upcoming = next(self._left, None)
        if upcoming is None:
            if len(self._failures) == 1:
                raise error
            raise SolverError(
                f"no solver could solve the chain of {self._generator.n:,} states; "
                + "; ".join(self._failures)
            ) from error
        _log.warning("%r failed (%s); trying %r next", self._asked, why, upcoming)
        self._asked = upcoming


def _plane(generator: Generator) -> bool:
    """Whether factors are small enough, as separators have it, without computing an order.

    The constants fit plane and solid lattices of 1e5 and 1e6 states, where they were counted.
    """
    n, cut = generator.n, generator.edges.remembered(separator)
    entries = 2.7 * n * math.log2(n) + 24.0 * cut**2
    memory = 32.0 * entries * generator.batch_shape.numel()
    return 40.0 * cut**3 < _MOST_OPERATIONS and memory < half_the_memory()
