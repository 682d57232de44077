"""Sparse LU: large chains with few edges, one factorisation each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import splu
from torch import Tensor

from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import Array, batch_of, rows_of
from stationary.solvers._kernels import RARE_GROUND
from stationary.solvers.lu import TOLERANCE

_TRIES = 4
_STEPS = 200


@dataclass(frozen=True)
class SparseLU(Solver):
    """SuperLU of ``-Q`` without a likely state, the ground, for every chain; CPU only."""

    def factor(self, generator: Generator) -> Factor:
        """Factor every chain of the batch, one after the other."""
        if generator.rates.device.type != "cpu":
            raise InputError("SparseLU() runs on the CPU; move the rates there, or use LU()")
        generator.check_irreducible()
        return _SparseFactor(generator)


class _SparseFactor(Factor):
    accuracy = Accuracy.NORMWISE
    by_chain = ("_chains",)

    def __init__(self, generator: Generator) -> None:
        self.edges = generator.edges
        count = len(rows_of(generator.rates))
        chains = [_Chain(generator.sparse(generator.unravel(k))) for k in range(count)]
        self._chains = np.empty(count, dtype=object)
        self._chains[:] = chains
        pi = np.array([chain.pi for chain in chains]).reshape(count, generator.n)
        self.pi = batch_of(pi, generator.batch_shape)

    def solve(self, h: Tensor) -> Tensor:
        return self._each(h, lambda chain, row: chain.solve(row, "N"))

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._each(b, lambda chain, row: chain.solve(row, "T"))

    def _each(self, rhs: Tensor, solve: Callable[[_Chain, Array], Array]) -> Tensor:
        rows = [solve(chain, row) for chain, row in zip(self._chains, rows_of(rhs), strict=True)]
        return batch_of(np.array(rows).reshape(len(rows), rhs.shape[-1]), rhs.shape[:-1])


class _Chain:
    """One chain: the factor of ``-Q`` with the ground's row and column left out."""

    def __init__(self, Q: Any) -> None:
        exits = -Q.diagonal()
        ground = _likely(Q, exits)
        for _ in range(_TRIES):
            factored = self._factor(Q, ground)
            ground, before = int(self.pi.argmax()), ground
            if factored and self.pi[before] >= RARE_GROUND * self.pi[ground]:
                break
        largest = (self.pi * exits).max(initial=np.finfo(float).tiny)
        residual = np.abs(self.pi @ Q).max(initial=0.0) / largest
        # As for dense LU: what rounding of Q can do to pi, which a residual does not show.
        error = np.abs(self.solve(np.finfo(float).eps * exits, "T")).max(initial=0.0)
        if not (factored and residual < TOLERANCE and error < TOLERANCE):
            raise SolverError(
                f"sparse LU left a residual of {residual:.1e} and an error of up to {error:.1e}: "
                f"the chain is too ill-conditioned for it; use GTH() if it is small enough"
            )

    def _factor(self, Q: Any, ground: int) -> bool:
        n = Q.shape[0]
        self._others = np.delete(np.arange(n), ground)
        try:
            self._lu = splu(-Q[self._others][:, self._others].tocsc()) if n > 1 else None
        except RuntimeError:  # a pivot that rounds to zero
            self._lu, self.pi = None, np.eye(1, n, (ground + n // 2) % n)[0]
            return False
        pi = self.solve(Q[[ground]].toarray()[0], "T")
        pi[ground] = 1.0
        # Rounding can leave a rare state slightly negative: its probability is lost, not negative.
        pi = np.maximum(pi, 0.0)
        self.pi = pi / pi.sum()
        return True

    def solve(self, rhs: Array, trans: str) -> Array:
        """``-Q v = rhs`` or its transpose, with the ground's entry zero."""
        out = np.zeros(len(rhs))
        if self._lu is not None:
            out[self._others] = self._lu.solve(rhs[self._others], trans=trans)
        return out


def _likely(Q: Any, exits: Array) -> int:
    """State that some steps of the uniformized chain from a uniform start make the likeliest."""
    pi = np.full(len(exits), 1 / len(exits))
    step = Q.T / (exits.max(initial=0.0) or 1.0)
    for _ in range(_STEPS):
        pi = pi + step @ pi
    return int(pi.argmax())
