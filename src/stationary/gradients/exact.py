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
call each other, so every order of derivative exists. Forward mode takes one transposed solve:
``-Q^T dpi = pi dQ``, with ``dpi 1 = 0``.

Under `torch.func` the tensors of Python are wrappers without memory; only a function's ``forward``
sees plain ones. So the chains are factored there, and every transform adds its own axis in front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from stationary._support.functions import ChainFunction, is_transforming, primals
from stationary.edges import centred
from stationary.generator import Generator
from stationary.gradients._base import Gradient
from stationary.solvers import Accuracy, Factor, Solver


@dataclass(frozen=True)
class Exact(Gradient):
    """Exact first, second and higher derivatives from one factorisation."""

    def apply(self, generator: Generator, solver: Solver) -> tuple[Tensor, Factor]:
        """Steady state with its adjoint attached."""
        task = _Task(generator, solver)
        return _SteadyState.apply(generator.rates, task), task.factor


class _Task:
    """Chains to factor and, once that is done, their factor."""

    factor: Factor

    def __init__(self, generator: Generator, solver: Solver) -> None:
        self._generator, self._solver = generator, solver

    def solve(self, rates: Tensor) -> Tensor:
        """Steady states at the rates, which are plain memory here."""
        chains = self._generator
        if rates is not chains.rates:
            chains = Generator(chains.edges, rates)
        self.factor = self._solver.factor(chains)
        return self.factor.pi.clone()


class _SteadyState(ChainFunction):
    @staticmethod
    def forward(rates: Tensor, task: _Task) -> Tensor:
        return task.solve(rates)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Task], output: Tensor) -> None:
        rates, task = inputs
        ctx.factor = task.factor
        ctx.save_for_backward(rates, output)
        ctx.save_for_forward(rates, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        rates, pi = ctx.saved_tensors  # raises if the rates were changed in place since
        if not torch.is_grad_enabled() and not is_transforming():
            return ctx.factor.rate_gradient(g), None
        v = _Poisson.apply(rates, centred(g, pi), ctx.factor)
        slope = ctx.factor.edges.rate_gradient(pi, v)
        if ctx.factor.accuracy is Accuracy.ENTRYWISE and not is_transforming():
            # Differences of v may cancel; an elimination knows the same numbers without any.
            slope = slope + (ctx.factor.rate_gradient(g.detach()) - slope.detach())
        return slope, None

    @staticmethod
    def tangent(ctx: Any, moved: Tensor) -> Tensor:
        rates, pi = primals(ctx)
        u = _TransposedPoisson.apply(rates, ctx.factor.edges.balance(moved, pi), ctx.factor)
        return u - u.sum(-1, keepdim=True) * pi


class _Adjoint(ChainFunction):
    """What the two adjoint equations share: they keep their rates and their solution."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Factor], output: Tensor) -> None:
        rates, _, ctx.factor = inputs
        ctx.save_for_backward(rates, output)
        ctx.save_for_forward(rates, output)


class _Poisson(_Adjoint):
    """``v`` of ``-Q v = h``, as a function of the rates and of ``h``."""

    @staticmethod
    def forward(rates: Tensor, h: Tensor, factor: Factor) -> Tensor:
        del rates
        return factor.solve(h)

    @staticmethod
    def backward(ctx: Any, v_bar: Tensor) -> tuple[Tensor, Tensor, None]:
        rates, v = ctx.saved_tensors
        u = _TransposedPoisson.apply(rates, v_bar, ctx.factor)
        return ctx.factor.edges.rate_gradient(u, v), u, None

    @staticmethod
    def tangent(ctx: Any, moved: Tensor | None, h: Tensor | None) -> Tensor:
        rates, v = primals(ctx)
        along = 0.0 if moved is None else ctx.factor.edges.times(moved, v)
        return _Poisson.apply(rates, along if h is None else h + along, ctx.factor)


class _TransposedPoisson(_Adjoint):
    """``u`` of ``-Q^T u = b``, as a function of the rates and of ``b``."""

    @staticmethod
    def forward(rates: Tensor, b: Tensor, factor: Factor) -> Tensor:
        del rates
        return factor.solve_transposed(b)

    @staticmethod
    def backward(ctx: Any, u_bar: Tensor) -> tuple[Tensor, Tensor, None]:
        rates, u = ctx.saved_tensors
        v = _Poisson.apply(rates, u_bar, ctx.factor)
        return ctx.factor.edges.rate_gradient(u, v), v, None

    @staticmethod
    def tangent(ctx: Any, moved: Tensor | None, b: Tensor | None) -> Tensor:
        rates, u = primals(ctx)
        along = 0.0 if moved is None else ctx.factor.edges.balance(moved, u)
        return _TransposedPoisson.apply(rates, along if b is None else b + along, ctx.factor)
