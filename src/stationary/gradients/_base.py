"""What a gradient strategy is: it owns the forward value and the way back from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from stationary._support.arguments import Checked
from stationary.generator import Generator
from stationary.solvers import Factor, Solver


@dataclass(frozen=True)
class Gradient(Checked, ABC):
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

    exact_forward: ClassVar[bool] = True
    """Whether the forward value is the steady state itself."""

    @abstractmethod
    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """Differentiable ``pi [..., n]`` and the factorisation it came from."""

    # What a strategy with a memory overrides, so that fits can start it afresh and resume it.

    def fresh(self) -> Gradient:
        """Return a copy that remembers nothing."""
        return self

    def export(self) -> dict[str, Any]:
        """Return what it remembers, as nested dictionaries of tensors and plain values."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what `export` returned."""
        del state

    def terms_taken(self) -> float:
        """Mean number of terms of the last gradient, for a history; 0 if there are none."""
        return 0.0

    def has_heavy_tails(self, generator: Generator) -> bool:
        """Whether gradients have infinite variance on some of these chains."""
        del generator
        return False
