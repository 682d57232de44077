"""Large chains are solved a few inputs at a time, so that memory holds one factor and not fifty."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models import Model
from stationary.solvers import Solver
from stationary.steady import steady_state

_NUMBERS = 20_000_000
"""Numbers that chains solved side by side may take, the factor included: 160 MB."""

_SPARSE = 2_000
"""States from which a chain is factored sparsely ..."""

_FILL = 200
"""... into so many numbers a state, as for a lattice of a million states in two dimensions."""


def is_large(edges: Edges) -> bool:
    """Whether a chain's factor costs far more than the solves with it."""
    return edges.n > _SPARSE


def together(edges: Edges) -> int:
    """How many chains on these edges are solved side by side."""
    each = len(edges) + edges.n * (_FILL if is_large(edges) else min(edges.n, _FILL))
    return max(1, _NUMBERS // each)


def split(x: Tensor, edges: Edges) -> tuple[Tensor, ...]:
    """Cut rows, one a chain, into those that are solved side by side."""
    return torch.split(x, together(edges))


@torch.no_grad()
def probabilities(
    model: Model, x: Tensor, theta: Tensor | None = None, solver: Solver | None = None
) -> Tensor:
    """Steady states ``[M, n]`` at inputs ``x [M, d]``, without derivatives.

    Parameters
    ----------
    model : Model
        The chain.
    x : Tensor
        Inputs.
    theta : Tensor, optional
        Its parameters; the model's own by default.
    solver : Solver, optional
        As for `steady_state`.
    """
    theta = model.theta if theta is None else theta
    parts = split(model.as_inputs(x), model.edges)
    return torch.cat([steady_state(model.generator(part, theta), solver).pi for part in parts])
