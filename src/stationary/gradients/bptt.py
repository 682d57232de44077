r"""Backpropagation through time: ``p0 P^t`` in place of ``pi``, and gradients through the powers.

The paper's baselines. The forward value is biased unless the chain has mixed by step t, and so is
the gradient. Lemma 1 gives the latter in closed form,

    d(P^t)/dq_ij = sum_{l=1}^t P^(t-l) (dP/dq_ij) P^(l-1),

which tends to the exact gradient (Proposition 1); `finite_gradient` is that sum contracted with
``p0`` and ``g``, an oracle that shares no code with autograd.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.generator import Generator
from stationary.gradients._base import Gradient
from stationary.gradients.exact import rate_gradient
from stationary.gradients.series import generator_times
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

    steps: int
    margin: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or self.steps != int(self.steps) or self.steps < 1:
            raise InputError(f"steps must be a whole number of at least 1; got {self.steps!r}")
        if not self.margin >= 0:
            raise InputError(f"margin must not be negative; got {self.margin!r}")

    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """``p0 P^t`` with autograd's gradient; the factor holds the true steady state."""
        gamma = generator.event_rate() + self.margin
        return self.propagate(generator, gamma), solver.factor(generator)

    @abstractmethod
    def propagate(self, generator: Generator, gamma: Tensor) -> Tensor:
        """``p0 P^t [..., n]`` from the uniform distribution, differentiable in the rates."""


class BPTT(_ThroughTime):
    """Step by step, a vector-matrix product each; memory grows with the steps."""

    def propagate(self, generator: Generator, gamma: Tensor) -> Tensor:
        """Push a uniform distribution through ``steps`` steps."""
        src, dst = generator.edges.src, generator.edges.dst
        share = generator.rates / gamma[..., None]
        p = generator.rates.new_full((*generator.batch_shape, generator.n), 1 / generator.n)
        for _ in range(self.steps):
            flow = p[..., src] * share
            p = p.index_add(-1, dst, flow).index_add(-1, src, -flow)
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


def finite_gradient(generator: Generator, steps: int, p0: Tensor, g: Tensor) -> Tensor:
    """Gradient of ``p0 P^t g`` with respect to every rate ``[..., E]``, by Lemma 1.

    The event rate ``gamma`` is held fixed, as in the lemma; with many steps it drops out.
    """
    gamma = generator.event_rate().detach()[..., None]
    forwards = [p0]
    Q = generator.dense().detach()
    for _ in range(steps - 1):
        last = forwards[-1]
        forwards.append(last + (last[..., None, :] @ Q)[..., 0, :] / gamma)
    total = torch.zeros_like(generator.rates)
    backward = g
    for forward in reversed(forwards):
        total = total + rate_gradient(generator.edges, forward, backward) / gamma
        backward = backward + generator_times(generator, backward) / gamma
    return total
