"""The default solver: a decision table."""

from __future__ import annotations

from dataclasses import dataclass

from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._base import Factor, Solver
from stationary.solvers.birth_death import BirthDeath
from stationary.solvers.gth import GTH
from stationary.solvers.lu import LU

_MOST_DENSE = 10_000
_MOST_TENSOR_GTH = 256


@dataclass(frozen=True)
class Auto(Solver):
    """Choose a solver by the structure, size and device of the generator.

    ======================  ==================  =============  ==================================
    chain                   device              solver         why
    ======================  ==================  =============  ==================================
    birth-death edges       CPU                 `BirthDeath`   O(n), entrywise accurate
    up to 10,000 states     CPU                 `GTH`          entrywise accurate, compiled
    up to 256 states        any other           `GTH`          entrywise accurate, one pass of
                                                               tensor operations a state
    up to 10,000 states     any other           `LU`           matrix products; normwise accurate
    more states             any                 `SolverError`  dense methods would need more than
                                                               n^2 = 800 MB a chain
    ======================  ==================  =============  ==================================
    """

    def choose(self, generator: Generator) -> Solver:
        """Return the row of the table that fits."""
        on_cpu = generator.rates.device.type == "cpu"
        if on_cpu and generator.edges.birth_death is not None:
            return BirthDeath()
        if generator.n > _MOST_DENSE:
            raise SolverError(
                f"the chain has {generator.n:,} states; dense solvers stop at {_MOST_DENSE:,}: "
                f"lump states, or pass a solver of your own"
            )
        if on_cpu or generator.n <= _MOST_TENSOR_GTH:
            return GTH()
        return LU()

    def factor(self, generator: Generator) -> Factor:
        """Factor with the chosen solver."""
        return self.choose(generator).factor(generator)
