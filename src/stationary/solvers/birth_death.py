"""Birth-death chains in O(n): the product recursion, and its adjoint from both ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.generator import Generator
from stationary.solvers import _kernels
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import Array, in_threads, raise_failure, rows_of


@dataclass(frozen=True)
class BirthDeath(Solver):
    """Recursion along states ``0..n-1`` that are joined only to their neighbours; CPU only."""

    def factor(self, generator: Generator) -> Factor:
        """Run the recursion for every chain."""
        if generator.edges.birth_death is None:
            raise InputError(
                "BirthDeath() needs exactly the edges k -> k+1 and k+1 -> k; use GTH() or Auto()"
            )
        if generator.rates.device.type != "cpu":
            raise InputError("BirthDeath() runs on the CPU; use GTH() or Auto() on this device")
        return _BirthDeathFactor(generator)


class _BirthDeathFactor(Factor):
    accuracy = Accuracy.ENTRYWISE

    def __init__(self, generator: Generator) -> None:
        assert generator.edges.birth_death is not None  # noqa: S101 - for the type checker
        self.edges = generator.edges
        self._paths = tuple(index.numpy() for index in generator.edges.birth_death)
        self._rates = rows_of(generator.rates)
        self._pi = np.empty((len(self._rates), generator.n))
        status = np.empty(len(self._rates), dtype=np.int64)
        self._run(_kernels.bd_distribution, self._pi, status)
        if status.any():
            raise_failure(generator, status)
        self.pi = torch.from_numpy(self._pi).reshape(*generator.batch_shape, generator.n)

    def _run(self, kernel: Callable[..., None], *rows: Array) -> None:
        in_threads(kernel, self._paths, (self._rates, *rows), 4 * self.edges.n)

    def solve(self, h: Tensor) -> Tensor:
        v = np.empty_like(self._pi)
        self._run(_kernels.bd_solve, self._pi, rows_of(h), v)
        return torch.from_numpy(v).reshape(h.shape)

    def solve_transposed(self, b: Tensor) -> Tensor:
        u = np.empty_like(self._pi)
        self._run(_kernels.bd_solve_transposed, self._pi, rows_of(b), u)
        return torch.from_numpy(u).reshape(b.shape)

    def rate_gradient(self, g: Tensor) -> Tensor:
        out = np.empty_like(self._rates)
        self._run(_kernels.bd_rate_gradient, self._pi, rows_of(g), out)
        return torch.from_numpy(out).reshape(*g.shape[:-1], len(self.edges))
