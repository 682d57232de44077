"""Birth-death chains in O(n): the product recursion, and its adjoint from both ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.solvers import _kernels
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import (
    batch_of,
    in_threads,
    raise_failure,
    raise_lost_gradient,
    rows_of,
)


@dataclass(frozen=True)
class BirthDeath(Solver):
    """Recursion along states ``0..n-1`` that are joined only to their neighbours; CPU only."""

    def factor(self, generator: Generator) -> Factor:
        """Run the recursion for every chain."""
        paths = generator.edges.birth_death
        if paths is None:
            raise InputError(
                "BirthDeath() needs exactly the edges k -> k+1 and k+1 -> k; use GTH() or Auto()"
            )
        if generator.rates.device.type != "cpu":
            raise InputError("BirthDeath() runs on the CPU; use GTH() or Auto() on this device")
        return _BirthDeathFactor(generator, paths)


class _BirthDeathFactor(Factor):
    accuracy = Accuracy.ENTRYWISE
    by_chain = ("_rates", "_pi")

    def __init__(self, generator: Generator, paths: tuple[Array, Array]) -> None:
        self.edges = generator.edges
        self._paths = paths
        self._rates = rows_of(generator.rates)
        self._pi = np.empty((len(self._rates), generator.n))
        status = np.empty(len(self._rates), dtype=np.int64)
        self._run(_kernels.bd_distribution, self._pi, status)
        if np.count_nonzero(status):
            raise_failure(generator, status)
        self.pi = batch_of(self._pi, generator.batch_shape)

    def _run(
        self, kernel: Callable[..., None], *rows: Array, shared: tuple[Array, ...] = ()
    ) -> None:
        in_threads(kernel, (*self._paths, *shared), (self._rates, *rows), 4 * self.edges.n)

    def solve(self, h: Tensor) -> Tensor:
        v = np.empty_like(self._pi)
        self._run(_kernels.bd_solve, self._pi, rows_of(h), v)
        return batch_of(v, h.shape[:-1])

    def solve_transposed(self, b: Tensor) -> Tensor:
        u = np.empty_like(self._pi)
        self._run(_kernels.bd_solve_transposed, self._pi, rows_of(b), u)
        return batch_of(u, b.shape[:-1])

    def rate_gradient(self, g: Tensor) -> Tensor:
        out, lost = np.empty_like(self._rates), np.empty(len(self._rates), dtype=bool)
        src = self.edges.numpy[:1]
        self._run(_kernels.bd_rate_gradient, self._pi, rows_of(g), out, lost, shared=src)
        if lost.any():
            raise_lost_gradient(lost)
        return batch_of(out, g.shape[:-1])
