"""Gauss-Seidel sweeps, compiled: they add and divide positive numbers and never subtract."""

from __future__ import annotations

import numba
import numpy as np
import torch

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.generator import Generator
from stationary.solvers._chain import SparseChain
from stationary.solvers.gth import GTH

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
_FEW = 8


class Sweeps:
    """Sweeps over the states of one chain, last to first and back.

    Either way alone may go in circles for ever: on a ring the one, on a tandem of queues the other.
    """

    def __init__(self, chain: SparseChain) -> None:
        start, source, order = chain.edges.columns
        self._into = (start, source, chain.rates[order])
        self._out_of = chain.rows
        self._exits = chain.exits

    def balance(self, p: Array, sweeps: int = 1) -> None:
        """Make every state's flow in equal its flow out, state by state, in place; normalise."""
        zero = np.zeros(len(p))
        for _ in range(sweeps if len(p) > 1 else 0):
            _sweep(*self._into, self._exits, zero, p)
            p /= p.sum()

    def poisson(self, h: Array) -> Array:
        """An approximate solution of ``-Q v = h`` by a few sweeps."""
        return self._from_zero(self._out_of, h)

    def transposed(self, b: Array) -> Array:
        """An approximate solution of ``-Q^T u = b`` by a few sweeps."""
        return self._from_zero(self._into, b)

    def _from_zero(self, entries: tuple[Array, Array, Array], rhs: Array) -> Array:
        x = np.zeros(len(rhs))
        for _ in range(_FEW if len(rhs) > 1 else 0):
            _sweep(*entries, self._exits, rhs, x)
        return x


def rough(chain: SparseChain, block: Array, rounds: int = 4) -> Array:
    """A rough steady state, by iterated aggregation (Koury, McAllister and Stewart).

    Sweeps alone carry probability a few states far; the chain from block to block, with the states
    of a block as likely as they were last, says how much of it belongs where.

    Parameters
    ----------
    chain : SparseChain
        The chain.
    block : Array [n]
        Number of each state's block, from 0; some hundred blocks of states near to one another.
    rounds : int
        Coarse solves, each followed by sweeps.
    """
    count = int(block.max()) + 1
    src, dst = chain.edges.numpy
    pair = block[src].astype(np.int64) * count + block[dst]
    sweeps = Sweeps(chain)
    p = np.full(chain.n, 1 / chain.n)
    for _ in range(rounds if count < chain.n else 1):  # blocks of one state leave nothing to mend
        p = np.maximum(p, np.finfo(float).tiny)  # a block whose states underflowed has a share too
        size = np.bincount(block, weights=p, minlength=count)
        flow = np.bincount(pair, weights=p[src] * chain.rates, minlength=count * count)
        coarse = torch.from_numpy(flow.reshape(count, count) / size[:, None])
        try:
            weight = GTH().factor(Generator.from_dense(coarse)).pi.numpy()
        except SolverError:  # blocks too far apart for float64: what there is must do
            return p
        p = p * (weight / size)[block]
        sweeps.balance(p, 2)
    return p


@_jit
def _sweep(start: Array, index: Array, entry: Array, diagonal: Array, rhs: Array, x: Array) -> None:
    n = len(x)
    for k in range(2 * n):
        i = n - 1 - k if k < n else k - n
        total = rhs[i]
        for e in range(start[i], start[i + 1]):
            total += entry[e] * x[index[e]]
        x[i] = total / diagonal[i]
