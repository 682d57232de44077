"""GMRES, preconditioned from the right and restarted from a recomputed residual.

From the right, so that the residual it minimises is the equation's own, not a preconditioned one.
A solution is accepted only on a recomputed residual, because rounding can falsify the recurrence's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stationary._support.types import Array

_HOPELESS = 0.9
"""A cycle that leaves more than this part of the residual will not be followed by better ones."""
_INEXACT = 1e-6
"""How far one cycle goes: beyond a few digits a new residual is worth more than a recurrence."""


@dataclass(frozen=True)
class Outcome:
    """A solution, its recomputed relative residual, and the iterations it took."""

    x: Array
    residual: float
    iterations: int


def gmres(
    apply: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    b: Array,
    tolerance: float,
    most: int,
) -> Outcome:
    """Solve ``A x = b`` until the residual is below ``tolerance |b|``, or give up.

    Parameters
    ----------
    apply, precondition : callable
        ``A x``, and an approximation to the solution of ``A x = r``.
    b : Array [n]
        Right-hand side, in the range of ``A``.
    tolerance : float
        Relative residual to reach.
    most : int
        Iterations in all; one vector of memory each.
    """
    x = np.zeros_like(b)
    size = float(np.linalg.norm(b))
    r, left, taken = b, 1.0, 0
    while size > 0 and left > tolerance and taken < most:
        goal = max(tolerance / 2, _INEXACT * left) * size
        step, used = _cycle(apply, precondition, r, goal, most - taken)
        after = x + step
        r_after = b - apply(after)
        before, now = left, float(np.linalg.norm(r_after)) / size
        taken += used
        if not now < before:  # nor where it is not a number
            break
        x, r, left = after, r_after, now
        if now > _HOPELESS * before:
            break
    return Outcome(x, left if size > 0 else 0.0, taken)


def _cycle(
    apply: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    r: Array,
    goal: float,
    steps: int,
) -> tuple[Array, int]:
    """Minimise ``|r - A x|`` over the Krylov space of so many steps."""
    beta = float(np.linalg.norm(r))
    basis = np.empty((steps + 1, len(r)))
    basis[0] = r / beta
    H = np.zeros((steps + 1, steps))
    for k in range(steps):
        w = apply(precondition(basis[k]))
        for _ in range(2):  # once leaves the basis not quite orthogonal
            share = basis[: k + 1] @ w
            w = w - share @ basis[: k + 1]
            H[: k + 1, k] += share
        H[k + 1, k] = np.linalg.norm(w)
        rhs = np.zeros(k + 2)
        rhs[0] = beta
        if not np.isfinite(H[: k + 2, k]).all():
            return np.full_like(r, np.nan), k + 1
        y, *_ = np.linalg.lstsq(H[: k + 2, : k + 1], rhs, rcond=None)
        left = float(np.linalg.norm(rhs - H[: k + 2, : k + 1] @ y))
        if left <= goal or H[k + 1, k] <= np.finfo(float).eps * beta:
            break
        basis[k + 1] = w / H[k + 1, k]
    return precondition(y @ basis[: k + 1]), k + 1
