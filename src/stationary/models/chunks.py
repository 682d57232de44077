"""Evaluate a few inputs at a time, so that large chains fit in memory."""

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
"""Numbers that the chains of one chunk may take, with their factors: 160 MB."""

_SPARSE, _FEW_EDGES, _FILL = 2_000, 20, 500
"""A chain of more states, and at most so many edges per state, is factored sparsely, into so many
numbers per state, with what a second derivative takes."""


def is_large(edges: Edges) -> bool:
    """Whether factoring a chain costs far more than solving with the factor."""
    return edges.n > _SPARSE


def chunk_size(edges: Edges) -> int:
    """How many chains on these edges are solved at a time."""
    return max(1, int(_NUMBERS / _numbers(edges)))


def _numbers(edges: Edges) -> float:
    """About how many numbers one chain takes while it is factored and differentiated."""
    sparse = is_large(edges) and len(edges) <= _FEW_EDGES * edges.n
    return len(edges) + edges.n * (_FILL if sparse else float(edges.n))


def split(x: Tensor, edges: Edges) -> tuple[Tensor, ...]:
    """Cut rows, one for each chain, into chunks that are solved at a time."""
    return torch.split(x, chunk_size(edges))


def in_chunks(function: Callable[..., T], edges: Edges, *rows: Tensor) -> list[T]:
    """Return ``function(*chunk)`` for every chunk of some rows, one for each chain.

    Chunks of large chains run in threads, because a factorisation takes one core and releases the
    GIL. There are as many threads as torch uses and memory allows.
    """
    chunks = zip(*(split(part, edges) for part in rows), strict=True)
    threads = 1
    if is_large(edges):  # for a small chain, reading the free memory would cost more than solving
        threads = min(torch.get_num_threads(), int(half_the_memory() / (8 * _numbers(edges))))
    if threads < 2:
        return [function(*chunk) for chunk in chunks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda chunk: function(*chunk), chunks))


def steady_states(
    model: Model, x: Tensor, theta: Tensor | None = None, solver: Solver | None = None
) -> Tensor:
    """Return steady states ``[M, n]`` at inputs ``x [M, d]``, without derivatives."""
    theta = model.theta if theta is None else theta

    def solved(chunk: Tensor) -> Tensor:
        with torch.no_grad():  # which has to be set in each thread
            return steady_state(model.generator(chunk, theta), solver).pi

    return torch.cat(in_chunks(solved, model.edges, model.as_inputs(x)))
