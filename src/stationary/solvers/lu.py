"""Batched LU: fast matrix algebra on any device, accurate only next to the likeliest states."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._base import TOLERANCE, Accuracy, Factor, Solver

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True)
class LU(Solver):
    """LU with partial pivoting of ``-Q``, the column of one state, the ground, replaced by ones.

    The ground is state 0, or where that is transient, the first state that is not: its balance
    equation gives way to ``sum(pi) = 1``.
    """

    def factor(self, generator: Generator) -> Factor:
        """Factor ``A = -Q`` with the ground's column set to one, so that ``pi A = e_ground``."""
        return _LUFactor(generator)


class _LUFactor(Factor):
    accuracy = Accuracy.NORMWISE
    by_chain = ("_lu", "_pivots", "_ground")

    def __init__(self, generator: Generator) -> None:
        Q = generator.dense().detach()
        recurrent = generator.recurrent()
        inside = torch.ones_like(Q[..., 0]) if recurrent is None else recurrent.int()
        place = inside.argmax(-1, keepdim=True)
        self._ground = torch.zeros_like(inside, dtype=torch.bool).scatter(-1, place, True)
        A = torch.where(self._ground[..., None, :], 1.0, -Q)
        self.edges = generator.edges
        # The unchecked form: a pivot that rounds to zero shows in the residual below.
        self._lu, self._pivots, _ = torch.linalg.lu_factor_ex(A)
        # Rounding can leave a rare state slightly negative: its probability is lost, not negative.
        self.pi = self._transposed(self._ground.to(Q)).clamp_min(0.0)
        if recurrent is not None:
            self.pi = self.pi.where(recurrent, 0.0)
        exits = generator.exit_rates().detach()
        largest = (self.pi * exits).amax(-1).clamp_min(torch.finfo(Q.dtype).tiny)
        residual = (self.pi[..., None, :] @ Q)[..., 0, :].abs().amax(-1) / largest
        # A residual is small wherever two sets of states hardly communicate, right or wrong. But
        # -Q without its ground has a nonnegative inverse: this is what rounding of Q can do to pi.
        error = self._transposed(self._off_ground(_EPS * exits)).abs().amax(-1)
        if not bool(((residual < TOLERANCE) & (error < TOLERANCE)).all()):
            raise SolverError(
                f"LU left a residual of {float(residual.max()):.1e} and an error of up to "
                f"{float(error.max()):.1e}: the chain is too ill-conditioned for it; use GTH()"
            )

    def _transposed(self, rhs: Tensor) -> Tensor:
        return torch.linalg.lu_solve(self._lu, self._pivots, rhs[..., None], adjoint=True)[..., 0]

    def _off_ground(self, vector: Tensor) -> Tensor:
        return vector.where(~self._ground, 0.0)

    def solve(self, h: Tensor) -> Tensor:
        # A's ground column is ones: that unknown absorbs pi . h, and v_ground is free, so zero.
        return self._off_ground(torch.linalg.lu_solve(self._lu, self._pivots, h[..., None])[..., 0])

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._transposed(self._off_ground(b))
