"""Stars: chains in which every state is joined to one state only, the hub, in O(n)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stationary.edges import StarEdges, centred
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._batches import in_range
from stationary.solvers._kernels import TINY


@dataclass(frozen=True)
class Star(Solver):
    """Products of two rates, for chains that return to one state between any two others."""

    def factor(self, generator: Generator) -> Factor:
        """Divide the rate to each state by the rate back from it."""
        star = generator.edges.star
        if star is None:
            raise InputError(
                "Star() needs exactly the edges between one state and each other; use GTH() or "
                "Auto()"
            )
        return _StarFactor(generator, star)


class _StarFactor(Factor):
    accuracy = Accuracy.ENTRYWISE
    by_chain = ("_out", "_back")

    def __init__(self, generator: Generator, star: StarEdges) -> None:
        self.edges, self._star = generator.edges, star
        rates = generator.rates.detach()
        self._out, self._back = rates[..., star.out], rates[..., star.back]
        weights = self._joined(torch.ones_like(self._out[..., :1]), self._out / self._back)
        if not bool((weights.sum(-1) < torch.inf).all()):
            if not bool((self._back > 0).all()):
                generator.recurrent()  # raises if there are several closed classes
                raise SolverError("Star() needs a rate back to the hub from every state; use GTH()")
            weights = self._far_weights()
        self.pi = weights / weights.sum(-1, keepdim=True)

    def _far_weights(self) -> Tensor:
        """Weights that do not fit into float64, with their mantissas and exponents apart."""
        (rate, up), (back, down) = torch.frexp(self._out), torch.frexp(self._back)
        exponents = (up - down).where(self._out > 0, -(2**20))
        exponents = self._joined(torch.zeros_like(exponents[..., :1]), exponents)
        mantissas = self._joined(torch.ones_like(rate[..., :1]), rate / back)
        below = exponents - exponents.amax(-1, keepdim=True)
        return torch.ldexp(mantissas, below.clamp_min(-1100))

    def _joined(self, hub: Tensor, leaves: Tensor) -> Tensor:
        """One vector over the states from the hub's entry and those of the others."""
        out = leaves.new_empty(*leaves.shape[:-1], self.edges.n)
        out[..., self._star.hub] = hub[..., 0]
        out[..., self._star.leaves] = leaves
        return out

    def solve(self, h: Tensor) -> Tensor:
        v = h[..., self._star.leaves] / self._back
        return self._joined(torch.zeros_like(v[..., :1]), v)

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self.solve(b)  # here, too, each state is coupled to the hub alone, which is zero

    def rate_gradient(self, g: Tensor) -> Tensor:
        star, pi = self._star, self.pi
        h = centred(g, pi)[..., star.leaves]
        along = pi[..., star.leaves] * h  # q dL/dq of the two edges of a leaf, but for the sign
        unused = pi[..., star.hub, None] * h / self._back
        out = g.new_empty(*g.shape[:-1], len(self.edges))
        out[..., star.out] = torch.where(pi[..., star.leaves] >= TINY, along / self._out, unused)
        out[..., star.back] = -along / self._back
        return in_range(out, g)
