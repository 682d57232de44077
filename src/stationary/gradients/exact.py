r"""The exact gradient of a steady state, by one adjoint solve (Proposition 1, summed).

Let ``g = dL/dpi``. Since ``pi Q = 0`` and ``pi 1 = 1``, a change ``dQ`` moves ``pi`` by ``dpi``
with ``dpi Q = -pi dQ`` and ``dpi 1 = 0``. Take any solution ``v`` of the Poisson equation

    -Q v = g - (pi . g) 1.

Then ``dL = dpi . g = dpi (-Q) v = pi dQ v``, and because the rows of ``dQ`` sum to zero

    dL/dq_ij = pi_i (v_j - v_i).

The paper reaches the same number as an infinite series,
``v = (1/gamma) sum_l P^l (g - (pi . g) 1)``; ``gamma`` drops out. The printed
Theorem 1 carries a factor ``pi_n`` too many and starts from ``p0`` where ``pi`` belongs; this is
the corrected contraction. One factorisation serves ``pi`` and ``v``, in ``O(n^2)`` memory for a
dense chain, where the Jacobians of the printed form take ``O(n^4)``.

For second derivatives the Poisson equation is itself differentiated: with ``-Q^T u = dL/dv``,

    dL/dh = u,    dL/dq_ij = u_i (v_j - v_i),

and the transposed equation has the same form with ``u`` and ``v`` in each other's place. The two
call each other, so every order of derivative exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from stationary.generator import Generator
from stationary.gradients._base import Gradient
from stationary.solvers import Factor, Solver


@dataclass(frozen=True)
class Exact(Gradient):
    """Exact first, second and higher derivatives from one factorisation."""

    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """Steady state with its adjoint attached."""
        factor = solver.factor(generator)
        return _SteadyState.apply(generator.rates, factor), factor


class _SteadyState(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rates: Tensor, factor: Factor) -> Tensor:
        ctx.factor = factor
        pi = factor.pi.clone()
        ctx.save_for_backward(rates, pi)
        return pi

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        rates, pi = ctx.saved_tensors  # raises if the rates were changed in place since
        if not torch.is_grad_enabled():
            return ctx.factor.rate_gradient(g), None
        v = _Poisson.apply(rates, g - (pi * g).sum(-1, keepdim=True), ctx.factor)
        return ctx.factor.edges.rate_gradient(pi, v), None


class _Poisson(torch.autograd.Function):
    """``v`` of ``-Q v = h``, as a function of the rates and of ``h``."""

    @staticmethod
    def forward(ctx: Any, rates: Tensor, h: Tensor, factor: Factor) -> Tensor:
        v = factor.solve(h)
        ctx.factor = factor
        ctx.save_for_backward(rates, v)
        return v

    @staticmethod
    def backward(ctx: Any, v_bar: Tensor) -> tuple[Tensor, Tensor, None]:
        rates, v = ctx.saved_tensors
        u = _TransposedPoisson.apply(rates, v_bar, ctx.factor)
        return ctx.factor.edges.rate_gradient(u, v), u, None


class _TransposedPoisson(torch.autograd.Function):
    """``u`` of ``-Q^T u = b``, as a function of the rates and of ``b``."""

    @staticmethod
    def forward(ctx: Any, rates: Tensor, b: Tensor, factor: Factor) -> Tensor:
        u = factor.solve_transposed(b)
        ctx.factor = factor
        ctx.save_for_backward(rates, u)
        return u

    @staticmethod
    def backward(ctx: Any, u_bar: Tensor) -> tuple[Tensor, Tensor, None]:
        rates, u = ctx.saved_tensors
        v = _Poisson.apply(rates, u_bar, ctx.factor)
        return ctx.factor.edges.rate_gradient(u, v), v, None
