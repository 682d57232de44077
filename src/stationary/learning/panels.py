r"""Aggregate panels: a chain from how many are in each state at successive times.

A population of independent chains is counted per state at times 0, 1, 2, ..., without knowing who
is who. Given the counts ``n_t`` of one time, those of the next have the mean ``n_t P``, so that

    sum_t | n_{t+1} - n_t P |^2

is least, in the long run, at the true transition probabilities: conditional least squares, here
with the constraint that rows of ``P`` are distributions. Counts ``y_t`` with independent noise bias
it towards too much mixing, because ``y_t^T y_t`` has the variance of the noise on its diagonal.
Bernstein and Sheldon (2016) subtract it; then the estimate is consistent.

What determines what: successive counts determine ``P``, through the way in which fluctuations of
the counts die away. Counts at times far apart, or their sums, determine the steady state only: that
is what `st.fit` has, and there a common factor of all rates stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data.numbers import as_table
from stationary.errors import InputError

_PAIRS = (slice(None, -1), slice(1, None))  # each time but the last, and the time after it
_MOST = 100_000
_GOAL = 1e-12


def panel_transitions(counts: Any, noise: float = 0.0) -> Tensor:
    """Estimate transition probabilities ``[n, n]`` from counts at successive times.

    Parameters
    ----------
    counts : array_like [T, n] or sequence of them
        How many were in each state at each time; several panels of one chain are added up.
        Times with the same proportions add nothing: there must be at least as many times with
        different proportions as there are states.
    noise : float
        Variance of the error of a count over the count: 0 where everybody was counted, ``1 - r``
        where each was counted with probability r, 1 for Poisson noise.

    Examples
    --------
    Ten of twenty move on from the first state, and all of them stay in the second:

    >>> panel_transitions([[20, 0], [10, 10], [5, 15]]).round(decimals=6)
    tensor([[0.5000, 0.5000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    if not 0 <= noise <= 1:
        raise InputError(f"noise must be between 0 (exact counts) and 1 (Poisson); got {noise!r}")
    panels = _panels(counts)
    unit = max(panel.max() for panel in panels)  # so that no square overflows
    now, later = (np.concatenate([panel[part] for panel in panels]) / unit for part in _PAIRS)
    shown = np.linalg.matrix_rank(now)
    if shown < now.shape[1]:
        raise InputError(
            f"the counts do not determine the chain: they vary in {shown} of {now.shape[1]} "
            f"directions; count at more times, or leave out states that nobody is ever in"
        )
    square = now.T @ now - noise / unit * np.diag(now.sum(0))
    # What is subtracted may exceed what there is, in directions that say nothing.
    curvature, axes = np.linalg.eigh(square)
    if curvature[-1] <= 0:
        raise InputError(
            f"noise={noise:g} explains all of the counts: there is nothing left to learn from"
        )
    return torch.from_numpy(_least(np.maximum(curvature, 0.0), axes, now.T @ later))


def _panels(counts: Any) -> list[Array]:
    several = isinstance(counts, Sequence) and len(counts) > 0 and np.ndim(counts[0]) == 2
    panels = [as_table(panel, "counts").numpy() for panel in (counts if several else [counts])]
    for panel in panels:
        if panel.ndim != 2 or len(panel) < 2 or panel.shape[1] != panels[0].shape[1]:
            raise InputError(
                f"counts must have one row per time, two or more, and one column per state; got "
                f"shape {panel.shape}"
            )
        if not (np.isfinite(panel).all() and (panel >= 0).all() and panel[0].any()):
            raise InputError("counts must be finite and not negative, and not all zero at first")
    return panels


def _least(curvature: Array, axes: Array, cross: Array) -> Array:
    """Minimise ``tr(P^T G P) / 2 - tr(P^T C)`` over stochastic matrices, G by its axes."""
    G = (axes * curvature) @ axes.T
    largest = curvature[-1]
    P = ahead = _to_simplex(np.linalg.lstsq(G, cross, rcond=1e-10)[0])
    pace = 1.0
    for _ in range(_MOST):  # gradient steps with momentum, started again where they turn back
        before, P = P, _to_simplex(ahead - (G @ ahead - cross) / largest)
        if np.abs(P - before).max() < _GOAL and np.abs(ahead - before).max() < _GOAL:
            break
        if ((ahead - P) * (P - before)).sum() > 0:
            pace, ahead = 1.0, P
            continue
        faster = (1 + np.sqrt(1 + 4 * pace**2)) / 2
        ahead = P + (pace - 1) / faster * (P - before)
        pace = faster
    return P


def _to_simplex(rows: Array) -> Array:
    """Return the nearest distribution to each row."""
    falling = -np.sort(-rows, axis=1)
    excess = (falling.cumsum(1) - 1) / np.arange(1, rows.shape[1] + 1)
    kept = (falling > excess).sum(1, keepdims=True)
    return np.maximum(rows - np.take_along_axis(excess, kept - 1, 1), 0.0)
