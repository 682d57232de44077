"""Differentiable functions that torch cannot look into, as citizens of `torch.func`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import _set_fwd_grad_enabled, unpack_dual


def is_transforming() -> bool:
    """Whether a transform of `torch.func` is at work: then tensors may be wrappers of others."""
    return torch._C._are_functorch_transforms_active()


class ChainFunction(torch.autograd.Function):
    """A function of tensors ``[..., k]`` of one batch, the rates first, and of one other argument.

    The other argument, the last, holds the factored chains. A subclass defines ``forward``,
    ``setup_context``, ``backward``, and ``tangent(ctx, *tangents)`` for forward mode; mapping it is
    the same for all.
    """

    @classmethod
    def apply(cls, *args: Any) -> Tensor:
        """Call ``forward``, and remember what derivatives need."""
        if is_transforming():
            return super().apply(*args)
        # Binding the arguments to the signature, as torch does first, takes longer than a solve.
        return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]

    @staticmethod
    @abstractmethod
    def tangent(ctx: Any, *tangents: Any) -> Tensor:
        """How the value moves with the tensors."""

    @classmethod
    def jvp(cls, ctx: Any, *tangents: Any) -> Tensor:
        """Forward mode; its operations are themselves differentiated in forward mode."""
        # torch switches forward mode off in here: forward over forward would be silently wrong.
        with _set_fwd_grad_enabled(True):
            return cls.tangent(ctx, *tangents[:-1])

    @classmethod
    def vmap(cls, info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        """Map the function over an axis: a further one of the batch, where rates have it."""
        *tensors, chains = args
        placed = list(zip(tensors, dims, strict=False))
        if dims[0] is not None:
            moved = [in_front(tensor, dim, info.batch_size) for tensor, dim in placed]
            return cls.apply(*moved, chains), 0
        each = [
            cls.apply(*(t if dim is None else t.select(dim, k) for t, dim in placed), chains)
            for k in range(info.batch_size)
        ]
        return torch.stack(each), 0


def in_front(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """Return a tensor with a mapped axis as its first, repeated where it has none."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def primals(ctx: Any) -> list[Tensor]:
    """Saved tensors without the tangents of this forward mode, but with those of an outer one."""
    return [unpack_dual(tensor).primal for tensor in ctx.saved_tensors]
