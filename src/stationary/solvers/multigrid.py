"""Aggregation multigrid: steady states and adjoints of very large sparse chains in O(edges) memory.

A start that is far off is brought near the steady state by multiplicative cycles, which keep every
probability positive. From there on the equation is linear: with ``x`` the present estimate and
``r = x Q`` its imbalance, ``-Q^T d = r`` is solved by Krylov steps around a cycle through groups of
states, and ``x + d`` is nearer. `_aggregation` has both cycles.

A small imbalance does not bound the error of a chain that mixes slowly: it may be as small as one
likes while sets of states still hold the wrong share of probability. So the rule to stop reads the
*correction* that the imbalance, computed afresh, calls for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError, SolverError
from stationary.generator import Generator
from stationary.solvers import _multigrid_kernels as kernels
from stationary.solvers._aggregation import COARSEST, Level, Rows, cycled, krylov
from stationary.solvers._base import TOLERANCE, Factor, Solver
from stationary.solvers._batches import rows_of
from stationary.solvers._chain import ChainsFactor, Solved, centred, chains_of
from stationary.solvers.gth import GTH

_CYCLES = 40  # multiplicative ones before, at most
_LAST_CYCLES = 10  # and after, for rare states
_ROUNDS = 40  # of Krylov steps, at most
_STEPS = 14  # of Krylov a round: two vectors each are kept
_FEW_STEPS = 4  # where an approximate solution will do
_REDUCTION = 1e-3  # a step that adds so little to the others ends a round early
_ROUGHLY = 3e-2  # the same while the groups still change
_STARTED = 0.1  # share of probability that a multiplicative cycle moves once it is near
_NEAR = 1e-2  # share that a correction may move and leave the groups good
_USEFUL = 0.3  # a round whose last step adds more says little about the error
_BALANCED = 0.1  # imbalance of a rare state, of its own flow, that does no harm
_HARMLESS = 1e-12  # share that balancing them may move, or it is left
_MOST = 10.0  # factor that a linear correction may change a probability by
_STALLED = 0.5  # of the correction before: a round that gained little
_STALLS = 3  # such rounds end a solve
_EPS = np.finfo(float).eps
_NOISE = 4 * _EPS  # an imbalance that is rounding; `_sensitivity` says what that may do
_TINY = 1e-290  # least probability that is kept
_LOST = 1e-280


@dataclass(frozen=True)
class Multigrid(Solver):
    """Aggregation multigrid for sparse chains of up to millions of states; CPU only.

    Chains of up to 300 states are eliminated by `GTH` instead.

    Parameters
    ----------
    tolerance : float
        Estimated error at which a solution is accepted: of ``pi``, the sum of absolute errors; of
        an adjoint, the same of all ``q_ij dL/dq_ij`` over their sum.
    start : Tensor [..., n], optional
        Guess of the steady states, such as those at nearby rates. Without one, the first chain of
        a batch starts from the uniform distribution, every other from the one before it.
    """

    tolerance: float = 1e-10
    start: Tensor | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise InputError(f"tolerance must be between 0 and 1; got {self.tolerance!r}")

    def factor(self, generator: Generator) -> Factor:
        """Solve every chain of the batch, one after the other, and keep its groups."""
        starts = self._starts(generator)
        if generator.n <= COARSEST:
            return GTH().factor(generator)
        solved: list[_Chain] = []
        chains = chains_of(generator, "Multigrid()")
        if not all(chain.recurrent.all() for chain in chains):
            raise SolverError(
                "Multigrid() keeps every probability positive, and some states of a chain are "
                "transient: leave them out, or use SparseLU()"
            )
        for k, chain in enumerate(chains):
            guess = starts[k] if starts is not None else solved[-1].pi if solved else None
            solved.append(_Chain(chain.rows, guess, self.tolerance))
        return ChainsFactor(generator, solved)

    def _starts(self, generator: Generator) -> Array | None:
        if self.start is None:
            return None
        shape = (*generator.batch_shape, generator.n)
        try:
            starts = rows_of(torch.broadcast_to(self.start, shape))
        except RuntimeError:
            raise InputError(
                f"start must have one entry for every state, shape {tuple(shape)}; got shape "
                f"{tuple(self.start.shape)}"
            ) from None
        if not (np.isfinite(starts).all() and (starts >= 0).all() and starts.any(-1).all()):
            raise InputError("start must hold finite probabilities, none of them negative")
        return starts


class _Chain(Solved):
    """One chain: its steady state, and the levels that were good enough to find it."""

    def __init__(self, rates: Rows, guess: Array | None, tolerance: float) -> None:
        n = len(rates[0]) - 1
        self._tolerance = tolerance
        # Multiplying cannot mend a zero.
        self.pi = (
            np.ones(n) if guess is None else np.where(guess > 0, guess, guess[guess > 0].min())
        )
        self._normalise()
        if guess is None:
            self._approach(rates)
        self._polish(rates)
        self._settle(rates)
        self._top = Level(*self._flows(rates))
        left = kernels.product(*self._top.columns, self._top.out, np.ones(n))
        residual = np.abs(left).sum() / self._top.out.sum()
        error = self._sensitivity()
        if not (residual < max(TOLERANCE, tolerance) and error < TOLERANCE):
            raise SolverError(
                f"multigrid left a residual of {residual:.1e}, and rounding may change the steady "
                f"state by up to {error:.1e}: sets of states hardly communicate; use GTH() if the "
                f"chain is small enough"
            )

    def _normalise(self) -> None:
        self.pi /= self.pi.sum()
        np.maximum(self.pi, _TINY, out=self.pi)

    def _flows(self, rates: Rows) -> tuple[Rows, Array]:
        values, out = kernels.flows(rates[0], rates[2], self.pi)
        return (rates[0], rates[1], values), out

    def _cycle(self, rates: Rows) -> tuple[float, float]:
        """Run a multiplicative cycle.

        Return the share of probability that it moved, and the largest imbalance of a state before,
        as a share of its own flow, those left out that underflow.
        """
        before = self.pi
        self.pi, imbalance = cycled(rates, before)
        self._normalise()
        moved = float(np.abs(self.pi - before).sum())
        return moved, float(imbalance[before > _LOST].max())

    def _approach(self, rates: Rows) -> None:
        for _ in range(_CYCLES):
            moved, _ = self._cycle(rates)
            if moved < _STARTED:
                return

    def _settle(self, rates: Rows) -> None:
        """Balance the rare states, too: groups of them would drift away from the likely ones."""
        for _ in range(_LAST_CYCLES):
            polished = self.pi
            moved, imbalance = self._cycle(rates)
            if moved > max(self._tolerance, _HARMLESS):
                self.pi = polished
                return
            if imbalance < _BALANCED:
                return

    def _polish(self, rates: Rows) -> None:
        """Correct ``pi`` until the estimated error is within tolerance."""
        near, moved, stalls = False, np.inf, 0
        for _ in range(_ROUNDS):
            if not near:
                weights = self.pi
                top = Level(*self._flows(rates))
            e = self.pi / weights
            r = -kernels.product(*top.columns, top.out, e)
            if np.abs(r).sum() <= _NOISE * top.out.sum():
                return
            reduction = _REDUCTION if near else _ROUGHLY
            correction, last_step = krylov(top, r, True, _STEPS, reduction)
            correction -= (weights @ correction) * e
            before, moved = moved, float(weights @ np.abs(correction))
            useful = last_step < _USEFUL
            if useful:
                # Where states are rare it is noise; the cycle mends what is left.
                self.pi = weights * np.clip(e + correction, e / _MOST, e * _MOST)
                self._normalise()
            # What is too small to have caused the imbalance is no correction.
            explains = np.abs(r).sum() <= 4 * (top.out @ np.abs(correction))
            near = useful and moved <= _NEAR and bool(explains)
            if near and moved <= self._tolerance:
                return
            self._cycle(rates)
            if not near:
                stalls = 0
            elif moved > _STALLED * before:
                stalls += 1
            if stalls == _STALLS:
                break
        raise SolverError(
            f"multigrid stopped at an estimated error of {moved:.1e}, above its tolerance of "
            f"{self._tolerance:.1e}; pass the steady state at nearby rates as start=, or use "
            f"SparseLU()"
        )

    def _sensitivity(self) -> float:
        """What relative errors of rounding in the flows can do to ``pi``, read off the groups.

        The groups of the last level are what communicates least, and with their ground left out
        their matrix has a nonnegative inverse, so that errors of one sign are the worst.
        """
        last, mass = self._top, self.pi
        while last.n > COARSEST:
            last, mass = last.coarse, last.gathered(mass)
        if last.direct is None:
            return np.inf
        return float((mass * last.direct.solve(_EPS * last.out, True)).sum())

    def solve(self, h: Array) -> Array:
        """``-Q v = h`` with ``pi . v = 0``."""
        rhs = self.pi * centred(h, self.pi)
        v = self._refined(rhs, False, lambda v: kernels.roughness(*self._top.rows, v))
        return v - self.pi @ v

    def precondition(self, r: Array) -> Array:
        """An approximation to a solution of ``-Q v = r``, by a few steps."""
        return krylov(self._top, self.pi * (r - self.pi @ r), False, _FEW_STEPS)[0]

    def solve_transposed(self, b: Array) -> Array:
        """``-Q^T u = b`` with ``sum(u) = 0``."""
        rhs = b - self.pi * b.sum()
        u = self.pi * self._refined(rhs, True, lambda e: float(self.pi @ np.abs(e)))
        return u - self.pi * u.sum()

    def _refined(self, rhs: Array, transposed: bool, size: Callable[[Array], float]) -> Array:
        """Solve with the levels, restarted from the residual, until the correction is small."""
        top = self._top
        rows = top.matrix(transposed)
        v, r = np.zeros_like(rhs), rhs.copy()
        error, stalls = np.inf, 0
        for _ in range(_ROUNDS):
            if np.abs(r).sum() <= _NOISE * (top.out @ np.abs(v) + np.abs(rhs).sum()):
                return v
            step, last_step = krylov(top, r, transposed, _STEPS, _REDUCTION)
            v += step
            if not np.isfinite(last_step):
                break
            before, error = error, size(step) / size(v)
            if last_step < _USEFUL and error <= self._tolerance:
                return v
            stalls += error > _STALLED * before
            if stalls == _STALLS:
                break
            r = kernels.residual(*rows, top.out, rhs, v)
        raise SolverError(
            f"the adjoint stopped at an estimated error of {error:.1e}, above the tolerance of "
            f"{self._tolerance:.1e}; set a larger tolerance, or use SparseLU()"
        )
