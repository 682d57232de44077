r"""How far measures can move while the data stay almost as likely: profile ranges.

With ``z`` the free parameters, ``z*`` the best fit and ``g`` the level of a measure (`region`), the
ends of a profile range are

    min and max of g(z)   where   nll(z) - nll(z*) <= bound.

They are found by an augmented Lagrangian in coordinates ``u`` in which that region is about the
unit ball, from the farthest point seen so far. Every point that any search passes is looked at for
every measure, and all that counts in the end was seen inside the region: a range may be too narrow
where the search fails, never too wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import OptimizeResult, brentq, minimize
from torch import Tensor

from stationary._support.types import Array
from stationary.learning.inference import finite_hessian
from stationary.models.measures import Measure
from stationary.models.scales import Scale
from stationary.trust.identifiability.region import REACH, TIGHT, Region, Row

_LADDER = (REACH, 8.0, 3.0, 1.0)
"""Lengths, in e-folds, at which a straight line through the best fit is looked at."""

_IMPOSSIBLE = 1e15
"""Stands for a value that over- or underflows; a line search steps back from it."""

_ROUNDS = 3
"""How often a search may start again from a better point that another one found."""

_TINY = 7.0
"""E-folds below its start from which a rate counts as next to nothing."""

_FEW = 12
"""Parameters up to which the search is thorough: from corners of the region, and from half way."""


def explore(region: Region, centre: Array, lines: Sequence[Array]) -> None:
    """Widen the ends of every row of a region as far as they go.

    Parameters
    ----------
    region : Region
        What to explore; its ``ends`` are the result.
    centre : ndarray [P]
        A point of the region at which no parameter is so small that nothing hangs on it.
    lines : sequence of ndarray [P]
        Directions to walk along first, which the likelihood may leave open; the largest entry of
        each is 1.
    """
    region.visit(centre)
    curvature, basis = np.linalg.eigh(finite_hessian(region.likelihood, centre) / region.bound)
    length = np.sqrt(2 / np.maximum(curvature, 2 / REACH**2))  # of the region, along each axis
    unit_ball = basis * length
    sides = [(k, side) for k, row in enumerate(region.rows) for side in row.sides]
    slopes = [unit_ball.T @ region.level(centre, row)[1] for row in range(len(region.rows))]
    flat = basis[:, length >= REACH / 2]
    for line in [*lines, *(flat @ (flat.T @ unit_ball @ slope) for slope in slopes)]:
        largest = np.abs(line).max(initial=1e-300)
        for step in _LADDER:
            region.visit(region.z + step / largest * line)
            region.visit(region.z - step / largest * line)
    for slope in slopes:
        linear = unit_ball @ slope / (np.linalg.norm(slope) or 1.0)  # the delta method's ends
        for step in (0.25, 0.5, 1.0):
            region.visit(centre + step * linear)
            region.visit(centre - step * linear)
    searched: dict[tuple[int, int], float] = {}
    for turn in range(_ROUNDS):
        for row, side in sides:
            done = searched.get((row, side), -1.0)
            if region.moved(row, side) <= done + 1e-3 * (1 + done):  # a smaller gain is kept
                continue
            _walk(region, lines, row, side)
            best = region.points[row, side].copy()
            if not (region.is_open(row, side) or _is_end(region, unit_ball, row, side)):
                _search(region, centre, unit_ball, row, side, best)
            # Where a rate has run to zero nothing pulls it back: start half way, too.
            if turn == 0 and 1 < len(best) <= _FEW and not region.is_open(row, side):
                _search(region, centre, unit_ball, row, side, (best + centre) / 2)
            searched[row, side] = region.moved(row, side)


def _is_end(region: Region, unit_ball: Array, row: int, side: int) -> bool:
    """Whether the farthest point seen is at the edge, with nowhere to go along it."""
    at = region.points[row, side]
    cost, rise = region.cost(at)
    rise, slope = unit_ball.T @ rise, unit_ball.T @ region.level(at, row)[1]
    along = (-1.0, 1.0)[side] * (rise @ slope)
    straight = along >= (1 - 1e-9) * np.linalg.norm(rise) * np.linalg.norm(slope)
    return bool(abs(cost - 1) <= 10 * TIGHT and straight and along > 0)


def _walk(region: Region, lines: Sequence[Array], row: int, side: int) -> None:
    """Move one end outwards along one line after another, as far as each of them goes."""
    for line in lines:
        for step in (REACH, -REACH, REACH / 4, -REACH / 4):
            if region.is_open(row, side):
                return
            before = region.moved(row, side)
            region.visit(region.points[row, side] + step * line)
            if region.moved(row, side) > before:
                break


def _search(
    region: Region, centre: Array, unit_ball: Array, row: int, side: int, start: Array
) -> None:
    """Move one end outwards, by an augmented Lagrangian from some point."""
    sign = (-1.0, 1.0)[side]
    box = REACH / np.linalg.norm(unit_ball, axis=0)
    u = np.linalg.solve(unit_ball, start - centre)
    slopes = [unit_ball.T @ region.level(at, row)[1] for at in (centre, start)]
    norm = max(1e-3, *(float(np.linalg.norm(slope)) for slope in slopes))
    price, weight, before = 0.5, 10.0, math.inf  # the first is exact for a ball and a linear level

    def lagrangian(u: Array) -> tuple[float, Array]:
        z = centre + unit_ball @ u
        cost, rise = region.cost(z)
        level, slope = region.level(z, row) if cost < _IMPOSSIBLE else (math.nan, rise)
        if math.isnan(level):
            return _IMPOSSIBLE, np.zeros_like(u)
        excess = max(cost - 1 + price / weight, 0.0)
        value = -sign * level / norm + weight / 2 * excess**2
        return value, unit_ball.T @ (-sign * slope / norm + weight * excess * rise)

    def note(intermediate_result: OptimizeResult) -> None:
        region.visit(centre + unit_ball @ intermediate_result.x)
        if region.is_open(row, side):
            raise StopIteration

    bounds = [(min(a, -b), max(a, b)) for a, b in zip(u, box, strict=True)]
    steps = 100 if len(u) <= _FEW else 40
    options: dict[str, Any] = {"maxiter": steps, "gtol": 1e-7, "ftol": 1e-13, "maxcor": 20}
    how: dict[str, Any] = {"method": "L-BFGS-B", "bounds": bounds, "options": options}
    for _ in range(10):
        u = minimize(lagrangian, u, jac=True, callback=note, **how).x
        if region.is_open(row, side):
            return
        cost, _ = region.cost(centre + unit_ball @ u)
        gap = max(cost - 1, -price / weight)
        if abs(gap) <= TIGHT:
            break
        price = max(price + weight * gap, 0.0)
        if abs(gap) > before / 4:
            weight *= 4
        before = abs(gap)
    _reach_edge(region, region.points[row, side].copy(), centre + unit_ball @ u)


def _reach_edge(region: Region, inside: Array, outside: Array) -> None:
    """Visit the last point of the region on the way from a point inside to one that may not be."""
    if region.visit(outside):
        return

    def excess(share: float) -> float:
        return min(region.cost(inside + share * (outside - inside))[0] - 1, _IMPOSSIBLE)

    if excess(0.0) < 0:
        region.visit(inside + brentq(excess, 0.0, 1.0, rtol=1e-9) * (outside - inside))


def at_zero(region: Region, started: Scale) -> dict[int, tuple[float, float]]:
    """Find rates estimated at zero: a level that is too high, and one at which each is felt.

    On a log scale nothing hangs on a rate this small, which looks as if it were not known. But
    something is if, on the way back to where it started, the fit gets too bad; or beyond, for a
    rate that is next to nothing.

    Parameters
    ----------
    region : Region
        Around the best fit.
    started : Scale
        Of the fit's covariance: it takes small rates in units of where they started.
    """

    def excess(level: float, k: int, allowed: float) -> float:
        z = region.z.copy()
        z[k] = level
        return min(region.cost(z)[0], _IMPOSSIBLE) - allowed

    small = np.flatnonzero((region.model.positive & ~started.log).numpy()).tolist()
    top = {k: math.log(float(started.unit[k])) for k in small}
    top = {k: a if region.z[k] > a - _TINY else a + REACH for k, a in top.items()}
    found = [k for k in small if top[k] > region.z[k] and excess(top[k], k, 1.0) > 0]
    share = 0.25 / max(len(found), 1)
    return {k: (top[k], brentq(excess, region.z[k], top[k], args=(k, share))) for k in found}


def corners(region: Region, small: dict[int, tuple[float, float]], x: Tensor) -> list[Row]:
    """Ask for the ends of every parameter, of those at zero for the upper one; none if many.

    The region need not be convex, and a search that starts at one of its corners finds ends that
    one from its middle misses.
    """

    def row(k: int) -> Row:
        low = 0.0 if bool(region.model.positive[k]) else -math.inf
        size = Measure(lambda point: point.theta[..., k : k + 1].expand(*point.x.shape[:-1]), low)
        value = float(region.likelihood.scale.natural(torch.from_numpy(region.z))[k])
        reach = small[k][0] - region.z[k] + REACH if k in small else REACH
        return Row(
            x, region.model.param_names[k], size, value, reach, (1,) if k in small else (0, 1)
        )

    return [row(k) for k in range(len(region.z))] if 1 < len(region.z) <= _FEW else []
