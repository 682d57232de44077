"""Stars: chains in which every state is joined to one state only, the hub, in O(n)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stationary.edges import StarEdges
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import Accuracy, Factor, Solver


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
    by_chain = ("_back",)

    def __init__(self, generator: Generator, star: StarEdges) -> None:
        self.edges, self._star = generator.edges, star
        rates = generator.rates.detach()
        self._back = rates[..., star.back]
        ratio = rates[..., star.out] / self._back
        if not bool((ratio < torch.inf).all()):
            generator.recurrent()  # raises if there are several closed classes
            raise SolverError(
                "Star() needs a rate back to the hub from every state, and rates not too far "
                "apart; use GTH()"
            )
        self.pi = self._joined(torch.ones_like(ratio[..., :1]), ratio)
        self.pi = self.pi / self.pi.sum(-1, keepdim=True)

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
        star = self._star
        v = (g[..., star.leaves] - (self.pi * g).sum(-1, keepdim=True)) / self._back
        out = g.new_empty(*g.shape[:-1], len(self.edges))
        out[..., star.out] = self.pi[..., star.hub, None] * v
        out[..., star.back] = -self.pi[..., star.leaves] * v
        return out
