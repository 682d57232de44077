"""A chain solved by GMRES around any approximate inverse: an old factor, an incomplete one, sweeps.

The null space of ``Q`` is kept out of the way: right-hand sides are projected onto the range
before each solve, with ``pi`` for the one equation and a constant for the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.solvers._base import TOLERANCE
from stationary.solvers._chain import Solved, SparseChain, centred, distribution
from stationary.solvers._gmres import Outcome, gmres

GOAL = 1e-12
"""Relative residual that is aimed at."""
ACCEPTED = 1e-10
"""Relative residual that is accepted, where rounding allows no better."""
_ROUNDS = 4
_FLOOR = 1e-14
_ROUNDING = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Budget:
    """Iterations before a restart, and in all."""

    restart: int
    most: int


class Iterated(Solved):
    """One chain, and two approximate inverses of it.

    Parameters
    ----------
    chain : SparseChain
        The chain.
    inverse, transposed : callable
        Approximate solutions of ``-Q v = h`` and ``-Q^T u = b``.
    budget : Budget
        Iterations that a solve may take.
    advice : str
        What to do instead when it does not converge.
    """

    def __init__(
        self,
        chain: SparseChain,
        inverse: Callable[[Array], Array],
        transposed: Callable[[Array], Array],
        budget: Budget,
        advice: str,
    ) -> None:
        self.chain, self._budget, self._advice = chain, budget, advice
        self._inverse, self._transposed = inverse, transposed
        self.iterations = 0

    def find(self, start: Array) -> None:
        """Improve a distribution until it balances, and keep it as ``pi``; or raise.

        The first solve that begins with no iterations left of the budget is not begun.
        """
        chain, pi = self.chain, distribution(start)
        best = chain.residual(pi)
        for _ in range(_ROUNDS):
            if best <= _FLOOR or self.iterations >= self._budget.most:
                break
            outcome = self._transposed_poisson(chain.balance(pi), pi, GOAL)
            after = distribution(pi + outcome.x)
            residual = chain.residual(after)
            if not residual < best / 2:
                break
            pi, best = after, residual
        error = np.inf
        if best < ACCEPTED:
            b = chain.uncertain(pi)
            bound = self._transposed_poisson(b - b.sum() * pi, pi, 0.1)
            error = float(np.abs(bound.x).max(initial=0.0)) if bound.residual < 1.0 else np.inf
        if not error < TOLERANCE:
            raise SolverError(
                f"a residual of {best:.1e} and an error of up to {error:.1e} were left after "
                f"{self.iterations} iterations; {self._advice}"
            )
        self.pi = pi

    def adopt(self, pi: Array) -> None:
        """Take a steady state that was found in another way."""
        self.pi = pi

    def solve(self, h: Array) -> Array:
        h = centred(h, self.pi)
        outcome = self._count(
            gmres(
                lambda v: -self.chain.times(v),
                self._inverse,
                h,
                tolerance=GOAL,
                restart=self._budget.restart,
                most=self._budget.most,
            )
        )
        return self._accepted(outcome, h)

    def precondition(self, r: Array) -> Array:
        """One application of the approximate inverse."""
        return self._inverse(r)

    def solve_transposed(self, b: Array) -> Array:
        b = b - b.sum() * self.pi
        return self._accepted(self._transposed_poisson(b, self.pi, GOAL), b)

    def _transposed_poisson(self, b: Array, pi: Array, tolerance: float) -> Outcome:
        def project(u: Array) -> Array:
            return u - u.sum() * pi

        outcome = gmres(
            lambda u: -self.chain.balance(u),
            lambda r: project(self._transposed(r - r.mean())),
            b,
            tolerance=tolerance,
            restart=self._budget.restart,
            most=self._budget.most,
        )
        return self._count(outcome)

    def _accepted(self, outcome: Outcome, rhs: Array) -> Array:
        """Refuse a solution whose recomputed residual is neither small nor due to rounding."""
        size = float(np.linalg.norm(rhs))
        rounding = _ROUNDING * float(np.linalg.norm(self.chain.exits * outcome.x))
        if not outcome.residual * size <= max(ACCEPTED * size, rounding):
            raise SolverError(
                f"a relative residual of {outcome.residual:.1e} was left after "
                f"{outcome.iterations} iterations; {self._advice}"
            )
        return outcome.x

    def _count(self, outcome: Outcome) -> Outcome:
        self.iterations += outcome.iterations
        return outcome
