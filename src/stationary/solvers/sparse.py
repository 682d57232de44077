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

_TOLERANCE = 1e-8
_RARE_GROUND = 1e-3


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
        self._factor(Q, 0)
        likely = int(self.pi.argmax())
        if self.pi[0] < _RARE_GROUND * self.pi[likely]:
            self._factor(Q, likely)
        residual = np.abs(self.pi @ Q).max(initial=0.0)
        largest = (self.pi * -Q.diagonal()).max(initial=np.finfo(float).tiny)
        if not residual < _TOLERANCE * largest:
            raise SolverError(
                f"sparse LU left a residual of {residual / largest:.1e}: the chain is too "
                f"ill-conditioned for it; use GTH() if it is small enough"
            )

    def _factor(self, Q: Any, ground: int) -> None:
        n = Q.shape[0]
        self._others = np.delete(np.arange(n), ground)
        self._lu = splu(-Q[self._others][:, self._others].tocsc()) if n > 1 else None
        pi = self.solve(Q[[ground]].toarray()[0], "T")
        pi[ground] = 1.0
        # Rounding can leave a rare state slightly negative: its probability is lost, not negative.
        pi = np.maximum(pi, 0.0)
        self.pi = pi / pi.sum()

    def solve(self, rhs: Array, trans: str) -> Array:
        """``-Q v = rhs`` or its transpose, with the ground's entry zero."""
        out = np.zeros(len(rhs))
        if self._lu is not None:
            out[self._others] = self._lu.solve(rhs[self._others], trans=trans)
        return out
