"""Jacobians of a few parameters, for functions of steady states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.models.chunks import in_chunks


def value_and_jacobian(function: Callable[[Tensor], Tensor], z: Array) -> tuple[Array, Array]:
    """Value ``[...]`` and Jacobian ``[..., P]``, by rows or by columns, whichever are fewer.

    The vector-Jacobian product is linear in its vector, so its own derivative holds one column:
    P passes, whatever the number of outputs.
    """
    free = torch.tensor(z, requires_grad=True)
    out = function(free)
    value = out.detach().numpy()
    if out.numel() < len(z):
        rows = [torch.autograd.grad(o, free, retain_graph=True)[0] for o in out.flatten()]
        return value, torch.stack(rows).reshape(*out.shape, len(z)).numpy()
    dummy = torch.zeros_like(out, requires_grad=True)
    # Given slopes, `torch.autograd.grad` loads sympy to compare their shapes, which takes long.
    (product,) = torch.autograd.grad((out * dummy).sum(), free, create_graph=True)
    columns = [torch.autograd.grad(p, dummy, retain_graph=True)[0] for p in product]
    return value, torch.stack(columns, -1).numpy()


def by_input(
    function: Callable[[Tensor, Tensor], Tensor], z: Array, x: Tensor, edges: Edges
) -> tuple[Array, Array]:
    """Values ``[M, ...]`` and Jacobian ``[M, ..., P]`` in ``z`` of ``function(z, x [M, d])``.

    As many inputs at a time as chains on these edges are solved side by side.
    """

    def of_part(part: Tensor) -> tuple[Array, Array]:
        return value_and_jacobian(lambda z: function(z, part), z)

    values, slopes = zip(*in_chunks(of_part, edges, x), strict=True)
    return np.concatenate(values), np.concatenate(slopes)
