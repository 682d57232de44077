"""Krylov: GMRES with an incomplete factor, for chains whose factors do not fit in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import spilu

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._aggregation import COARSEST, cycled
from stationary.solvers._base import TOLERANCE, Factor, Solver
from stationary.solvers._chain import ChainsFactor, Solved, SparseChain, chains_of
from stationary.solvers._dissection import neighbours
from stationary.solvers._iterated import Budget, Iterated
from stationary.solvers._sweeps import rough
from stationary.solvers._walk import likely_state

_BLOCKS = 256
_ADVICE = (
    "use SparseLU(memory=...) if there is memory for it, or Krylov() with more fill or a smaller "
    "drop"
)


@dataclass(frozen=True)
class Krylov(Solver):
    """GMRES around an incomplete LU factor of ``-Q`` without a likely state; CPU only.

    What is dropped from a row is added to its diagonal (modified ILU), so that the incomplete
    factor is right for slow modes too; without that it fails near saturation. Rare states are
    accurate normwise only.

    Parameters
    ----------
    fill : float
        How many times as many entries as ``Q`` the incomplete factor may have.
    drop : float
        Entries smaller than this part of their column are dropped.
    restart : int
        Iterations before the residual is recomputed; one vector of memory each.
    most : int
        Iterations before a solve is given up.
    """

    fill: float = 20.0
    drop: float = 1e-3
    restart: int = 40
    most: int = 400

    def factor(self, generator: Generator) -> Factor:
        """Factor every chain incompletely and solve it, one after the other."""
        chains = chains_of(generator, "Krylov()")
        graph = neighbours(generator.edges)
        order = reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.int64)
        return ChainsFactor(generator, [self._solved(chain, order) for chain in chains])

    def _solved(self, chain: SparseChain, order: Array) -> Solved:
        n = chain.n
        block = np.empty(n, dtype=np.int64)
        block[order] = np.arange(n) * min(n, _BLOCKS) // n
        start = rough(chain, block)
        ground = likely_state(chain)
        kept = order[order != ground]
        try:
            ilu = spilu(
                _matrix(chain)[kept][:, kept].tocsc(),
                drop_tol=self.drop,
                fill_factor=self.fill,
                permc_spec="NATURAL",
                diag_pivot_thresh=0.0,
                options={"ILU_MILU": "SMILU_2"},
            )
        except (RuntimeError, ValueError):
            if n > 1:
                raise SolverError(
                    f"the incomplete factor of a chain of {n:,} states broke down; {_ADVICE}"
                ) from None

        def substitute(rhs: Array, trans: str) -> Array:
            out = np.zeros(n)
            if n > 1:
                out[kept] = ilu.solve(rhs[kept], trans=trans)
            return out

        solved = Iterated(
            chain,
            lambda h: substitute(h, "N"),
            lambda b: substitute(b, "T"),
            Budget(self.restart, self.most),
            _ADVICE,
        )
        solved.find(start)
        if n > COARSEST:
            # An incomplete factor may not see at all that sets of states hardly communicate.
            after, _ = cycled(chain.rows, solved.pi)
            moved = float(np.abs(after - solved.pi).sum())
            if not moved < TOLERANCE:
                raise SolverError(
                    f"groups of states still exchange {moved:.1e} of all probability; {_ADVICE}"
                )
        return solved


def _matrix(chain: SparseChain) -> scipy.sparse.csr_array:
    """``-Q``."""
    start, dst, rates = chain.rows
    moves = scipy.sparse.csr_array((rates, dst, start), shape=(chain.n, chain.n))
    return (scipy.sparse.diags_array(chain.exits) - moves).tocsr()
