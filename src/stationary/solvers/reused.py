"""A solver that remembers: last step's factor serves this step's chain, a little way off."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import Factor, Solver
from stationary.solvers._chain import ChainsFactor, Solved, SparseChain, chains_of
from stationary.solvers._iterated import Budget, Iterated
from stationary.solvers.sparse import SparseLU

_log = logging.getLogger(__name__)
_ADVICE = "the remembered factor is too old"
_SAME_CHAIN = 0.05
"""Mean relative difference of rates up to which a new factor takes the place of an old one."""


@dataclass(eq=False)
class _Kept:
    """A factor, the rates it is of, and the steady state that was last found with it."""

    factor: Factor
    rates: Array
    steady: Array

    def distance(self, rates: Array) -> float:
        """Mean relative difference of the rates from those of a chain."""
        total = self.rates + rates
        apart = np.abs(self.rates - rates) / np.where(total > 0, total, 1.0)
        return float(apart.sum()) / max(len(apart), 1)


class _Memory:
    """Factors, the last used last; a copy starts empty, for factors cannot be copied."""

    def __init__(self) -> None:
        self.edges: Edges | None = None
        self.kept: list[_Kept] = []
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Memory, ()

    def on(self, edges: Edges) -> None:
        """Forget the factors of chains on other edges."""
        with self._lock:
            if self.edges is not edges:
                self.edges, self.kept = edges, []

    def nearest(self, rates: Array) -> _Kept | None:
        """Return the factor of the chain nearest to one with these rates, if there is any."""
        with self._lock:
            if not self.kept:
                return None
            found = min(self.kept, key=lambda kept: kept.distance(rates))
            self.kept.remove(found)
            self.kept.append(found)
            return found

    def add(self, new: _Kept, most: int) -> None:
        """Keep a factor, and forget those that were not used for longest."""
        with self._lock:
            self.kept = [*self.kept, new][-most:]

    def drop(self, old: _Kept) -> None:
        """Forget a factor."""
        with self._lock:
            self.kept = [kept for kept in self.kept if kept is not old]


@dataclass(frozen=True)
class Reused(Solver):
    """Solve a chain with the factor of an earlier one, the nearest that is kept; CPU only.

    GMRES around the old factor, from the last steady state, takes a few substitutions where the
    rates moved by a percent. Where it takes more than ``steps``, the chain is factored anew.
    Solutions are accepted on a recomputed residual only, so an old factor costs time, never
    digits. Rare states are accurate normwise only.

    Parameters
    ----------
    solver : Solver
        What factors a chain when no old factor will do.
    steps : int
        Substitutions worth trying before a new factor; a sparse one costs about 40 at a million
        states.
    most : int
        Factors that are kept, those used last: as many as a fit has different inputs, if memory
        allows.
    """

    solver: Solver = field(default_factory=SparseLU)
    steps: int = 24
    most: int = 4
    _memory: _Memory = field(init=False, repr=False, compare=False, default_factory=_Memory)

    def __post_init__(self) -> None:
        for name in ("steps", "most"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1; got {value!r}")

    def factor(self, generator: Generator) -> Factor:
        """Solve every chain, with an old factor where there is one and it will do."""
        chains = chains_of(generator, "Reused()")
        self._memory.on(generator.edges)
        return ChainsFactor(generator, [_Reusing(self, chain) for chain in chains])


class _Reusing(Solved):
    """One chain, solved around an old factor for as long as that converges."""

    def __init__(self, solver: Reused, chain: SparseChain) -> None:
        self._solver, self._chain = solver, chain
        old = solver._memory.nearest(chain.rates)
        if old is None:
            self._anew("there is none")
            return
        self._kept = old
        self._around = _around(old.factor, chain, solver.steps)
        try:
            self._around.find(old.steady)
        except SolverError as error:
            self._anew(str(error))
        else:
            self.pi = old.steady = self._around.pi
            _log.debug("an old factor did, in %d iterations", self._around.iterations)

    def solve(self, h: Array) -> Array:
        try:
            return self._around.solve(h)
        except SolverError as error:
            self._anew(str(error))
            return self._around.solve(h)

    def solve_transposed(self, b: Array) -> Array:
        try:
            return self._around.solve_transposed(b)
        except SolverError as error:
            self._anew(str(error))
            return self._around.solve_transposed(b)

    def precondition(self, r: Array) -> Array:
        """One solve with the old factor."""
        return self._around.precondition(r)

    def _anew(self, why: str) -> None:
        _log.info("a new factor by %r: %s", self._solver.solver, why)
        memory = self._solver._memory
        if "_kept" in vars(self) and self._kept.distance(self._chain.rates) < _SAME_CHAIN:
            # Frees the old one, unless an earlier result holds it, before there are two.
            memory.drop(self._kept)
            del self._kept, self._around
        rates = torch.from_numpy(self._chain.rates)
        factor = self._solver.solver.factor(Generator(self._chain.edges, rates))
        self.pi = factor.pi.numpy()
        self._kept = _Kept(factor, self._chain.rates, self.pi)
        memory.add(self._kept, self._solver.most)
        self._around = _around(factor, self._chain, self._solver.steps)
        self._around.adopt(self.pi)


def _around(factor: Factor, chain: SparseChain, steps: int) -> Iterated:
    pi = factor.pi.numpy()

    def inverse(h: Array) -> Array:
        return factor.solve(torch.from_numpy(h - pi @ h)).numpy()

    def transposed(b: Array) -> Array:
        return factor.solve_transposed(torch.from_numpy(np.ascontiguousarray(b))).numpy()

    return Iterated(chain, inverse, transposed, Budget(steps, steps), _ADVICE)
