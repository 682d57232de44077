r"""How far measures can move while the data stay almost as likely: profile ranges.

With ``z`` the free parameters, ``z*`` the best fit and ``g`` the level of a measure, which is its
value on a scale that keeps its range (log odds of a share, logarithm of a positive number), the
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
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import RateError, ReducibleError, SolverError
from stationary.learning.inference import Link, finite_hessian
from stationary.learning.likelihood import Likelihood
from stationary.models import Point
from stationary.models.measures import Measure
from stationary.models.scales import Scale

REACH = 20.0
"""E-folds that a parameter or a measure may go from its estimate; farther counts as open."""

MOST_EVALUATIONS = 6000
"""Evaluations of the likelihood that all searches together may take, on a small chain."""

_MOST_WORK = 5e7
"""Evaluations times the rates in all generators, for a large chain: some minutes."""

_TIGHT = 1e-6
"""How well the ends of a range keep to the bound, as a share of it."""

_STEPS = (REACH, 8.0, 3.0, 1.0)
"""Lengths, in e-folds, at which points of a straight line through the best fit are tried."""

_IMPOSSIBLE = 1e15
"""Stands for a value that over- or underflows; a line search steps back from it."""

_NEGLIGIBLE = 7.0
"""E-folds below its start from which a rate has hardly any effect."""

_FEW = 12
"""Parameters up to which the search is thorough: from corners of the region, and from half way."""

_CORNERS = 3
"""Corners of the region from which a search starts: those where the measure is farthest out."""

_MOST_STEPS = 200
"""Steps of one search."""

_SMALL = 1e-3
"""Gain of another search, in e-folds, that is too small to go on for."""

_ENDED = (0, 8)
"""Outcomes of SLSQP at an end: converged, or no step improves it beyond rounding."""


class _StopSearch(Exception):  # noqa: N818  # a signal, not an error
    """An end is open, or the work is used up."""


@dataclass(frozen=True)
class Question:
    """A measure at one input, of which the range is wanted.

    Attributes
    ----------
    x : Tensor [1, d]
        The input.
    name : str
        Name of the measure.
    measure : Measure
        What is asked for.
    value : float
        Its value at the estimates.
    reach : float
        E-folds from the estimate, and from even odds, at which an end counts as open.
    sides : tuple of int
        Ends to search for: 0 the lower, 1 the upper.
    """

    x: Tensor
    name: str
    measure: Measure
    value: float
    reach: float = REACH
    sides: tuple[int, ...] = (0, 1)

    @property
    def link(self) -> Link:
        """The scale that keeps the range of the measure."""
        return Link(self.measure)

    @property
    def unit(self) -> float:
        """What a step of one e-fold is for a measure of either sign, which has no logarithm."""
        return (abs(self.value) or 1.0) if self.link.free else 1.0

    def natural(self, level: float, start: float) -> float:
        """Value at a level; an end of the measure's own range where the level is open."""
        if self.is_open(level, start):
            return self.measure.low if level < start else self.measure.high
        return float(self.link.back(np.array(level * self.unit)))

    def is_open(self, level: float, start: float) -> bool:
        """Whether a level that started at another is so far out that a search may stop."""
        if self.link.free:
            return False
        even = 0.0 if self.link.bounded else start
        return level <= min(start, even) - self.reach or level >= max(start, even) + self.reach


class Frame(NamedTuple):
    """Coordinates in which the region is about the unit ball: ``z = centre + ball @ u``."""

    centre: Array
    ball: Array


class Region:
    """The parameters within some nats of the best fit, and the ends of every question in it.

    Parameters
    ----------
    likelihood : Likelihood
        Negative log-likelihood.
    z : ndarray [P]
        The best fit.
    bound : float
        Nats by which it may be exceeded.
    """

    def __init__(self, likelihood: Likelihood, z: Array, bound: float) -> None:
        self.likelihood, self.model, self.z, self.bound = likelihood, likelihood.model, z, bound
        self.lowest, _ = likelihood.value_and_gradient(z)
        rates = len(likelihood.x) * likelihood.model.edges.src.numel()
        self._last = likelihood.evaluations + min(MOST_EVALUATIONS, int(_MOST_WORK / rates))
        self._at, self._cost = z, (0.0, np.zeros_like(z))
        self.ask([])

    def ask(self, questions: Sequence[Question]) -> None:
        """Take these questions, with the best fit as all that is known about them."""
        self.questions = tuple(questions)
        self.start = self.levels(self.z)
        self.ends = np.stack([self.start, self.start], -1)  # [K, 2]: lowest and highest level
        self.points = np.tile(self.z, (len(questions), 2, 1))  # where they were seen
        self.searched = np.zeros((len(questions), 2), dtype=bool)

    @property
    def is_exhausted(self) -> bool:
        """Whether the searches took as many evaluations as they may."""
        return self.likelihood.evaluations >= self._last

    def cost(self, z: Array) -> tuple[float, Array]:
        """Nats above the best fit as a share of the bound, and its gradient."""
        if not np.array_equal(z, self._at):  # SLSQP asks for values and slopes apart
            self._at, self._cost = z.copy(), self._cost_at(z)
        return self._cost

    def _cost_at(self, z: Array) -> tuple[float, Array]:
        try:
            value, gradient = self.likelihood.value_and_gradient(z)
        except (RateError, ReducibleError, SolverError):
            return _IMPOSSIBLE, np.zeros_like(z)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return _IMPOSSIBLE, np.zeros_like(z)
        return min((value - self.lowest) / self.bound, _IMPOSSIBLE), gradient / self.bound

    def visit(self, z: Array) -> bool:
        """Note the level of every question at a point of the region; False if it is outside."""
        if self.is_exhausted or self.cost(z)[0] > 1 + _TIGHT:
            return False
        try:
            levels = self.levels(z)
        except (RateError, ReducibleError, SolverError):
            return False
        for side, better in enumerate((levels < self.ends[:, 0], levels > self.ends[:, 1])):
            self.ends[better, side] = levels[better]
            self.points[better, side] = z
        return True

    def moved(self, k: int, side: int) -> float:
        """How far an end is from the best fit."""
        return float(abs(self.ends[k, side] - self.start[k]))

    def range(self, k: int) -> tuple[float, float]:
        """Ends of a question as values of its measure."""
        low, high = (self.questions[k].natural(end, self.start[k]) for end in self.ends[k])
        return low, high

    def is_open(self, k: int, side: int) -> bool:
        """Whether an end is as far out as it matters."""
        return self.questions[k].is_open(self.ends[k, side], self.start[k])

    def level(self, z: Array, k: int) -> tuple[float, Array]:
        """Level of one question, and its gradient; NaN where the chain has no steady state."""
        asked = self.questions[k]
        free = torch.tensor(z, requires_grad=True)
        theta = self.likelihood.scale.natural(free)
        try:
            point = Point(self.model, asked.x, theta, self.likelihood.solver)
            level = asked.link.level(asked.measure(point))[0] / asked.unit
        except (RateError, ReducibleError, SolverError):
            return math.nan, np.zeros_like(z)
        (gradient,) = torch.autograd.grad(level, free)
        return float(level.detach()), np.nan_to_num(gradient.numpy(), posinf=0.0, neginf=0.0)

    @torch.no_grad()
    def levels(self, z: Array) -> Array:
        """Levels of all questions at a point, ``[K]``."""
        if not self.questions:
            return np.empty(0)
        theta = self.likelihood.scale.natural(torch.from_numpy(z))
        x = torch.cat([asked.x for asked in self.questions])
        pi = Point(self.model, x, theta, self.likelihood.solver).pi  # of all questions at once
        levels = [
            asked.link.level(asked.measure(Point(self.model, asked.x, theta).with_pi(pi[[k]])))[0]
            / asked.unit
            for k, asked in enumerate(self.questions)
        ]
        return torch.stack(levels).numpy()


def explore(region: Region, centre: Array, lines: Sequence[Array]) -> None:
    """Widen the ends of every question as far as they go.

    Parameters
    ----------
    region : Region
        What to explore; its ``ends`` are the result.
    centre : ndarray [P]
        A point of the region at which no parameter is so small that nothing depends on it.
    lines : sequence of ndarray [P]
        Directions to walk along first, which the likelihood may leave open; the largest entry of
        each is 1.
    """
    region.visit(centre)
    curvature, basis = np.linalg.eigh(finite_hessian(region.likelihood, centre) / region.bound)
    length = np.sqrt(2 / np.maximum(curvature, 2 / REACH**2))  # of the region, along each axis
    ball = basis * length
    slopes = [ball.T @ region.level(centre, k)[1] for k in range(len(region.questions))]
    flat = basis[:, length >= REACH / 2]
    for line in [*lines, *(flat @ (flat.T @ ball @ slope) for slope in slopes)]:
        largest = np.abs(line).max(initial=1e-300)
        for step in _STEPS:
            region.visit(region.z + step / largest * line)
            region.visit(region.z - step / largest * line)
    for slope in slopes:
        linear = ball @ slope / (np.linalg.norm(slope) or 1.0)  # the delta method's ends
        for step in (0.25, 0.5, 1.0):
            region.visit(centre + step * linear)
            region.visit(centre - step * linear)
    frame = Frame(centre, ball)
    sides = [(k, side) for k, asked in enumerate(region.questions) for side in asked.sides]
    before = np.full(region.ends.shape, -1.0)
    for first in (True, False):  # once more, from better points that later searches found
        for k, side in sides:
            gain = region.moved(k, side) - before[k, side]
            if region.searched[k, side] and gain <= _SMALL * (1 + before[k, side]):
                continue
            before[k, side] = region.moved(k, side)
            _walk(region, lines, k, side)
            for start in _starts(region, centre, k, side) if first else [None]:
                _search(region, frame, k, side, start)
            gain = region.moved(k, side) - before[k, side]
            settled = not region.is_exhausted and gain <= _SMALL * (1 + before[k, side])
            region.searched[k, side] |= settled and not first
            before[k, side] = region.moved(k, side)


def _starts(region: Region, centre: Array, k: int, side: int) -> list[Array | None]:
    """Where to start a search: the farthest point seen; with few parameters, others as well."""
    if not 1 < len(centre) <= _FEW:
        return [None]
    # Where a rate has run to zero nothing pulls it back: start half way, too.
    halfway = (region.points[k, side] + centre) / 2
    # The region need not be convex: its corners lead to ends that its middle does not.
    corners = np.unique(region.points[: len(centre)].reshape(-1, len(centre)), axis=0)
    levels = np.array([region.levels(corner)[k] for corner in corners])
    order = np.argsort(levels if side == 0 else -levels)
    return [None, halfway, *corners[order[:_CORNERS]]]


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


def _search(region: Region, frame: Frame, k: int, side: int, start: Array | None) -> None:
    """Move one end outwards by SLSQP, from a point or else from the farthest one seen."""
    sign, centre, ball = (1.0, -1.0)[side], frame.centre, frame.ball
    start = region.points[k, side].copy() if start is None else start
    slopes = [ball.T @ region.level(at, k)[1] for at in (centre, start)]
    norm = max(1e-3, *(float(np.linalg.norm(slope)) for slope in slopes))

    def objective(u: Array) -> tuple[float, Array]:
        if region.is_open(k, side) or region.is_exhausted:
            raise _StopSearch
        level, slope = region.level(centre + ball @ u, k)
        if math.isnan(level):
            return _IMPOSSIBLE, np.zeros_like(u)
        return sign * level / norm, sign * (ball.T @ slope) / norm

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
            bounds=[(min(a, -b), max(a, b)) for a, b in zip(u, limit, strict=True)],
            constraints=[inside],
            callback=lambda u: region.visit(centre + ball @ u),
            options={"maxiter": _MOST_STEPS, "ftol": 1e-8},
        )
    except _StopSearch:
        region.searched[k, side] = region.is_open(k, side)
        return
    _reach_edge(region, region.points[k, side].copy(), centre + ball @ found.x)
    region.searched[k, side] |= found.status in _ENDED


def _reach_edge(region: Region, inside: Array, outside: Array) -> None:
    """Visit the last point of the region on the way from a point inside to one that may not be."""
    if region.visit(outside):
        return

    def excess(share: float) -> float:
        return region.cost(inside + share * (outside - inside))[0] - 1

    if excess(0.0) < 0:
        region.visit(inside + brentq(excess, 0.0, 1.0, rtol=1e-9) * (outside - inside))


def rates_at_zero(region: Region, started: Scale) -> dict[int, tuple[float, float]]:
    """Find rates estimated at zero: a level that is too high, and one at which each has an effect.

    On a log scale nothing depends on a rate this small, as if it were not known. But it is bounded
    if, on the way back to where it started, the fit gets too bad; or beyond, for a rate that is
    next to nothing.

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
    """Ask for the ends of every parameter, of those at zero for the upper one; none if many.

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
