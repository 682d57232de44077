"""GTH elimination: steady states with entrywise relative accuracy, in any order of the states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers import _kernels
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import in_threads, raise_failure, rows_of


@dataclass(frozen=True)
class GTH(Solver):
    """Grassmann-Taksar-Heyman elimination, which never subtracts.

    On the CPU a compiled kernel, blocked for larger chains; elsewhere batched tensor operations.
    """

    def factor(self, generator: Generator) -> Factor:
        """Eliminate the states of every chain, last to first."""
        on_cpu = generator.rates.device.type == "cpu"
        return _CompiledFactor(generator) if on_cpu else _TensorFactor(generator)


class _CompiledFactor(Factor):
    accuracy = Accuracy.ENTRYWISE

    def __init__(self, generator: Generator) -> None:
        n = generator.n
        rates = rows_of(generator.rates)
        batch = len(rates)
        self.edges = generator.edges
        self._A = np.empty((batch, n, n))
        self._pi = np.empty((batch, n))
        self._ground = np.empty(batch, dtype=np.int64)
        status = np.empty(batch, dtype=np.int64)
        in_threads(
            _kernels.gth_factor,
            self.edges.numpy,
            (rates, self._A, self._pi, self._ground, status),
            n**3 // 3,
        )
        if status.any():
            raise_failure(generator, status)
        self.pi = torch.from_numpy(self._pi).reshape(*generator.batch_shape, n)

    def solve(self, h: Tensor) -> Tensor:
        return self._substitute(_kernels.gth_solve, h)

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._substitute(_kernels.gth_solve_transposed, b)

    def _substitute(self, kernel: Callable[..., None], rhs: Tensor) -> Tensor:
        out = np.empty_like(self._pi)
        in_threads(kernel, (), (self._A, self._ground, rows_of(rhs), out), 2 * out.shape[1] ** 2)
        return torch.from_numpy(out).reshape(rhs.shape)

    def rate_gradient(self, g: Tensor) -> Tensor:
        out = np.empty((len(self._pi), len(self.edges)))
        in_threads(
            _kernels.gth_rate_gradient,
            self.edges.numpy,
            (self._A, self._ground, self._pi, rows_of(g), out),
            2 * self.edges.n**2,
        )
        return torch.from_numpy(out).reshape(*g.shape[:-1], len(self.edges))


class _TensorFactor(Factor):
    """The same elimination, one state at a time over the whole batch, on any device."""

    accuracy = Accuracy.ENTRYWISE

    def __init__(self, generator: Generator) -> None:
        n = generator.n
        self.edges = generator.edges
        A = generator.dense().detach()
        pivots = [A.new_ones(generator.batch_shape)]  # the ground's, which no equation uses
        for k in range(n - 1, 0, -1):
            pivot = A[..., k, :k].sum(-1)
            pivots.insert(1, pivot)
            A[..., :k, k] /= pivot[..., None]
            A[..., :k, :k] += A[..., :k, k, None] * A[..., k, None, :k]
        pi = torch.zeros_like(A[..., 0])
        pi[..., 0] = 1.0
        for i in range(n - 1):
            pi[..., i + 1 :] += pi[..., i, None] * A[..., i, i + 1 :]
            pi = pi / pi.amax(-1, keepdim=True)  # nothing overflows
        self.pi = pi / pi.sum(-1, keepdim=True)
        if not bool((self.pi > 0).all()):
            generator.check_irreducible()
        if not bool(self.pi.isfinite().all()):
            generator.check_irreducible()
            raise SolverError("elimination overflowed: the rates of a chain are too far apart")
        eye = torch.eye(n, dtype=A.dtype, device=A.device)
        self._upper = eye - A.triu(1)
        self._lower = torch.diag_embed(torch.stack(pivots, -1)) - A.tril(-1)
        self._not_ground = (torch.arange(n, device=A.device) > 0).to(A)

    def solve(self, h: Tensor) -> Tensor:
        w = torch.linalg.solve_triangular(self._upper, h[..., None], upper=True, unitriangular=True)
        w = w * self._not_ground[:, None]
        return torch.linalg.solve_triangular(self._lower, w, upper=False)[..., 0]

    def solve_transposed(self, b: Tensor) -> Tensor:
        z = torch.linalg.solve_triangular(self._lower.mT, b[..., None], upper=True)
        z = z * self._not_ground[:, None]
        upper = self._upper.mT
        return torch.linalg.solve_triangular(upper, z, upper=False, unitriangular=True)[..., 0]
