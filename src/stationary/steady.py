"""The one entry point for the mathematics: `steady_state`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary.errors import InputError
from stationary.generator import Generator, as_generator
from stationary.gradients import Exact, Gradient
from stationary.solvers import Accuracy, Auto, Factor, Solver


@dataclass(frozen=True, eq=False)
class SteadyState:
    """Steady states of a batch of chains, and how they were found.

    Attributes
    ----------
    pi : Tensor [..., n]
        Probabilities, differentiable with respect to the rates.
    generator : Generator
        The chains.
    factor : Factor
        The factorisation, for further solves with the same chains.
    solver : Solver
        The solver that was asked for, or the one that solved it for `Auto`.
    gradient : Gradient
        The way back, which may change the forward value too.
    """

    pi: Tensor
    generator: Generator
    factor: Factor
    solver: Solver
    gradient: Gradient

    @property
    def accuracy(self) -> Accuracy:
        """Whether rare states are right too (entrywise) or only likely ones (normwise)."""
        return self.factor.accuracy if self.gradient.exact_forward else Accuracy.NORMWISE

    @property
    def residual(self) -> Tensor:
        """Largest imbalance of flow in and out of a state, over its own flow, ``[...]``.

        Recomputed from ``pi`` and the rates, never taken from a solver's own account. Entrywise: a
        residual at rounding level says that every state is balanced, the rarest too.
        """
        pi, rates = self.pi.detach(), self.generator.rates.detach()
        src, dst = self.generator.edges.src, self.generator.edges.dst
        flow = pi[..., src] * rates
        out = torch.zeros_like(pi).index_add(-1, src, flow)
        into = torch.zeros_like(pi).index_add(-1, dst, flow)
        # Flows of states whose probability underflows carry no digits to compare.
        scale = torch.maximum(out, into).clamp_min(torch.finfo(pi.dtype).tiny / 1e-16)
        return ((out - into).abs() / scale).amax(-1)

    @property
    def status(self) -> str:
        """One line: the solver, its kind of accuracy and the largest residual of the batch."""
        worst = float(self.residual.max()) if self.pi.numel() else 0.0
        if not self.gradient.exact_forward:
            return f"approximated by {self.gradient}, residual {worst:.1e}"
        return f"solved by {self.solver}, {self.accuracy} accurate, residual {worst:.1e}"

    def __repr__(self) -> str:
        return f"SteadyState({self.generator!r}: {self.status})"


@explained
def steady_state(
    generator: Generator | Tensor, solver: Solver | None = None, gradient: Gradient | None = None
) -> SteadyState:
    """Steady state ``pi`` of every chain: ``pi Q = 0``, ``sum(pi) = 1``.

    Parameters
    ----------
    generator : Generator or Tensor [..., n, n]
        A batch of chains, each with one closed class; transient states have probability zero. A
        chain with several raises `ReducibleError`. Of matrices, the diagonal is ignored.
    solver : Solver, optional
        How to solve; `Auto()` by default.
    gradient : Gradient, optional
        How derivatives reach the rates; `Exact()` by default.

    Examples
    --------
    >>> import torch
    >>> Q = torch.tensor([[0.0, 1.0], [3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    >>> state = steady_state(Q)
    >>> state.pi
    tensor([0.7500, 0.2500], dtype=torch.float64, grad_fn=<_SteadyStateBackward>)
    >>> state.pi[1].backward()
    >>> Q.grad
    tensor([[ 0.0000,  0.1875],
            [-0.0625,  0.0000]], dtype=torch.float64)
    """
    if torch.compiler.is_exporting():
        raise InputError(
            "torch.export cannot hold steady_state, whose kernels run outside of torch's graphs: "
            "export the part of the network that computes the rates, and call steady_state on them"
        )
    if torch.compiler.is_dynamo_compiling():
        # The kernels are compiled already: one graph ends before them, another begins after.
        return torch.compiler.disable(_steady_state)(generator, solver, gradient)
    return _steady_state(generator, solver, gradient)


def _steady_state(
    generator: Generator | Tensor, solver: Solver | None, gradient: Gradient | None
) -> SteadyState:
    solver = Auto() if solver is None else solver
    if not isinstance(solver, Solver):
        raise InputError(f"solver must be one such as GTH() or SparseLU(); got {solver!r}")
    gradient = Exact() if gradient is None else gradient
    if not isinstance(gradient, Gradient):
        raise InputError(
            f"gradient must be one such as Exact() or Infinity(p=0.1); got {gradient!r}"
        )
    generator = as_generator(generator)
    pi, factor = gradient.apply(generator, solver)
    return SteadyState(pi, generator, factor, factor.solver or solver, gradient)
