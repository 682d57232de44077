"""Sparse LU: large chains with few edges, one factorisation each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from scipy.sparse.linalg import splu

from stationary._support.memory import half_the_memory
from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._base import TOLERANCE, Factor, Solver
from stationary.solvers._chain import (
    ChainsFactor,
    Solved,
    SparseChain,
    chains_of,
    distribution,
)
from stationary.solvers._dissection import Dissection
from stationary.solvers._kernels import RARE_GROUND

_TRIES = 4
_STEPS = 1_000_000
_SEED = 0


@dataclass(frozen=True)
class SparseLU(Solver):
    """SuperLU of ``-Q`` without a likely state, the ground, in nested-dissection order; CPU only.

    ``-Q`` without a ground is an M-matrix, which needs no pivoting: the order alone decides how
    large the factors grow. METIS finds one for any edges, once.
    """

    def factor(self, generator: Generator) -> Factor:
        """Factor every chain of the batch, one after the other."""
        chains = chains_of(generator, "SparseLU()")
        dissection = generator.edges.remembered(Dissection)
        needed = dissection.memory * len(chains)
        most = half_the_memory()
        if needed > most:
            raise SolverError(
                f"the factors of {len(chains)} chain(s) of {generator.n:,} states would take "
                f"{needed / 2**30:.3g} GiB, more than the {most / 2**30:.3g} GiB that they may; "
                f"use Multigrid() or Auto()"
            )
        return ChainsFactor(generator, [_Factored(chain, dissection) for chain in chains])


class _Factored(Solved):
    """One chain: the factor of ``-Q`` with the ground's row and column cut off."""

    def __init__(self, chain: SparseChain, dissection: Dissection) -> None:
        self._chain, self._dissection = chain, dissection
        ground = likely_state(chain)
        for _ in range(_TRIES):
            factored = self._factor(ground)
            ground, before = int(self.pi.argmax()), ground
            if factored and self.pi[before] >= RARE_GROUND * self.pi[ground]:
                break
        residual = chain.residual(self.pi)
        error = np.abs(self.solve_transposed(chain.uncertain(self.pi))).max(initial=0.0)
        if not (factored and residual < TOLERANCE and error < TOLERANCE):
            raise SolverError(
                f"sparse LU left a residual of {residual:.1e} and an error of up to {error:.1e}: "
                f"the chain is too ill-conditioned for it; use GTH() if it is small enough"
            )

    def _factor(self, ground: int) -> bool:
        chain, n = self._chain, self._chain.n
        self._ground = ground
        self._lu: Any = None  # frees a factor with another ground before there are two
        try:
            self._lu = splu(
                self._dissection.grounded(chain.rates, chain.exits, ground),
                permc_spec="NATURAL",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # a pivot that rounds to zero
            self.pi = np.eye(1, n, (ground + n // 2) % n)[0]
            return False
        unit = np.zeros(n)
        unit[ground] = 1.0
        pi = self.solve_transposed(chain.balance(unit))
        pi[ground] = 1.0
        self.pi = distribution(np.where(chain.recurrent, pi, 0.0))
        return True

    def solve(self, h: Array) -> Array:
        return self._substitute(h, "N")

    def solve_transposed(self, b: Array) -> Array:
        return self._substitute(b, "T")

    def _substitute(self, rhs: Array, trans: str) -> Array:
        """``-Q v = rhs`` or its transpose, with the ground's entry zero."""
        out = np.zeros(len(rhs))
        if self._lu is not None:
            out[self._dissection.order] = self._lu.solve(rhs[self._dissection.order], trans=trans)
        out[self._ground] = 0.0
        return out


def likely_state(chain: SparseChain) -> int:
    """State in which a walk along the chain spends most of its second million of jumps.

    A chain with drift soon reaches its likely states, however many states there are; without drift,
    all states are nearly as likely.
    """
    if chain.n == 1:
        return 0
    draws = np.random.default_rng(_SEED).random(2 * _STEPS)
    spent = np.zeros(chain.n)
    _walk(int(chain.recurrent.argmax()), *chain.rows, chain.exits, draws, spent)
    return int(spent.argmax())


@numba.njit(cache=True, nogil=True)
def _walk(
    state: int,
    start: Array,
    target: Array,
    rates: Array,
    exits: Array,
    draws: Array,
    spent: Array,
) -> None:
    if exits[state] == 0.0:  # the closed class is this state alone
        spent[state] = 1.0
        return
    for k in range(len(draws)):
        if 2 * k >= len(draws):
            spent[state] += 1.0 / exits[state]
        mark = draws[k] * exits[state]
        last = state
        for e in range(start[state], start[state + 1]):
            if rates[e] > 0.0:
                last = target[e]  # should rounding leave the mark beyond the last rate
                mark -= rates[e]
                if mark < 0.0:
                    break
        state = last
