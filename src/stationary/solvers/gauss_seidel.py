"""Gauss-Seidel: sweeps over the states, in memory proportional to the edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._aggregation import COARSEST, cycled
from stationary.solvers._base import Factor, Solver
from stationary.solvers._chain import EntrywiseChainsFactor, Solved, SparseChain, chains_of
from stationary.solvers._iterated import Budget, Iterated
from stationary.solvers._sweeps import Sweeps, rough

_BLOCKS = 256
_CHECK = 8
_ACCEPTED = 1e-9
_ROUNDING = 4 * float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)
_SETTLED = 1e-10  # share of probability that groups of states may still exchange
_ADVICE = "the chain mixes slowly: use GTH() if it is small enough, SparseLU() or Krylov() if not"


@dataclass(frozen=True)
class GaussSeidel(Solver):
    """Sweeps over the states, last to first and back, until no probability changes; CPU only.

    Sweeps add and divide positive numbers and are stopped by the largest *relative* change of a
    probability, so that rare states are right too. The adjoint equations are solved by GMRES
    around one sweep.

    Parameters
    ----------
    tolerance : float
        Relative error of every probability that is aimed at, as the rate of convergence has it.
    most : int
        Sweeps before it is given up.
    """

    tolerance: float = 1e-12
    most: int = 50_000

    def factor(self, generator: Generator) -> Factor:
        """Sweep over every chain until it has converged, one after the other."""
        chains = chains_of(generator, "GaussSeidel()")
        return EntrywiseChainsFactor(generator, [self._solved(chain) for chain in chains])

    def _solved(self, chain: SparseChain) -> Solved:
        n, sweeps = chain.n, Sweeps(chain)
        p = rough(chain, np.arange(n) * min(n, _BLOCKS) // n)
        change, taken, done = np.inf, 0, n == 1
        while not done:
            if taken >= self.most:
                raise SolverError(
                    f"after {taken:,} Gauss-Seidel sweeps a probability still changes by "
                    f"{change:.1e} of itself; {_ADVICE}"
                )
            old, before = p.copy(), change
            sweeps.balance(p, _CHECK)
            taken += _CHECK
            change = _relative_change(old, p)
            # Each round leaves this part of the error, so what is left is a geometric series; the
            # first round has nothing to be compared with.
            rate = change / before if before < np.inf else 1.0
            done = change <= _ROUNDING or change * rate < self.tolerance * (1.0 - rate)
            if done and n > COARSEST:
                # Sets of states that hardly communicate are balanced each by itself, long before
                # all are: what moves between groups of states tells.
                after, _ = cycled(chain.rows, p)
                done = float(np.abs(after - p).sum()) < _SETTLED
                if not done:
                    p, change = after, np.inf
        solved = Iterated(chain, sweeps.poisson, sweeps.transposed, Budget(60, 3_000), _ADVICE)
        solved.adopt(p)
        residual = _relative_change(chain.exits * p, chain.exits * p + chain.balance(p))
        if not residual < _ACCEPTED:
            raise SolverError(
                f"Gauss-Seidel sweeps left a state unbalanced by {residual:.1e} of its flow; "
                f"{_ADVICE}"
            )
        return solved


def _relative_change(old: Array, new: Array) -> float:
    """Largest change of an entry over itself; what underflows has no digits to compare."""
    return float((np.abs(new - old) / np.maximum(new, _TINY / 1e-16)).max(initial=0.0))
