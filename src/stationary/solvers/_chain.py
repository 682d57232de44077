"""One large chain: products with its generator, residuals, and a batch of such chains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse
from torch import Tensor

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.solvers._base import Accuracy, Factor
from stationary.solvers._batches import batch_of, rows_of

_EPS = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)
_NOISE = 16 * float(np.finfo(float).eps)


class SparseChain:
    """One chain, ready for products with ``Q`` in time proportional to its edges.

    Attributes
    ----------
    exits : Array [n]
        Total rate out of each state.
    rows : tuple of Array
        Rates by source, in compressed rows: where each starts, destinations, rates.
    recurrent : Array [n]
        Which states are in its closed class.
    """

    def __init__(self, edges: Edges, rates: Array, recurrent: Array | None = None) -> None:
        start, dst, order = edges.rows
        self.rates, self.n = rates, edges.n
        self.recurrent = np.ones(edges.n, dtype=bool) if recurrent is None else recurrent
        self.rows = (start, dst, rates[order])
        self._moves = scipy.sparse.csr_array((rates[order], dst, start), shape=(edges.n, edges.n))
        self.exits: Array = self._moves @ np.ones(edges.n)

    def balance(self, p: Array) -> Array:
        """``p Q``."""
        return self._moves.T @ p - self.exits * p

    def residual(self, pi: Array) -> float:
        """Largest imbalance of a state over the largest flow, recomputed from ``pi``."""
        largest = max(float((pi * self.exits).max(initial=0.0)), _TINY)
        return float(np.abs(self.balance(pi)).max(initial=0.0)) / largest

    def uncertain(self, pi: Array) -> Array:
        """Right-hand side ``b`` whose solution of ``-Q^T u = b`` bounds the error of ``pi``.

        A residual is small wherever two sets of states hardly communicate, right or wrong. But
        ``-Q`` without a ground has a nonnegative inverse: ``u`` bounds what the residual and the
        rounding of ``Q`` can do. A state that ``pi`` calls rare may be so by mistake, so each
        counts for at least its even share.
        """
        rounding = _EPS * self.exits * np.maximum(pi, 1 / self.n)
        return np.abs(self.balance(pi)) + rounding


class Solved(ABC):
    """What a solver made of one chain."""

    pi: Array

    @abstractmethod
    def solve(self, h: Array) -> Array:
        """One solution of ``-Q v = h``."""

    @abstractmethod
    def solve_transposed(self, b: Array) -> Array:
        """One solution of ``-Q^T u = b``."""

    def precondition(self, r: Array) -> Array:
        """A cheap approximation to a solution of ``-Q v = r``; see `Factor.precondition`."""
        return self.solve(r - self.pi @ r)


class ChainsFactor(Factor):
    """A batch of chains that were solved one after the other."""

    accuracy = Accuracy.NORMWISE
    by_chain = ("_chains",)

    def __init__(self, generator: Generator, solved: Sequence[Solved]) -> None:
        self.edges = generator.edges
        self._chains = np.empty(len(solved), dtype=object)
        self._chains[:] = solved
        pi = np.array([chain.pi for chain in solved]).reshape(len(solved), generator.n)
        self.pi = batch_of(pi, generator.batch_shape)

    def solve(self, h: Tensor) -> Tensor:
        return self._each(h, lambda chain, row: chain.solve(row))

    def solve_transposed(self, b: Tensor) -> Tensor:
        return self._each(b, lambda chain, row: chain.solve_transposed(row))

    def precondition(self, r: Tensor) -> Tensor:
        return self._each(r, lambda chain, row: chain.precondition(row))

    def _each(self, rhs: Tensor, solve: Callable[[Solved, Array], Array]) -> Tensor:
        rows = [solve(chain, row) for chain, row in zip(self._chains, rows_of(rhs), strict=True)]
        return batch_of(np.array(rows).reshape(len(rows), rhs.shape[-1]), rhs.shape[:-1])


def chains_of(generator: Generator, name: str) -> list[SparseChain]:
    """Check a batch for a solver of this name and take it apart."""
    if generator.rates.device.type != "cpu":
        raise InputError(f"{name} runs on the CPU; move the rates there, or use LU()")
    rates, recurrent = rows_of(generator.rates), generator.recurrent()
    inside = [None] * len(rates) if recurrent is None else rows_of(recurrent)
    pairs = zip(rates, inside, strict=True)
    return [SparseChain(generator.edges, row, states) for row, states in pairs]


def centred(h: Array, pi: Array) -> Array:
    """``h`` less its mean under ``pi``; exactly zero where nothing but rounding is left of it.

    A constant ``h`` leaves noise that no equation has as its right-hand side, and a solver that
    is asked for digits of it fails.
    """
    rest = h - pi @ h
    return rest if np.abs(rest).max(initial=0.0) > _NOISE * np.abs(h).max(initial=0.0) else 0 * rest


def distribution(p: Array) -> Array:
    """Normalise; rounding can leave a rare state slightly negative: it is lost, not negative."""
    p = np.maximum(p, 0.0)
    return p / p.sum()
