r"""Backpropagation through time: ``p0 P^t`` in place of ``pi``, and gradients through the powers.

The paper's baselines. The forward value is biased unless the chain has mixed by step t, and so is
the gradient. Lemma 1 gives the latter in closed form,

    d(P^t)/dq_ij = sum_{l=1}^t P^(t-l) (dP/dq_ij) P^(l-1),

which tends to the exact gradient (Proposition 1).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor

from stationary.errors import InputError
from stationary.generator import Generator
from stationary.gradients._base import Gradient
from stationary.gradients.exact import Exact
from stationary.solvers import Factor, Solver


@dataclass(frozen=True)
class _ThroughTime(Gradient):
    """Common part: the uniformized chain, and a uniform start.

    Parameters
    ----------
    steps : int
        Steps t of the uniformized chain.
    margin : float
        How far its event rate lies above the largest exit rate.
    """

    exact_forward = False

    steps: int
    margin: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise InputError(f"steps must be a whole number of at least 1; got {self.steps!r}")
        if not self.margin >= 0:
            raise InputError(f"margin must not be negative; got {self.margin!r}")

    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """``p0 P^t`` with autograd's gradient; the factor holds the true steady state."""
        gamma = generator.event_rate() + self.margin
        return self.propagate(generator, gamma), Exact().apply(generator, solver)[1]

    @abstractmethod
    def propagate(self, generator: Generator, gamma: Tensor) -> Tensor:
        """``p0 P^t [..., n]`` from the uniform distribution, differentiable in the rates."""


class BPTT(_ThroughTime):
    """Step by step, a vector-matrix product each; memory grows with the steps."""

    def propagate(self, generator: Generator, gamma: Tensor) -> Tensor:
        """Push a uniform distribution through ``steps`` steps."""
        p = generator.rates.new_full((*generator.batch_shape, generator.n), 1 / generator.n)
        for _ in range(self.steps):
            p = p + generator.balance(p) / gamma[..., None]
        return p


class DivideAndConquerBPTT(_ThroughTime):
    """Repeated squaring of dense ``P`` (Definition 2); ``steps`` is a power of two."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps & (self.steps - 1):
            raise InputError(f"steps must be a power of two; got {self.steps!r}")

    def propagate(self, generator: Generator, gamma: Tensor) -> Tensor:
        """Mean of the rows of ``P^steps``."""
        P, _ = generator.uniformize(gamma)
        for _ in range(self.steps.bit_length() - 1):
            P = P @ P
        return P.mean(-2)
