r"""Large sparse chains on a device: products with ``Q``, and relaxation as the solver.

Damped Jacobi: with ``d`` the exit rates and a damping ``w`` below one,

    pi <- (1 - w) pi + w (inflow of pi) / d,    v <- v + w (h + Q v) / d,

the same step for the steady state and for both adjoints. The first adds only what is positive, so
no state loses its digits to another. Undamped, a chain that alternates between two sets of states
would go round in circles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError, ReducibleError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import Accuracy, Factor, Solver
from stationary.solvers._cuda import Kernel, kernels

_BLOCK = 256
_MOST_CHAINS = 65_535  # of a grid's second dimension
_BETWEEN = 64
"""Steps between two looks at how far the iteration has come; a look waits for the device."""

_ROUNDING = 4 * torch.finfo(torch.float64).eps
"""Change of a step that is taken for rounding."""


@dataclass(frozen=True, eq=False)
class _Sorted:
    """Edges by one of their ends: ``start [n+1]``, the other end ``[E]``, and which edge each is.

    ``order`` is None where the edges are listed in this order.
    """

    start: Tensor
    other: Tensor
    order: Tensor | None

    def rates(self, rates: Tensor) -> Tensor:
        return rates.contiguous() if self.order is None else rates[..., self.order]


def _sorted(edges: Edges, by_source: bool) -> _Sorted:
    """Edges by source, as in `Edges.rows`, or by destination; sorted on the device."""
    by, other = (edges.src, edges.dst) if by_source else (edges.dst, edges.src)
    key = by * edges.n + other
    order = None if bool((key.diff() > 0).all()) else key.argsort()
    if order is not None:
        by, other = by[order], other[order]
    start = torch.searchsorted(by, torch.arange(edges.n + 1, device=by.device))
    return _Sorted(start.int(), other.int(), order)


@dataclass(frozen=True, eq=False)
class Products:
    """Products of vectors ``[..., n]`` with a generator, outside the graph.

    On a CUDA device one pass over the edges, a state's edges side by side, so that there are no
    atomic additions and a sum is the same every time. Elsewhere tensor operations.
    """

    generator: Generator

    def times(self, v: Tensor) -> Tensor:
        """``Q v``: ``sum_j q_ij (v_j - v_i)``."""
        if self._kernels is not None and v.shape[:-1] == self.generator.batch_shape:
            return self._launch(self._kernels[0], *self._by_source, v)
        return self.generator.edges.times(self._rates, v)

    def inflow(self, p: Tensor) -> Tensor:
        """``p`` times the rates: ``sum_i p_i q_ij``, what flows into each state."""
        if self._kernels is not None and p.shape[:-1] == self.generator.batch_shape:
            return self._launch(self._kernels[1], *self._by_target, p)
        flow = self._rates * p[..., self.generator.edges.src]
        return torch.zeros_like(p).index_add(-1, self.generator.edges.dst, flow)

    @cached_property
    def _rates(self) -> Tensor:
        return self.generator.rates.detach()

    @cached_property
    def _kernels(self) -> tuple[Kernel, ...] | None:
        edges, chains = self.generator.edges, self.generator.batch_shape.numel()
        few = len(edges) < torch.iinfo(torch.int32).max and 0 < chains <= _MOST_CHAINS
        if self._rates.device.type != "cuda" or torch.version.hip or not few:
            return None
        return kernels("edges.cu", ("times", "inflow"), self._rates.device)

    @cached_property
    def _by_source(self) -> tuple[_Sorted, Tensor]:
        by = self.generator.edges.remembered(_sorted, True)
        return by, by.rates(self._rates)

    @cached_property
    def _by_target(self) -> tuple[_Sorted, Tensor]:
        by = self.generator.edges.remembered(_sorted, False)
        return by, by.rates(self._rates)

    def _launch(self, kernel: Kernel, by: _Sorted, rates: Tensor, x: Tensor) -> Tensor:
        n, edges = self.generator.n, len(self.generator.edges)
        x = x.detach().contiguous()
        out = torch.empty_like(x)
        grid = (-(-n // _BLOCK), self.generator.batch_shape.numel())
        kernel(grid, _BLOCK, by.start, by.other, rates, x, out, n, edges)
        return out


@dataclass(frozen=True)
class Jacobi(Solver):
    """Damped Jacobi iteration, for chains too large to factor, on any device.

    Every step is a pass over the edges; how many it takes grows with the mixing time of the chain.

    Parameters
    ----------
    tolerance : float
        Error, estimated from the last steps, at which to stop: of every probability relative to
        itself, of the adjoint the sum over all ``q_ij dL/dq_ij`` relative to their sum.
    most : int
        Steps after which to give up.
    damping : float
        Share ``w`` of the new value in a step, between 0 and 1.
    """

    tolerance: float = 1e-10
    most: int = 200_000
    damping: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.damping < 1:
            raise InputError(f"damping lies between 0 and 1, both left out; got {self.damping!r}")
        if not self.tolerance > 0:
            raise InputError(f"tolerance must be positive; got {self.tolerance!r}")

    def factor(self, generator: Generator) -> Factor:
        """Iterate to the steady state; adjoint equations are iterated when they are asked."""
        return _JacobiFactor(generator, self)

    def settle(
        self, x: Tensor, step: Callable[[Tensor], Tensor], size: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Repeat ``step`` until the error, by the pace at which steps shrink, is small.

        ``size(change, x)`` measures a change, as a tensor of any shape, against ``x``.
        """
        before = 0.0
        for taken in range(0, self.most, _BETWEEN):
            for _ in range(_BETWEEN - 1):
                x = step(x)
            new = step(x)
            change = float(size(new - x, new).max()) if new.numel() else 0.0
            x = new
            if not math.isfinite(change):
                raise SolverError(f"relaxation overflowed after {taken + _BETWEEN} steps")
            # Steps shrink by a factor r: what is still to come is change (r + r^2 + ...).
            pace = min(change / before, 1.0) ** (1 / _BETWEEN) if taken else 1.0
            if change <= _ROUNDING or change * pace <= self.tolerance * (1 - pace):
                return x
            before = change
        raise SolverError(
            f"relaxation did not settle within {self.most:,} steps: the chain mixes too slowly for "
            f"it; raise most= or tolerance=, or move the rates to the CPU and factor"
        )


def _relative(change: Tensor, pi: Tensor) -> Tensor:
    """Size of a change over what changes; what underflows has no digits to compare."""
    return change.abs() / pi.clamp_min(torch.finfo(pi.dtype).tiny / 1e-16)


def _of_largest(change: Tensor, x: Tensor) -> Tensor:
    """Size of a change over the largest entry."""
    return change.abs().amax(-1) / x.abs().amax(-1).clamp_min(torch.finfo(x.dtype).tiny)


def _refuse_sets_apart(generator: Generator, exits: Tensor) -> None:
    """Raise where sets of states communicate so rarely that no step would show it.

    The iteration would settle within each set, at whatever share of probability it started with.
    """
    rates = generator.rates.detach()
    share = rates / exits[..., generator.edges.src].clamp_min(torch.finfo(rates.dtype).tiny)
    seen = Generator(generator.edges, rates.where(share > _ROUNDING, 0.0))
    try:
        seen.recurrent()
    except ReducibleError as error:
        generator.recurrent()  # names the classes if there really are several
        raise SolverError(
            f"Jacobi() cannot tell how probability is shared between sets of states that hardly "
            f"communicate ({error}): move the rates to the CPU and use GTH()"
        ) from None


class _JacobiFactor(Factor):
    accuracy = Accuracy.NORMWISE
    by_chain = ("_share", "_exits")

    def __init__(self, generator: Generator, solver: Jacobi) -> None:
        self.edges = generator.edges
        self._solver, self._products = solver, Products(generator)
        exits = generator.exit_rates().detach()  # a state that nothing leaves is the closed class
        self._share = solver.damping / exits.where(exits > 0, 1.0)
        self._exits = exits
        _refuse_sets_apart(generator, exits)
        recurrent = generator.recurrent()
        start = torch.ones_like(exits) if recurrent is None else recurrent.to(exits)
        start = start / start.sum(-1, keepdim=True)  # a transient state stays at zero
        self.pi = self._solver.settle(start, self._flowed, _relative)

    def _flowed(self, pi: Tensor) -> Tensor:
        stay = 1 - self._share * self._exits
        pi = (stay * pi).addcmul_(self._share, self._products.inflow(pi))
        return pi / pi.sum(-1, keepdim=True)

    def solve(self, h: Tensor) -> Tensor:
        def step(v: Tensor) -> Tensor:
            v = v + self._share * (h + self._products.times(v))
            return v - (self.pi * v).sum(-1, keepdim=True)  # a constant means nothing, but grows

        edges = self.edges
        flows = self.pi[..., edges.src] * self._products.generator.rates.detach()

        def across(v: Tensor) -> Tensor:  # what a gradient reads off v
            return (flows * (v[..., edges.dst] - v[..., edges.src]).abs()).sum(-1)

        def size(change: Tensor, v: Tensor) -> Tensor:
            tiny = torch.finfo(v.dtype).tiny
            read = across(change) / across(v).clamp_min(tiny)
            return torch.maximum(read, _of_largest(change, v))

        return self._solver.settle(torch.zeros_like(h), step, size)

    def precondition(self, r: Tensor) -> Tensor:
        """One step of the iteration for ``v``, from zero."""
        return self._share * (r - (self.pi * r).sum(-1, keepdim=True))

    def solve_transposed(self, b: Tensor) -> Tensor:
        def step(u: Tensor) -> Tensor:
            u = u + self._share * (b + self._products.inflow(u) - self._exits * u)
            return u - self.pi * u.sum(-1, keepdim=True)

        return self._solver.settle(torch.zeros_like(b), step, _of_largest)

    def select(self, chains: Tensor) -> Factor:
        chosen: Any = super().select(chains)
        rates = self._products.generator.rates.detach()[chains]
        chosen._products = Products(Generator(self.edges, rates))
        return cast(Factor, chosen)
