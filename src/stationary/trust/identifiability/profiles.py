r"""How far measures can move while the data stay almost as likely: profile ranges.

With ``z`` the free parameters, ``z*`` the best fit and ``g`` the level of a measure (`region`), the
ends of a profile range are

    min and max of g(z)   where   nll(z) - nll(z*) <= bound.

First come straight lines along directions that the likelihood leaves flat, where a general search
makes slow progress. Then sequential quadratic programming (SLSQP) searches for each end, in
coordinates in which the region is about the unit ball. Every point inside the region, whatever
search came upon it, counts for every measure. So a range may be too narrow where a search fails,
but never too wide. The work is bounded: a search that had to stop early is marked as such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from torch import Tensor

from stationary._support.types import Array
from stationary.learning.inference import finite_hessian
from stationary.models.measures import Measure
from stationary.models.scales import Scale
from stationary.trust.identifiability.region import IMPOSSIBLE, REACH, Question, Region

_MOST_STEPS = 200  # steps of one search
_MORE_WORK = 60
"""Evaluations of a search from a further start. Most end within 12; one that creeps along the edge
of the region for hundreds seldom finds a farther end."""

_ENDED = (0, 8)  # outcomes of SLSQP at an end: converged, or no step improves it beyond rounding
_PRECISE = 1e-6  # gain of a step, as a share of the way to the end, at which a search is over
_SMALL = 1e-3  # gain of another search, in e-folds, that is too small to go on for
_NEGLIGIBLE = 7.0  # e-folds below its start from which a rate has hardly any effect
_FEW, _CORNERS = 12, 3
"""Parameters up to which a search starts from corners of the region, too, and how many of them."""


class _StopSearch(Exception):  # noqa: N818  # a signal, not an error
    """An end is open, or the work is used up."""


def explore(region: Region, centre: Array, lines: Sequence[Array]) -> None:
    """Widen the ends of every question of a region as far as they go.

    The ``centre`` is a point at which no parameter is so small that nothing depends on it. The
    ``lines``, with a largest entry of 1 each, are walked along first: the likelihood may leave them
    open.
    """
    region.visit(centre)
    curvature, basis = np.linalg.eigh(finite_hessian(region.likelihood, centre) / region.bound)
    length = np.sqrt(2 / np.maximum(curvature, 2 / REACH**2))  # of the region, along each axis
    ball = basis * length
    flat = basis[:, length >= REACH / 2]
    for line in lines:
        for step in (REACH, 8.0, 3.0, 1.0):
            region.visit(region.z + step * line)
            region.visit(region.z - step * line)
    before = np.full(region.ends.shape, -1.0)
    for first in (True, False):  # once more, from better points that later searches found
        for k, asked in enumerate(region.questions):
            for side in asked.sides:
                if region.searched[k, side] and _gain(region, before, k, side) <= _SMALL:
                    continue
                before[k, side] = region.moved(k, side)
                uphill = flat @ (flat.T @ region.level(centre, k)[1])
                _walk(region, [*lines, uphill / np.abs(uphill).max(initial=1e-300)], k, side)
                starts = _starts(region, centre, k, side)
                _search(region, centre, ball, k, side, starts[0])
                for start in starts[1:] if first else []:
                    _search(region, centre, ball, k, side, start, _MORE_WORK)
                if not (first or region.is_exhausted or _gain(region, before, k, side) > _SMALL):
                    region.searched[k, side] = True
                before[k, side] = region.moved(k, side)


def _gain(region: Region, before: Array, k: int, side: int) -> float:
    """How much an end has moved since, in e-folds, or relative to how far it had moved."""
    return (region.moved(k, side) - float(before[k, side])) / (1 + float(before[k, side]))


def _starts(region: Region, centre: Array, k: int, side: int) -> list[Array]:
    """Where to start a search: the farthest point seen; with few parameters, others as well."""
    best = region.points[k, side].copy()
    if not 1 < len(centre) <= _FEW:
        return [best]
    # The region need not be convex: its corners lead to ends that its middle does not.
    corners = np.unique(region.points[: len(centre)].reshape(-1, len(centre)), axis=0)
    levels = np.array([region.levels(corner)[k] for corner in corners])
    order = np.argsort(levels if side == 0 else -levels)
    # Where a rate has run to zero nothing pulls it back: start half way, too.
    return [best, (best + centre) / 2, *corners[order[:_CORNERS]]]


def _walk(region: Region, lines: Sequence[Array], k: int, side: int) -> None:
    """Move one end outwards along one line after another, as far as each of them goes."""
    for line in lines:
        for step in (REACH, -REACH, REACH / 4, -REACH / 4):
            if region.is_open(k, side):
                return
            before = region.moved(k, side)
            region.visit(region.points[k, side] + step * line)
            if region.moved(k, side) > before:
                break


def _search(
    region: Region,
    centre: Array,
    ball: Array,
    k: int,
    side: int,
    start: Array,
    most: int | None = None,
) -> None:
    """Move one end outwards by SLSQP in coordinates ``u``, with ``z = centre + ball @ u``.

    With ``most`` evaluations it is one more search for an end that others have found already.
    """
    last = math.inf if most is None else region.likelihood.evaluations + most
    slopes = [ball.T @ region.level(at, k)[1] for at in (centre, start)]
    scale = (1.0, -1.0)[side] / max(1e-3, *(float(np.linalg.norm(slope)) for slope in slopes))

    def objective(u: Array) -> tuple[float, Array]:
        over = region.is_exhausted or region.likelihood.evaluations > last
        if over or region.is_open(k, side):
            raise _StopSearch
        level, slope = region.level(centre + ball @ u, k)
        if math.isnan(level):
            return IMPOSSIBLE, np.zeros_like(u)
        return scale * level, scale * (ball.T @ slope)

    inside = {
        "type": "ineq",
        "fun": lambda u: 1 - region.cost(centre + ball @ u)[0],
        "jac": lambda u: -region.cost(centre + ball @ u)[1] @ ball,
    }
    u = np.linalg.solve(ball, start - centre)
    limit = REACH / np.linalg.norm(ball, axis=0)
    try:
        found = minimize(
            objective,
            u,
            jac=True,
            method="SLSQP",
            bounds=list(zip(np.minimum(u, -limit), np.maximum(u, limit), strict=True)),
            constraints=[inside],
            callback=lambda u: region.visit(centre + ball @ u),
            options={"maxiter": _MOST_STEPS, "ftol": _PRECISE},
        )
        region.visit(centre + ball @ found.x)
        region.searched[k, side] |= found.status in _ENDED
    except _StopSearch:
        region.searched[k, side] |= region.is_open(k, side)


def rates_at_zero(region: Region, started: Scale) -> dict[int, tuple[float, float]]:
    """Find rates estimated at zero: a level that is too high, and one at which each has an effect.

    On a log scale nothing depends on a rate this small, as if it were not known. But it is bounded
    if, on the way back to where it started, the fit gets too bad; or beyond, for a rate that is
    next to nothing. The scale on which it ``started`` takes small rates in units of where that was.
    """

    def excess(level: float, k: int, allowed: float) -> float:
        z = region.z.copy()
        z[k] = level
        return region.cost(z)[0] - allowed

    small = np.flatnonzero((region.model.positive & ~started.log).numpy()).tolist()
    top = {k: math.log(float(started.unit[k])) for k in small}
    top = {k: a if region.z[k] > a - _NEGLIGIBLE else a + REACH for k, a in top.items()}
    found = [k for k in small if top[k] > region.z[k] and excess(top[k], k, 1.0) > 0]
    share = 0.25 / max(len(found), 1)
    return {k: (top[k], brentq(excess, region.z[k], top[k], args=(k, share))) for k in found}


def ends_of_parameters(
    region: Region, small: dict[int, tuple[float, float]], x: Tensor
) -> list[Question]:
    """Ask for the ends of every parameter, of those at zero for the upper one.

    Nothing is asked where there are many parameters.
    The region need not be convex, and a search that starts at one of its corners finds ends that
    one from its middle misses.
    """

    def question(k: int) -> Question:
        low = 0.0 if bool(region.model.positive[k]) else -math.inf
        size = Measure(lambda point: point.theta[..., k : k + 1].expand(*point.x.shape[:-1]), low)
        value = float(region.likelihood.scale.natural(torch.from_numpy(region.z))[k])
        reach = small[k][0] - region.z[k] + REACH if k in small else REACH
        sides = (1,) if k in small else (0, 1)
        return Question(x, region.model.param_names[k], size, value, reach, sides)

    return [question(k) for k in range(len(region.z))] if 1 < len(region.z) <= _FEW else []
