"""GTH elimination: steady states with entrywise relative accuracy, in any order of the states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers import _kernels
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import (
    batch_of,
    in_range,
    in_threads,
    raise_failure,
    raise_lost_gradient,
    rows_of,
)
from stationary.solvers.fused import FusedFactor, pair_for


@dataclass(frozen=True)
class GTH(Solver):
    """Grassmann-Taksar-Heyman elimination, which never subtracts.

    On the CPU a compiled kernel, blocked for larger chains; on a CUDA device a kernel that keeps a
    chain of up to 64 states on the chip; elsewhere batched tensor operations.
    """

    def factor(self, generator: Generator) -> Factor:
        """Eliminate the states of every chain, last to first."""
        if generator.rates.device.type == "cpu":
            return _CompiledFactor(generator)
        pair = pair_for(generator.edges)
        if pair is not None:
            factor = FusedFactor(generator, pair, keep=_TensorFactor)
            if not factor.failed:
                return factor
        return _TensorFactor(generator)  # which raises, or takes logarithms, where a kernel failed


class _CompiledFactor(Factor):
    accuracy = Accuracy.ENTRYWISE
    by_chain = ("_rates", "_A", "_pi", "_place", "_status")

    def __init__(self, generator: Generator) -> None:
        n = generator.n
        rates = rows_of(generator.rates)
        batch = len(rates)
        self.edges = generator.edges
        self._rates = rates
        self._A = np.empty((batch, n, n))
        self._pi = np.empty((batch, n))
        self._place = np.empty((batch, n), dtype=np.int64)
        self._status = np.empty(batch, dtype=np.int64)
        in_threads(
            _kernels.gth_factor,
            self.edges.numpy,
            (rates, self._A, self._pi, self._place, self._status),
            n**3 // 3,
        )
        failed = self._status == _kernels.FAILED
        if failed.any():
            raise_failure(generator, failed)
        self.pi = batch_of(self._pi, generator.batch_shape)

    def solve(self, h: Tensor) -> Tensor:
        return self._substitute(_kernels.gth_solve, h)

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._substitute(_kernels.gth_solve_transposed, b)

    def _run(self, kernel: Callable[..., None], shared: tuple[Array, ...], *rows: Array) -> None:
        """Run a kernel on the factors, unless they are out of range."""
        lost = self._status == _kernels.NO_ADJOINT
        if lost.any():
            raise_lost_gradient(lost)
        in_threads(kernel, shared, rows, 2 * self.edges.n**2)

    def _substitute(self, kernel: Callable[..., None], rhs: Tensor) -> Tensor:
        out = np.empty_like(self._pi)
        self._run(kernel, (), self._A, self._place, rows_of(rhs), out)
        return batch_of(out, rhs.shape[:-1])

    def rate_gradient(self, g: Tensor) -> Tensor:
        out, lost = np.empty_like(self._rates), np.empty(len(self._rates), dtype=bool)
        factors = (self._rates, self._A, self._place, self._pi)
        self._run(_kernels.gth_rate_gradient, self.edges.numpy, *factors, rows_of(g), out, lost)
        if lost.any():
            raise_lost_gradient(lost)
        return batch_of(out, g.shape[:-1])


class _TensorFactor(Factor):
    """The same elimination, one state at a time over the whole batch, on any device."""

    accuracy = Accuracy.ENTRYWISE
    by_chain = ("_order", "_upper", "_lower")

    def __init__(self, generator: Generator) -> None:
        n = generator.n
        self.edges = generator.edges
        Q = generator.dense().detach()
        self._order = torch.arange(n, device=Q.device).expand(Q.shape[:-1])
        A, pi = _eliminate(Q.clone())
        if not bool((pi > 0).all()):  # nor where it is not a number
            recurrent = generator.recurrent()
            if recurrent is not None:
                A, pi = self._around(recurrent.int().argmax(-1, keepdim=True), Q)
        if bool((pi[..., 0] < _kernels.RARE_GROUND * pi.amax(-1)).any()):
            A, pi = self._around(self._swapped(pi).argmax(-1, keepdim=True), Q)
        self.pi = self._swapped(pi)
        if not bool(pi.isfinite().all()):
            raise SolverError(
                "the rates of a chain are too far apart for float64 on this device: elimination "
                "under- or overflowed; move them to the CPU, where GTH() keeps exponents apart"
            )
        eye = torch.eye(n, dtype=A.dtype, device=A.device)
        self._upper = eye - A.triu(1)
        self._lower = 2 * torch.diag_embed(A.diagonal(dim1=-2, dim2=-1)) - A.tril()
        self._not_ground = (torch.arange(n, device=A.device) > 0).to(A)

    def _around(self, ground: Tensor, Q: Tensor) -> tuple[Tensor, Tensor]:
        """Eliminate with these states ``[..., 1]`` in front; a swap is its own inverse."""
        order = torch.arange(Q.shape[-1], device=Q.device).expand(Q.shape[:-1])
        self._order = order.scatter(-1, ground, 0)
        self._order[..., :1] = ground
        Q = Q.gather(-2, self._order[..., None].expand_as(Q))
        return _eliminate(Q.gather(-1, self._order[..., None, :].expand_as(Q)))

    def _swapped(self, vector: Tensor) -> Tensor:
        return vector.gather(-1, self._order)

    def _upper_solve(self, h: Tensor) -> Tensor:
        w = torch.linalg.solve_triangular(
            self._upper, self._swapped(h)[..., None], upper=True, unitriangular=True
        )
        return w * self._not_ground[:, None]

    def solve(self, h: Tensor) -> Tensor:
        w = self._upper_solve(h)
        return self._swapped(torch.linalg.solve_triangular(self._lower, w, upper=False)[..., 0])

    def solve_transposed(self, b: Tensor) -> Tensor:
        b = self._swapped(b)[..., None]
        z = torch.linalg.solve_triangular(self._lower.mT, b, upper=True)
        z = z * self._not_ground[:, None]
        upper = self._upper.mT
        u = torch.linalg.solve_triangular(upper, z, upper=False, unitriangular=True)
        return self._swapped(u[..., 0])

    def rate_gradient(self, g: Tensor) -> Tensor:
        # Differences of v built up from smaller ones, for every chain: see `_kernels`.
        h = ((g[..., :, None] - g[..., None, :]) * self.pi[..., None, :]).sum(-1)
        w = self._upper_solve(h)[..., 0]
        D = torch.zeros_like(self._lower)
        for k in range(1, self.edges.n):
            pivot = self._lower[..., k, k, None]
            row = (-self._lower[..., k, None, :k] @ D[..., :k, :k])[..., 0, :]
            D[..., k, :k] = (row + w[..., k, None]) / pivot
            D[..., :k, k] = -D[..., k, :k]
        places = self._order[..., self.edges.src] * self.edges.n + self._order[..., self.edges.dst]
        return in_range(self.pi[..., self.edges.src] * -D.flatten(-2).gather(-1, places), g)


def _eliminate(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eliminate in place; return ``U``, pivots and ``-L`` in one matrix, and ``pi``.

    Not a number where a product under- or overflowed, or a pivot is zero.
    """
    n = A.shape[-1]
    least = torch.ones_like(A[..., 0, 0])
    for k in range(n - 1, 0, -1):
        pivot = A[..., k, :k].sum(-1)
        A[..., k, k] = pivot
        enters = A[..., :k, k] > 0
        A[..., :k, k] /= pivot[..., None]
        A[..., :k, :k] += A[..., :k, k, None] * A[..., k, None, :k]
        share = A[..., :k, k].where(enters, torch.inf).amin(-1)
        rate = A[..., k, :k].where(A[..., k, :k] > 0, torch.inf).amin(-1)
        least = torch.minimum(least, share * rate)
    A[..., 0, 0] = 1.0  # the ground's pivot, which no equation uses
    pi = torch.zeros_like(A[..., 0])
    pi[..., 0] = 1.0
    for i in range(n - 1):
        pi[..., i + 1 :] += pi[..., i, None] * A[..., i, i + 1 :]
        pi = pi / pi.amax(-1, keepdim=True)  # nothing overflows
    if bool((pi < torch.finfo(pi.dtype).tiny).any()):  # what lies behind may be lost: take logs
        logs = torch.zeros_like(pi[..., :1])
        for k in range(1, n):
            last = torch.logsumexp(logs + A[..., :k, k].log(), -1, keepdim=True)
            logs = torch.cat([logs, last], -1)
        pi = torch.softmax(logs, -1)
    pi = pi / pi.sum(-1, keepdim=True)
    return A, pi.where(least[..., None] >= _kernels.TINY, torch.nan)
