"""Nested dissection: an order of the states in which sparse factors stay small.

Found once for a set of edges, whatever the rates: see `Edges.remembered`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numba
import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order

from stationary._support.types import Array
from stationary.edges import Edges

_BYTES = 16.0
"""An entry of a factor in SuperLU: a float64, its share of the indices, and room to grow."""


class Dissection:
    """An order of the states, where each has its ``place``, and where rates belong in a matrix."""

    def __init__(self, edges: Edges) -> None:
        n = edges.n
        self._graph = graph = neighbours(edges)
        self.order = _nested_dissection(graph)
        self.place = np.empty(n, dtype=np.int64)
        self.place[self.order] = np.arange(n)
        src, dst = edges.numpy
        # The place of each value: first the edges in their order, then the states' diagonal.
        which = np.arange(len(edges) + n)
        row = np.concatenate([self.place[src], self.place])
        column = np.concatenate([self.place[dst], self.place])
        layout = scipy.sparse.csr_array((which, (row, column)), shape=(n, n)).tocsc()
        self._start, self._index, self._which = layout.indptr, layout.indices, layout.data

    def grounded(self, rates: Array, exits: Array, ground: int) -> Any:
        """``-Q`` in this order as a CSC matrix, the ground's equation and unknown cut off.

        The ground's row and column keep their places but only a diagonal, so that one pattern
        serves every ground.
        """
        data = np.concatenate([-rates, exits])[self._which]
        at = int(self.place[ground])
        data[self._start[at] : self._start[at + 1]] = 0.0
        data[self._index == at] = 0.0
        data[self._which == len(rates) + ground] = exits[ground] or 1.0
        return scipy.sparse.csc_array((data, self._index, self._start), shape=(len(exits),) * 2)

    @cached_property
    def memory(self) -> float:
        """Bytes that a factorisation in this order takes, by counting its entries."""
        lower = _count(self._graph.indptr, self._graph.indices, self.order, self.place)
        return 2 * _BYTES * lower


def neighbours(edges: Edges) -> Any:
    """Which states are joined by an edge either way, as a symmetric CSR pattern."""
    start, dst, _ = edges.rows
    one_way = scipy.sparse.csr_array(
        (np.ones(len(edges), dtype=np.int8), dst, start), shape=(edges.n, edges.n)
    )
    return (one_way + one_way.T).tocsr()


def separator(edges: Edges) -> int:
    """Guess, in two passes over the edges, how many states cut the graph into halves.

    Every set of states at one distance from a far state cuts the graph; the widest one is about
    ``n^(1/2)`` on a plane lattice and ``n^(2/3)`` on a solid one.
    """
    graph = neighbours(edges)
    _, far = _widest_level(graph, 0)
    return _widest_level(graph, far)[0]


def _widest_level(graph: Any, first: int) -> tuple[int, int]:
    """Size of the largest set of states at one distance from ``first``, and the last state met."""
    order, before = breadth_first_order(graph, first)
    place = np.zeros(graph.shape[0], dtype=np.int64)
    place[order] = np.arange(len(order))
    parents, ends = place[before[order[1:]]], [0, 1]
    while ends[-1] < len(order):  # parents stand in the order of their children
        ends.append(1 + int(np.searchsorted(parents, ends[-1])))
    return int(np.diff(ends).max()), int(order[-1])


def _nested_dissection(graph: Any) -> Array:
    if graph.nnz == 0:
        return np.arange(graph.shape[0])
    import pymetis

    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
    order, _ = pymetis.nested_dissection(adjacency)
    return np.array(order)


@numba.njit(cache=True, nogil=True)
def _count(start: Array, index: Array, order: Array, place: Array) -> float:
    """Entries of the lower factor.

    Row k of the factor holds what the elimination tree joins to k from below: each path is
    followed until one that was followed before for the same row.
    """
    n = len(order)
    parent = np.full(n, -1, dtype=np.int64)
    ancestor = np.full(n, -1, dtype=np.int64)
    for k in range(n):
        for e in range(start[order[k]], start[order[k] + 1]):
            node = place[index[e]]
            while node != -1 and node < k:
                above = ancestor[node]
                ancestor[node] = k
                if above == -1:
                    parent[node] = k
                node = above
    entries = float(n)
    mark = np.full(n, -1, dtype=np.int64)
    for k in range(n):
        mark[k] = k
        for e in range(start[order[k]], start[order[k] + 1]):
            node = place[index[e]]
            while node < k and mark[node] != k:
                entries += 1.0
                mark[node] = k
                node = parent[node]
    return entries
