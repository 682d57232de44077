"""A solver that remembers: last step's factor serves this step's chain, a little way off."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers._base import TOLERANCE, Factor, Solver
from stationary.solvers._chain import (
    ChainsFactor,
    Solved,
    SparseChain,
    centred,
    chains_of,
    distribution,
)
from stationary.solvers._gmres import Outcome, gmres
from stationary.solvers.sparse import SparseLU

_log = logging.getLogger(__name__)
_ADVICE = "the cached factor is too old"
_GOAL = 1e-12
"""Relative residual that is aimed at."""
_ACCEPTED = 1e-10
"""Relative residual that is accepted, where rounding allows no better."""
_ROUNDS = 4
_FLOOR = 1e-14
_ROUNDING = 64 * float(np.finfo(float).eps)
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
class CachedFactor(Solver):
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
        chains = chains_of(generator, "CachedFactor()")
        if not all(chain.recurrent.all() for chain in chains):
            # The factor of a chain that visits other states is no help.
            return self.solver.factor(generator)
        self._memory.on(generator.edges)
        return ChainsFactor(generator, [_Reusing(self, chain) for chain in chains])


class _Reusing(Solved):
    """One chain, solved by GMRES around the factor of another one that has nearly its rates.

    Where that does not converge, the chain is factored anew. The null space of ``Q`` is kept out of
    the way: right-hand sides are projected onto the range before each solve, with ``pi`` for the
    one equation and a constant for the other.
    """

    def __init__(self, solver: CachedFactor, chain: SparseChain) -> None:
        self._solver, self._chain = solver, chain
        kept = solver._memory.nearest(chain.rates)
        if kept is None:
            self._anew("there is none")
            return
        self._kept = kept
        try:
            self.pi = kept.steady = self._improved(kept.steady)
        except SolverError as error:
            self._anew(str(error))

    def solve(self, h: Array) -> Array:
        return self._ask(self._poisson, h)

    def solve_transposed(self, b: Array) -> Array:
        return self._ask(self._transposed_poisson, b)

    def _ask(self, question: Callable[[Array], Array], rhs: Array) -> Array:
        try:
            return question(rhs)
        except SolverError as error:
            self._anew(str(error))
            return question(rhs)

    def precondition(self, r: Array) -> Array:
        """One solve with the old factor."""
        old = self._kept.factor
        return old.solve(torch.from_numpy(r - old.pi.numpy() @ r)).numpy()

    def _anew(self, why: str) -> None:
        _log.info("a new factor by %r: %s", self._solver.solver, why)
        memory = self._solver._memory
        if "_kept" in vars(self) and self._kept.distance(self._chain.rates) < _SAME_CHAIN:
            # Frees the old one, unless an earlier result holds it, before there are two.
            memory.drop(self._kept)
            del self._kept
        rates = torch.from_numpy(self._chain.rates)
        factor = self._solver.solver.factor(Generator(self._chain.edges, rates))
        self.pi = factor.pi.numpy()
        self._kept = _Kept(factor, self._chain.rates, self.pi)
        memory.add(self._kept, self._solver.most)

    def _improved(self, start: Array) -> Array:
        """Improve a distribution until it balances; or raise."""
        chain, pi, taken = self._chain, distribution(start), 0
        best = chain.residual(pi)
        for _ in range(_ROUNDS):
            if best <= _FLOOR or taken >= self._solver.steps:
                break
            outcome = self._outcome(chain.balance(pi), pi, _GOAL)
            taken += outcome.iterations
            after = distribution(pi + outcome.x)
            residual = chain.residual(after)
            if not residual < best / 2:
                break
            pi, best = after, residual
        error = np.inf
        if best < _ACCEPTED:
            b = chain.uncertain(pi)
            bound = self._outcome(b - b.sum() * pi, pi, 0.1)
            taken += bound.iterations
            error = float(np.abs(bound.x).max(initial=0.0)) if bound.residual < 1.0 else np.inf
        if not error < TOLERANCE:
            raise SolverError(
                f"a residual of {best:.1e} and an error of up to {error:.1e} were left after "
                f"{taken} iterations; {_ADVICE}"
            )
        _log.debug("an old factor did, in %d iterations", taken)
        return pi

    def _poisson(self, h: Array) -> Array:
        h, steps = centred(h, self.pi), self._solver.steps
        outcome = gmres(lambda v: -self._chain.times(v), self.precondition, h, _GOAL, steps)
        return self._accepted(outcome, h)

    def _transposed_poisson(self, b: Array) -> Array:
        b = b - b.sum() * self.pi
        return self._accepted(self._outcome(b, self.pi, _GOAL), b)

    def _outcome(self, b: Array, pi: Array, tolerance: float) -> Outcome:
        """Solve the transposed equation, with this ``pi`` for the null space."""

        def precondition(r: Array) -> Array:
            u = self._kept.factor.solve_transposed(torch.from_numpy(r - r.mean())).numpy()
            return u - u.sum() * pi

        steps = self._solver.steps
        return gmres(lambda u: -self._chain.balance(u), precondition, b, tolerance, steps)

    def _accepted(self, outcome: Outcome, rhs: Array) -> Array:
        """Refuse a solution whose recomputed residual is neither small nor due to rounding."""
        size = float(np.linalg.norm(rhs))
        rounding = _ROUNDING * float(np.linalg.norm(self._chain.exits * outcome.x))
        if not outcome.residual * size <= max(_ACCEPTED * size, rounding):
            raise SolverError(
                f"a relative residual of {outcome.residual:.1e} was left after "
                f"{outcome.iterations} iterations; {_ADVICE}"
            )
        return outcome.x
