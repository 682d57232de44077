"""What a gradient strategy is: it owns the forward value and the way back from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from stationary.generator import Generator
from stationary.solvers import Factor, Solver


@dataclass(frozen=True)
class Gradient(ABC):
    """A strategy that turns ``dL/dpi`` into ``dL/drates``.

    It owns the forward value too, since backpropagation through time changes it. A new strategy
    overrides `apply`. A complete one, which differentiates through a dense solve:

    >>> import torch
    >>> from stationary import Generator, steady_state
    >>> class Autograd(Gradient):
    ...     def apply(self, generator, solver):
    ...         A = generator.dense().clone()
    ...         A[..., :, 0] = 1.0
    ...         first = torch.eye(generator.n, dtype=A.dtype)[0]
    ...         pi = torch.linalg.solve(A.mT, first.expand(A.shape[:-1]))
    ...         return pi, solver.factor(generator)
    >>> Q = torch.tensor([[0.0, 1.0], [3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    >>> steady_state(Generator.from_dense(Q), gradient=Autograd()).pi[1].backward()
    >>> Q.grad
    tensor([[ 0.0000,  0.1875],
            [-0.0625,  0.0000]], dtype=torch.float64)
    """

    @abstractmethod
    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """Differentiable ``pi [..., n]`` and the factorisation it came from."""
