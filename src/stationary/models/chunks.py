"""Large chains are solved a few inputs at a time, so that memory holds one factor and not fifty."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

from stationary._support.memory import half_the_memory
from stationary.edges import Edges
from stationary.models import Model
from stationary.solvers import Solver
from stationary.steady import steady_state

T = TypeVar("T")

_NUMBERS = 20_000_000
"""Numbers that chains solved side by side may take, the factor included: 160 MB."""

_SPARSE = 2_000
"""States above which a chain of few edges is factored sparsely ..."""

_FEW_EDGES = 20
"""... few a state ..."""

_FILL = 500
"""... into so many numbers a state, with what a second derivative takes: a plane lattice of a
million states has 200 in its factors."""


def is_large(edges: Edges) -> bool:
    """Whether a chain's factor costs far more than the solves with it."""
    return edges.n > _SPARSE


def together(edges: Edges) -> int:
    """How many chains on these edges are solved side by side."""
    return max(1, int(_NUMBERS / _numbers(edges)))


def _numbers(edges: Edges) -> float:
    """Numbers that one chain takes while it is factored and differentiated, about."""
    sparse = is_large(edges) and len(edges) <= _FEW_EDGES * edges.n
    return len(edges) + edges.n * (_FILL if sparse else float(edges.n))


def in_parts(function: Callable[..., T], edges: Edges, *rows: Tensor) -> list[T]:
    """Return a function of every part of some rows, one a chain; see `split`.

    Parts of large chains run in threads: a factorisation takes one core and releases the GIL. There
    are as many as torch uses and memory has room for.
    """
    parts = zip(*(split(part, edges) for part in rows), strict=True)
    threads = 1
    if is_large(edges):  # reading the free memory costs more than a small chain
        threads = min(torch.get_num_threads(), int(half_the_memory() / (8 * _numbers(edges))))
    if threads < 2:
        return [function(*part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda part: function(*part), parts))


def split(x: Tensor, edges: Edges) -> tuple[Tensor, ...]:
    """Cut rows, one a chain, into those that are solved side by side."""
    return torch.split(x, together(edges))


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

    def solved(part: Tensor) -> Tensor:
        with torch.no_grad():  # which does not reach into threads
            return steady_state(model.generator(part, theta), solver).pi

    return torch.cat(in_parts(solved, model.edges, model.as_inputs(x)))
