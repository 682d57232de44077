"""The default solver: a decision table."""

from __future__ import annotations

from dataclasses import dataclass

from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._base import Factor, Solver
from stationary.solvers.birth_death import BirthDeath
from stationary.solvers.gth import GTH
from stationary.solvers.lu import LU
from stationary.solvers.sparse import SparseLU

_MOST_GTH = 2_000
_MOST_DENSE_GTH = 10_000
_FEW_EDGES = 20
_MOST_TENSOR_GTH = 256
_MOST_LU = 10_000


@dataclass(frozen=True)
class Auto(Solver):
    """Choose a solver by the structure, size and device of the generator.

    ======================  ==================  =============  ==================================
    chain                   device              solver         why
    ======================  ==================  =============  ==================================
    birth-death edges       CPU                 `BirthDeath`   O(n), entrywise accurate
    up to 2,000 states      CPU                 `GTH`          entrywise accurate, compiled
    up to 10,000 states,    CPU                 `GTH`          entrywise accurate, compiled
    many edges
    more states             CPU                 `SparseLU`     memory grows with the edges; rare
                                                               states are accurate normwise only
    up to 256 states        any other           `GTH`          entrywise accurate, one pass of
                                                               tensor operations a state
    up to 10,000 states     any other           `LU`           matrix products; normwise accurate
    more                    any other           `SolverError`  a dense matrix would be too large
    ======================  ==================  =============  ==================================

    Many edges are more than 20 a state. Where rare states matter on a chain of 2,000 to 10,000
    states with few edges, ask for ``GTH()``.
    """

    def choose(self, generator: Generator) -> Solver:
        """Return the row of the table that fits."""
        n, edges = generator.n, len(generator.edges)
        if generator.rates.device.type == "cpu":
            if generator.edges.birth_death is not None:
                return BirthDeath()
            sparse = edges <= _FEW_EDGES * n
            return SparseLU() if n > (_MOST_GTH if sparse else _MOST_DENSE_GTH) else GTH()
        if n <= _MOST_TENSOR_GTH:
            return GTH()
        if n > _MOST_LU:
            raise SolverError(
                f"the chain has {n:,} states, too many for a dense matrix on "
                f"{generator.rates.device}; move the rates to the CPU"
            )
        return LU()

    def factor(self, generator: Generator) -> Factor:
        """Factor with the chosen solver."""
        return self.choose(generator).factor(generator)
