"""What every solver is: one factorisation that serves the steady state and its adjoint.

Following lineax, a solver turns a generator into a `Factor`, and the factor answers both
``-Q v = h`` (the Poisson equation behind first derivatives) and ``-Q^T u = b`` (second ones).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from torch import Tensor

from stationary._support.arguments import Checked
from stationary.edges import Edges, centred
from stationary.generator import Generator

TOLERANCE = 1e-8
"""Largest error of a probability that is accepted, as far as it can be told."""


class Accuracy(StrEnum):
    """Which probabilities a solver gets right to many digits."""

    ENTRYWISE = "entrywise"
    """Every one, however small."""
    NORMWISE = "normwise"
    """Those not much smaller than the largest; rare states may have no correct digit."""


class Factor(ABC):
    """A factorised batch of generators.

    Attributes
    ----------
    edges : Edges
        Edges of the generator.
    pi : Tensor [..., n]
        Steady states, outside the autograd graph.
    accuracy : Accuracy
        What ``pi`` can be trusted for.
    solver : Solver or None
        What made it, where that is not the solver that was asked.
    """

    edges: Edges
    pi: Tensor
    accuracy: Accuracy
    solver: Solver | None = None
    by_chain: ClassVar[tuple[str, ...]] = ()
    """Attributes beside ``pi`` whose first dimension is the flattened batch."""

    @abstractmethod
    def solve(self, h: Tensor) -> Tensor:
        """One solution ``v [..., n]`` of ``-Q v = h``, for ``h`` with ``pi . h = 0``."""

    @abstractmethod
    def solve_transposed(self, b: Tensor) -> Tensor:
        """One solution ``u [..., n]`` of ``-Q^T u = b``, for ``b`` with ``sum(b) = 0``."""

    def precondition(self, r: Tensor) -> Tensor:
        """A cheap approximation to a solution of ``-Q v = r``; by default a solution.

        It is of ``r`` less its mean. A factor that iterates overrides it with one step: one cycle,
        or one solve with the factor of a nearby chain.
        """
        return self.solve(r - (self.pi * r).sum(-1, keepdim=True))

    def select(self, chains: Tensor) -> Factor:
        """Return the factor of some of the chains of a batch of one dimension."""
        chosen = copy.copy(self)
        for name in ("pi", *self.by_chain):
            value = getattr(self, name)
            setattr(chosen, name, value[chains if isinstance(value, Tensor) else chains.numpy()])
        return chosen

    def rate_gradient(self, g: Tensor) -> Tensor:
        """``dL/dq_ij = pi_i (v_j - v_i)`` ``[..., E]`` from ``g = dL/dpi``; kernels may fuse it."""
        return self.edges.rate_gradient(self.pi, self.solve(centred(g, self.pi)))


@dataclass(frozen=True)
class Solver(Checked, ABC):
    """A method for steady states.

    A new solver overrides `factor`. As `LU`, it asks `Generator.recurrent` for the states that are
    not transient, which refuses several closed classes; it does not depend on the unit of time;
    and it raises `SolverError` where a residual is large. The shortest, by the pseudo-inverse:

    >>> import torch
    >>> from stationary import Generator, steady_state
    >>> class PinvFactor(Factor):
    ...     accuracy = Accuracy.NORMWISE
    ...     def __init__(self, generator):
    ...         Q = generator.dense().detach()
    ...         self.edges = generator.edges
    ...         self.pinv = torch.linalg.pinv(-Q)
    ...         eye = torch.eye(generator.n, dtype=Q.dtype)
    ...         null = (eye + Q @ self.pinv)[..., 0, :]  # projects onto the left null space
    ...         self.pi = null / null.sum(-1, keepdim=True)
    ...     def solve(self, h):
    ...         return (self.pinv @ h[..., None])[..., 0]
    ...     def solve_transposed(self, b):
    ...         return (self.pinv.mT @ b[..., None])[..., 0]
    >>> class Pinv(Solver):
    ...     def factor(self, generator):
    ...         return PinvFactor(generator)
    >>> Q = torch.tensor([[0.0, 1.0], [3.0, 0.0]], dtype=torch.float64)
    >>> steady_state(Generator.from_dense(Q), solver=Pinv()).pi
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """

    @abstractmethod
    def factor(self, generator: Generator) -> Factor:
        """Factor every chain of the batch, or raise `ReducibleError` or `SolverError`."""
