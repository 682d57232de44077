"""A solver that remembers: last step's factor serves this step's chain, a little way off."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from stationary.edges import Edges
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import Factor, Solver
from stationary.solvers._batches import Array
from stationary.solvers._chain import ChainsFactor, Solved, SparseChain, chains_of
from stationary.solvers._iterated import Budget, Iterated
from stationary.solvers.sparse import SparseLU

_log = logging.getLogger(__name__)
_ADVICE = "the remembered factor is too old"


class _Memory:
    """Factors by window, the last used last; a copy starts empty, factors cannot be copied."""

    def __init__(self) -> None:
        self.edges: Edges | None = None
        self.factors: OrderedDict[int, Factor] = OrderedDict()
        self.steady: dict[int, Array] = {}

    def __getstate__(self) -> dict[str, Any]:
        return _Memory().__dict__


@dataclass(frozen=True)
class Reused(Solver):
    """Solve a chain with the factor of an earlier one of the same window; CPU only.

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
        Factors that are kept, those used last.
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

    def fresh(self) -> Reused:
        """Return the same solver with nothing remembered."""
        return replace(self)

    def factor(self, generator: Generator) -> Factor:
        """Solve every chain, with an old factor where there is one and it will do."""
        chains = chains_of(generator, "Reused()")
        memory = self._memory
        if memory.edges is not generator.edges:
            memory.edges = generator.edges
            memory.factors.clear()
            memory.steady.clear()
        windows = generator.windows()
        solved = [
            _Reusing(self, chain, window) for chain, window in zip(chains, windows, strict=True)
        ]
        return ChainsFactor(generator, solved)

    def remember(self, window: int, factor: Factor) -> None:
        """Keep a factor, and forget the one that was not used for longest."""
        factors = self._memory.factors
        factors[window] = factor
        factors.move_to_end(window)
        while len(factors) > self.most:
            forgotten, _ = factors.popitem(last=False)
            self._memory.steady.pop(forgotten, None)
            _log.debug("forgot the factor of window %d: %d are kept", forgotten, self.most)


class _Reusing(Solved):
    """One chain, solved around an old factor for as long as that converges."""

    def __init__(self, solver: Reused, chain: SparseChain, window: int) -> None:
        self._solver, self._chain, self._window = solver, chain, window
        memory = solver._memory
        old = memory.factors.get(window)
        if old is None:
            self._anew("there is none")
        else:
            memory.factors.move_to_end(window)
            self._around = _around(old, chain, solver.steps)
            try:
                self._around.find(memory.steady[window])
                self.pi = self._around.pi
                _log.debug("window %d: reused, %d iterations", window, self._around.iterations)
            except SolverError as error:
                self._anew(str(error))
        memory.steady[window] = self.pi

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
        _log.info("window %d: a new factor by %r: %s", self._window, self._solver.solver, why)
        # Frees the old one, unless an earlier result holds it, before there are two.
        self._solver._memory.factors.pop(self._window, None)
        vars(self).pop("_around", None)
        rates = torch.from_numpy(self._chain.rates)
        factor = self._solver.solver.factor(Generator(self._chain.edges, rates))
        self._solver.remember(self._window, factor)
        self._around = _around(factor, self._chain, self._solver.steps)
        self.pi = factor.pi.numpy()
        self._around.adopt(self.pi)


def _around(factor: Factor, chain: SparseChain, steps: int) -> Iterated:
    pi = factor.pi.numpy()

    def inverse(h: Array) -> Array:
        return factor.solve(torch.from_numpy(h - pi @ h)).numpy()

    def transposed(b: Array) -> Array:
        return factor.solve_transposed(torch.from_numpy(np.ascontiguousarray(b))).numpy()

    return Iterated(chain, inverse, transposed, Budget(steps, steps), _ADVICE)
