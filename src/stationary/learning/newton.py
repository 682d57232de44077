"""Maximum likelihood by second-order steps on all windows at once, from several starts.

The weights of a network are fitted by L-BFGS, until steps gain nothing. Hessians would be wasted on
them: many weights give the same rates, and the likelihood keeps rising towards infinite weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import OptimizeResult, brentq, minimize

from stationary._support.parallel import as_ready
from stationary._support.seeds import as_random
from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.checkpoints import VisitedPoints, fingerprint
from stationary.learning.estimate import (
    End,
    Ended,
    FitResult,
    Method,
    check_resume,
    check_whole,
    largest_slope,
)
from stationary.learning.inference import NEAR, finite_hessian, nats_above_minimum
from stationary.learning.likelihood import Likelihood
from stationary.learning.solvable import UNSOLVABLE
from stationary.models.chunks import is_large

Progress = Callable[[int, int, float], None]
"""Called as ``progress(start, evaluations, nll)``."""

_Point = tuple[int, Array]
_Found = tuple[OptimizeResult | None, int]
"""A start with its number; the minimum from there, and the evaluations that it took."""

Derivatives = tuple[float, Array, Array | None]
"""Value, gradient and, where it costs little beside them, Hessian."""

_MANY = 40
"""Parameters up to which whole Hessians pay; beyond, quasi-Newton steps get near the minimum, and
conjugate gradients on products with the Hessian reach it. They also end where it is flat."""

_COARSE = 1e-6
"""Gradient at which quasi-Newton steps hand over, where there are many parameters.

Line searches compare values, of which float64 holds 16 digits: they stall above `_TOLERANCE`.
"""

_TOLERANCE = 1e-8
"""Largest gradient, in nats per count for a factor of e, at which steps end."""

_GAIN = 1e-3
"""Nats that a step must gain, where the parameters are weights of a network."""

_TINY = float(np.finfo(float).tiny)
_ROUNDING = 1e-13
"""Share of the value that its rounding may hide."""

_FLOOR = 1e-14
"""Gradient per count that is rounding."""

_SHORTEST = 1e-9
"""Length of a step, in e-folds, at which rounding decides whether it improves anything."""

_LONGEST = 4.0
"""Length of the longest step, in e-folds."""

_PARALLEL = 1e-8
"""Cosine below which a step says nothing of what a Hessian lacks."""

_REACH = 20.0
"""How many e-folds from its start a parameter may go before it counts as running away."""


@dataclass(frozen=True)
class Newton(Method):
    """Second-order steps on all windows at once, from several starts.

    Parameters
    ----------
    starts : int, optional
        Starting points: the model's own and others scattered around it. Three by default, and one
        where a chain is large or the parameters are weights of a network. Once more than half of
        them ended in the same minimum, and none in a better one, the rest is left out.
    max_iterations : int
        For each start.
    cluster : str, optional
        Address of a Dask scheduler that has the starts run side by side. On this machine they run
        one after the other: a large chain uses its cores anyway.
    folder : Path, optional
        Where the fit of a large chain keeps the points it visited.
    resume : bool
        Go on with what was left in the folder, if there is something.
    progress : callable, optional
        See `Progress`.
    """

    starts: int | None = None
    max_iterations: int = 1000
    cluster: str | None = None
    folder: Path | None = None
    resume: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_whole(self.starts, "starts", optional=True)
        check_whole(self.max_iterations, "max_iterations")
        check_resume(self.resume, self.folder)

    def run(self, likelihood: Likelihood, windows: Windows, seed: int) -> FitResult:
        """Return the best minimum of all starts."""
        model = likelihood.model
        large = is_large(model.edges)
        if large and self.folder is not None:
            owner = fingerprint(model, windows) | {"start": likelihood.start.tolist()}
            likelihood.visits = VisitedPoints(self.folder, owner, self.resume)
        starts = self.starts if self.starts is not None else 1 if large or model.weights else 3
        best = self._best(likelihood, starts, seed)
        likelihood.visits.finish()
        return as_result(likelihood, best, starts)

    def _best(self, likelihood: Likelihood, starts: int, seed: int) -> OptimizeResult:
        first = likelihood.model.free(likelihood.start).numpy()
        random = as_random(seed)
        # Apart in shape, and rates further apart in level: many rates have optima at many levels.
        level = 2 * random.normal(size=(starts, 1)) * likelihood.model.positive.numpy()
        spread = random.normal(size=(starts, len(first))) + level
        spread[0] = 0.0
        points = list(enumerate(first + spread))
        on_cluster = self.cluster is not None and starts > 1
        told = None if on_cluster else self.progress
        descend = partial(_descend, likelihood, self.max_iterations, told)
        total = likelihood.total
        found = self._on_cluster(descend, points, total) if on_cluster else map(descend, points)
        tried: list[OptimizeResult | None] = []
        for result, evaluations in found:
            tried.append(result)
            likelihood.evaluations += evaluations
            # On a cluster, too, starts beyond those that agree are left out.
            if _most_agree(tried, starts):
                break
        results = [result for result in tried if result is not None]
        if not results:
            loads = likelihood.x[:, 0]
            raise InputError(
                f"the likelihood is not finite at any start: float64 cannot hold how unlikely the "
                f"observed states are there; check the units of the loads "
                f"({loads.min().item():g} to {loads.max().item():g}), take a smaller model, or try "
                f"more starts"
            )
        best = min(results, key=lambda result: result.fun)
        as_good = [r for r in results if r.ended.converged and r.fun <= best.fun + 1e-9]
        return as_good[0] if as_good else best

    def _on_cluster(
        self, descend: Callable[[_Point], _Found], points: list[_Point], total: float
    ) -> list[_Found]:
        done: dict[int, _Found] = {}
        with closing(as_ready(descend, points, cluster=self.cluster)) as ready:
            for place, found in ready:
                done[place] = found
                ends = [result.fun for result, _ in done.values() if result is not None]
                if self.progress is not None:
                    least = min(ends, default=np.inf) * total
                    self.progress(len(done), sum(spent for _, spent in done.values()), least)
        return [done[k] for k, _ in points]


def as_result(likelihood: Likelihood, best: OptimizeResult, starts: int = 1) -> FitResult:
    """Return what was found in parameters and in nats."""
    theta = likelihood.model.natural(torch.tensor(best.x))
    nll, slope = best.fun * likelihood.total, largest_slope(best.jac, 1.0)
    return FitResult(theta, nll, slope, best.ended, likelihood.evaluations, starts)


def _most_agree(tried: list[OptimizeResult | None], starts: int) -> bool:
    """Whether more than half of the starts ended in the best minimum."""
    ends = [result.fun for result in tried if result is not None and result.ended.converged]
    return sum(end <= min(ends) + 1e-9 for end in ends) > starts / 2


def _descend(
    likelihood: Likelihood, max_iterations: int, progress: Progress | None, point: _Point
) -> _Found:
    own = copy.copy(likelihood)  # whose evaluations no other thread counts
    start, z0 = point
    result = minimise(own, z0, max_iterations, progress, start)
    return result, own.evaluations - likelihood.evaluations


def minimise(
    likelihood: Likelihood,
    z0: Array,
    max_iterations: int = 1000,
    progress: Progress | None = None,
    start: int = 0,
) -> OptimizeResult | None:
    """Minimise the likelihood per count by Newton steps of bounded length from ``z0``.

    None if it cannot start there; the first ``start`` raises what is wrong instead.
    """
    try:
        value, gradient = likelihood.value_and_gradient(z0)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        result = _steps(likelihood, z0, max_iterations, progress, start)
    except UNSOLVABLE:
        if start == 0:
            raise  # bad input, and not a start scattered too far
        return None
    return _judge(likelihood, result, z0)


def _steps(
    likelihood: Likelihood,
    z0: Array,
    max_iterations: int,
    progress: Progress | None,
    start: int,
) -> OptimizeResult:
    """Return where the steps from ``z0`` end."""
    total, weights = likelihood.total, likelihood.model.weights

    def at(z: Array) -> Derivatives:
        # What over- or underflows is too long a step, and a value of infinity refuses it.
        refused = np.inf, np.zeros_like(z), None
        try:
            known = (*likelihood.value_and_gradient(z), None) if weights else likelihood.at(z)
        except UNSOLVABLE:
            return refused
        value, gradient, hessian = known
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return refused
        if progress is not None:
            progress(start, likelihood.evaluations, value)
        return value / total, gradient / total, None if hessian is None else hessian / total

    def value_and_gradient(z: Array) -> tuple[float, Array]:
        return at(z)[:2]

    def descended(bounds: list[tuple[float, float]] | None, **options: float) -> OptimizeResult:
        options |= {"maxiter": max_iterations, "maxcor": 30}
        return minimize(
            value_and_gradient, z0, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )

    if weights:
        return descended(None, ftol=_GAIN / total, gtol=0.0)
    exactly = likelihood.by_formula(z0) is not None  # then a step costs nothing
    if len(z0) > _MANY and not exactly:
        near = descended([(a - _REACH, a + _REACH) for a in z0], ftol=1e-15, gtol=_COARSE)
        options = {"gtol": _TOLERANCE / 10, "maxiter": max_iterations, "max_trust_radius": _LONGEST}
        return minimize(
            value_and_gradient,
            near.x,
            jac=True,
            hessp=_products(likelihood),
            method="trust-ncg",
            options=options,
        )
    enough = _FLOOR if exactly else _TOLERANCE / 10
    return _newton(at, lambda z: finite_hessian(likelihood, z) / total, z0, max_iterations, enough)


def _newton(
    at: Callable[[Array], Derivatives],
    hessian_at: Callable[[Array], Array],
    z0: Array,
    max_iterations: int,
    enough: float,
) -> OptimizeResult:
    """Newton steps of bounded length, until no slope is larger than ``enough``.

    One decomposition per step serves every length. Where ``at`` gives no Hessian, the last exact
    one is kept up by the slopes that steps find (the symmetric update of rank one), and is computed
    again where it foretold a step badly: it costs several times as much as a slope.
    """
    z, (value, gradient, hessian) = z0, at(z0)
    exact = True
    hessian = hessian_at(z) if hessian is None else hessian
    radius = 0.5 * np.sqrt(len(z))
    for _ in range(max_iterations):
        if radius < _SHORTEST or np.abs(gradient).max() < enough:
            break
        curvature, axes = np.linalg.eigh(hessian)
        step, gain = _bounded_step(curvature, axes.T @ gradient, radius)
        step = axes @ step
        there = at(z + step)
        rise, length = (value - there[0]) / max(gain, _TINY), float(np.linalg.norm(step))
        hidden = gain < _ROUNDING * abs(value)
        if hidden and np.isfinite(there[0]):  # then the slope decides which is nearer
            rise = float(np.abs(there[1]).max() < np.abs(gradient).max() / 2)
        if rise >= 0.25 or exact:
            radius = _next_radius(radius, length, rise, hidden)
        good, change = rise >= 0.25, there[1] - gradient
        if rise > 0:
            z, (value, gradient) = z + step, there[:2]
        if there[2] is not None:
            hessian = there[2] if rise > 0 else hessian
        elif good:
            hessian, exact = _updated(hessian, step, change), False
        elif not exact or rise > 0:
            hessian, exact = hessian_at(z), True
    return OptimizeResult(x=z, fun=value, jac=gradient)


def _next_radius(radius: float, length: float, rise: float, hidden: bool) -> float:
    """How long the next step may be, by the share of the foretold gain that this one had."""
    if hidden:
        return radius if rise else 0.0
    if rise < 0.25:
        return min(radius, length) / 4
    return min(2 * radius, _LONGEST) if rise > 0.75 and length > 0.9 * radius else radius


def _updated(hessian: Array, step: Array, change: Array) -> Array:
    """The nearest Hessian, by a matrix of rank one, under which a step changes the slope so."""
    off = change - hessian @ step
    along = float(off @ step)
    if abs(along) <= _PARALLEL * np.linalg.norm(off) * np.linalg.norm(step):
        return hessian
    return hessian + np.outer(off, off) / along


def _bounded_step(curvature: Array, slope: Array, radius: float) -> tuple[Array, float]:
    """The best step within a radius on a quadratic, in the basis of its axes, and what it gains."""

    def step(shift: float) -> Array:
        return -slope / np.maximum(curvature + shift, _TINY)

    least = max(0.0, -curvature[0]) * (1 + 1e-9)
    # A little more, so that rounding leaves no step that is too long.
    most = least + np.linalg.norm(slope) / radius * (1 + 1e-9) + 1e-12
    with np.errstate(over="ignore"):  # a step of infinite length is too long, as others are
        best = step(least)
        if not np.linalg.norm(best) <= radius:

            def off(shift: float) -> float:
                return float(1 / radius - 1 / np.linalg.norm(step(shift)))

            best = step(brentq(off, least, most, xtol=_TINY, rtol=0.03))
    return best, float(-(slope @ best) - (curvature * best) @ best / 2)


def _judge(likelihood: Likelihood, result: OptimizeResult, z0: Array) -> OptimizeResult:
    """Decide whether a minimum was reached at a point that is not running away.

    By the likelihood that is left to gain, not by the gradient: how small that can get depends on
    the number of counts and on rounding.

    A rate that goes to zero is no run-away: its edge is simply not used.
    """
    if likelihood.model.weights:
        why = End.SETTLED if result.success else End.STALLED
        result.ended = Ended(why, bool(result.success))
        return result
    above = nats_above_minimum(likelihood, result.x, result.jac * likelihood.total)
    step, positive = result.x - z0, likelihood.model.positive.numpy()
    far = np.where(positive, step, np.abs(step)) > 0.95 * _REACH
    if far.any():
        theta = likelihood.model.natural(torch.tensor(result.x))
        first = int(far.argmax())
        name = likelihood.model.param_names[first]
        result.ended = Ended(End.RAN_AWAY, False, name, float(theta[first]), above=above)
    else:
        near = above <= NEAR
        result.ended = Ended(End.CONVERGED if near else End.STALLED, near, above=above)
    return result


def _products(likelihood: Likelihood) -> Callable[[Array, Array], Array]:
    """Hessian products per count, from one graph for all those at the same point.

    Entries that overflow are zero, as in a whole Hessian: they say nothing.
    """
    at: Array = np.empty(0)
    product: Callable[[Array], Array]

    def multiply(z: Array, vector: Array) -> Array:
        nonlocal at, product
        if not np.array_equal(at, z):
            at, product = z.copy(), likelihood.curvature(z)
        return np.nan_to_num(product(vector) / likelihood.total, posinf=0.0, neginf=0.0)

    return multiply
