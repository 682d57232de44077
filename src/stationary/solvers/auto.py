"""The default solver: a decision table, and what to do when a row of it fails."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from stationary._support.memory import half_the_memory
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

_log = logging.getLogger(__name__)

_MOST_GTH = 2_000
_MOST_DENSE_GTH = 10_000
_FEW_EDGES = 20
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
    more                    any other           `Jacobi`         a pass over the edges a step; slow
                                                                 where the chain mixes slowly
    ======================  ==================  ===============  ================================

    Many edges are more than 20 per state. Where rare states matter on a chain of 2,000 to 10,000
    states with few edges, ask for ``GTH()``: the solvers for larger chains are accurate normwise
    only.

    A chain is like a plane lattice if its factors are expected to fit in half of the memory and to
    take fewer than 3e11 multiply-adds, about a minute, by the number of states that cut it in
    halves. A solver that fails, and says so by a `SolverError` or for want of memory, is followed
    by the next of its row, with a warning in the log; `SteadyState.solver` is the one that did it.
    """

    def choose(self, generator: Generator) -> Solver:
        """Return the first solver of the row of the table that fits."""
        return self.candidates(generator)[0]

    def candidates(self, generator: Generator) -> Sequence[Solver]:
        """Solvers of the row of the table that fits, in the order in which they are tried."""
        n, edges = generator.n, len(generator.edges)
        if generator.rates.device.type == "cpu":
            if generator.edges.birth_death is not None:
                return [BirthDeath()]
            sparse = edges <= _FEW_EDGES * n
            if n <= (_MOST_GTH if sparse else _MOST_DENSE_GTH):
                return [GTH()]
            large: list[Solver] = [SparseLU(), Multigrid()]
            return large if _plane(generator) else large[::-1]
        if n <= _MOST_TENSOR_GTH:
            return [GTH()]
        return [LU()] if n <= _MOST_LU else [Jacobi()]

    def factor(self, generator: Generator) -> Factor:
        """Factor with the first solver of the row that succeeds."""
        solvers = self.candidates(generator)
        if len(solvers) > 1:
            return _FallingThrough(generator, solvers)
        factor = solvers[0].factor(generator)
        factor.solver = solvers[0]
        return factor


class _FallingThrough(Factor):
    """The factor of the first solver that succeeds, also at the adjoint equations, asked later."""

    def __init__(self, generator: Generator, solvers: Sequence[Solver]) -> None:
        self.edges = generator.edges
        self._generator, self._left = generator, list(solvers)
        self._failures: list[str] = []
        self._next()
        self.pi, self.accuracy = self._factor.pi, self._factor.accuracy
        self.solver = self._asked

    def solve(self, h: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.solve(h))

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.solve_transposed(b))

    def precondition(self, r: Tensor) -> Tensor:
        return self._ask(lambda factor: factor.precondition(r))

    def select(self, chains: Tensor) -> Factor:
        return self._factor.select(chains)

    def _ask(self, question: Callable[[Factor], Tensor]) -> Tensor:
        while True:
            try:
                return question(self._factor)
            except (SolverError, MemoryError) as error:
                self._failed(error)
            del self._factor  # before there are two
            self._next()

    def _next(self) -> None:
        """Take the next solver that can factor the chains."""
        while True:
            self._asked = self._left.pop(0)
            try:
                self._factor = self._asked.factor(self._generator)
            except (SolverError, MemoryError) as error:
                self._failed(error)
            else:
                return

    def _failed(self, error: Exception) -> None:
        """Log why a solver failed and which is next, or raise if there is none."""
        why = str(error) or "out of memory"
        self._failures.append(f"{self._asked!r}: {why}")
        if not self._left:
            raise SolverError(
                f"no solver could solve the chain of {self._generator.n:,} states; "
                + "; ".join(self._failures)
            ) from error
        _log.warning("%r failed (%s); trying %r next", self._asked, why, self._left[0])


def _plane(generator: Generator) -> bool:
    """Whether factors are small enough, as separators have it, without computing an order.

    The constants fit plane and solid lattices of 1e5 and 1e6 states, where they were counted.
    """
    n, cut = generator.n, separator(generator.edges)
    entries = 2.7 * n * math.log2(n) + 24.0 * cut**2
    memory = 32.0 * entries * generator.batch_shape.numel()
    return 40.0 * cut**3 < _MOST_OPERATIONS and memory < half_the_memory()
