"""Derivatives of functions that torch cannot look into, by imaginary steps.

A tiny step ``i h`` from z moves an analytic function by ``i h f'(z)``. Nothing is subtracted, so
the slope has all its digits. Second derivatives are differences of such slopes, of fourth order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor

_TINY = 1e-25
_STEP = 1e-4
"""Relative step of the differences: what they lose in digits and by their order is below 1e-10."""


def by_complex_steps(of: Callable[..., Tensor], *numbers: Tensor) -> Tensor:
    """Return ``of(*numbers)``, ``[R, k]``, differentiable twice in numbers ``[R, 1]`` off zero.

    Each row depends on its own numbers alone, which may be complex.
    """
    return _Function.apply(of, *numbers)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of: Callable[..., Tensor], *numbers: Tensor) -> Tensor:
        ctx.of = of
        ctx.save_for_backward(*numbers)
        return of(*numbers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[1:]) if needed]
        slopes = _Slopes.apply(ctx.of, wanted, *ctx.saved_tensors)
        found = dict(zip(wanted, (grad * slopes).sum(-1, keepdim=True), strict=True))
        return None, *(found.get(k) for k in range(len(ctx.saved_tensors)))


class _Slopes(torch.autograd.Function):
    """Slopes ``[W, R, k]`` in those of the numbers that are wanted."""

    @staticmethod
    def forward(ctx: Any, of: Callable[..., Tensor], wanted: list[int], *numbers: Tensor) -> Tensor:
        ctx.of, ctx.wanted, ctx.second = of, wanted, None
        ctx.save_for_backward(*numbers)
        return torch.stack([_slope(of, numbers, k) for k in wanted])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        numbers = ctx.saved_tensors
        if ctx.second is None:  # asked for once for each parameter
            pairs = combinations_with_replacement(ctx.wanted, 2)
            ctx.second = {pair: _second(ctx.of, numbers, *pair) for pair in pairs}
        found: list[Tensor | None] = [None] * len(numbers)
        for j in ctx.wanted:
            second = torch.stack([ctx.second[min(j, k), max(j, k)] for k in ctx.wanted])
            found[j] = (grad * second).sum((0, -1))[:, None]
        return None, None, *found


def _slope(of: Callable[..., Tensor], numbers: tuple[Tensor, ...], k: int) -> Tensor:
    moved = [number.to(torch.complex128) for number in numbers]
    moved[k] = torch.complex(numbers[k], _TINY * numbers[k])
    return of(*moved).imag / moved[k].imag


def _second(of: Callable[..., Tensor], numbers: tuple[Tensor, ...], j: int, k: int) -> Tensor:
    step = _STEP * numbers[j]

    def at(steps: int) -> Tensor:
        moved = (*numbers[:j], numbers[j] + steps * step, *numbers[j + 1 :])
        return _slope(of, moved, k)

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
