"""How sure a fit is: the covariance of its estimates, and intervals for what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
from torch import Tensor

from stationary.errors import InputError
from stationary.measures import Measure
from stationary.objective import Objective
from stationary.scales import Scale

Array = np.ndarray[Any, Any]

UNDETERMINED = 1e3
"""Standard deviation, in e-folds, given to a direction the data does not determine."""

FLAT = 1e-4
"""Curvature, in nats for a factor of e, below which a direction counts as flat."""


@dataclass(frozen=True)
class Covariance:
    """Covariance of the free parameters.

    Attributes
    ----------
    matrix : ndarray [P, P]
        Covariance of the coordinates ``z`` of ``scale``.
    df : int
        Degrees of freedom of the t quantiles; 0 for a normal one.
    kind : str
        How it was got, for people.
    flat : ndarray [P, F]
        Unit directions of ``z`` that the data leaves open.
    scale : Scale
        What ``z`` is.
    supposes : str
        What it takes for granted beyond independent windows, for people.
    inflation : float
        How many times the variance that independent counts would have.
    """

    matrix: Array
    df: int
    kind: str
    flat: Array
    scale: Scale
    supposes: str = ""
    inflation: float = 1.0

    @property
    def stderr(self) -> Array:
        """Standard errors of ``z``: relative ones where it is a logarithm."""
        return np.sqrt(np.diag(self.matrix))

    def on(self, scale: Scale, theta: Tensor) -> Array:
        """Return the matrix on another scale, near ``theta``."""
        factor = (scale.slope(theta) / self.scale.slope(theta)).numpy()
        return self.matrix * factor[:, None] * factor

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of this level reaches each way."""
        check_level(level)
        tail = 0.5 + level / 2
        return float(scipy.stats.t.ppf(tail, self.df) if self.df else scipy.stats.norm.ppf(tail))


def check_level(level: float) -> None:
    """Raise unless this is the coverage of an interval."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, as in 0.95; got {level!r}")


def finite_hessian(objective: Objective, z: Array) -> Array:
    """Hessian in which second derivatives that overflow are zero: they say nothing."""
    return np.nan_to_num(objective.hessian(z), posinf=0.0, neginf=0.0)


def nats_above_minimum(objective: Objective, z: Array) -> float:
    """Newton's estimate of how far the objective lies above its minimum near ``z``.

    Infinite where the objective curves downwards, so that no minimum is near.
    """
    _, slope = objective.value_and_gradient(z)
    curvature, basis = np.linalg.eigh(finite_hessian(objective, z))
    if not (curvature > -FLAT).all():
        return float("inf")
    along = basis.T @ slope
    steep = curvature > FLAT
    return float((along[steep] ** 2 / curvature[steep]).sum() / 2)


class Link:
    """The scale on which an interval of a measure is built, so that it stays inside its range.

    Logit for a bounded measure, log for a positive one, the measure itself for one of either sign.

    Examples
    --------
    >>> link = Link(Measure(lambda point: point.pi[..., -1], 0.0, 1.0))
    >>> round(float(link.back(link.to(np.array(0.2)))), 12)
    0.2
    """

    def __init__(self, measure: Measure) -> None:
        self.low, self.width = measure.low, measure.high - measure.low
        self.bounded = bool(np.isfinite(self.width))
        self.free = not np.isfinite(self.low)

    def inside(self, value: Array) -> Array:
        """Nearest value that has a finite place on the scale."""
        tiny = np.finfo(float).tiny
        if self.bounded:
            return np.clip(value, self.low + tiny, self.low + self.width * (1 - 1e-16))
        return value if self.free else np.maximum(value, self.low + tiny)

    def to(self, value: Array) -> Array:
        """Value on the scale."""
        if self.free:
            return value
        if self.bounded:
            return np.asarray(scipy.special.logit((value - self.low) / self.width))
        return np.asarray(np.log(value - self.low))

    def back(self, scaled: Array) -> Array:
        """Value from the scale."""
        if self.free:
            return scaled
        if self.bounded:
            return np.asarray(self.low + self.width * scipy.special.expit(scaled))
        with np.errstate(over="ignore"):  # an interval may have no upper end
            return np.asarray(self.low + np.exp(scaled))

    def slope(self, value: Array) -> Array:
        """Derivative of the scale."""
        if self.free:
            return np.ones_like(value)
        if self.bounded:
            share = (value - self.low) / self.width
            return np.asarray(1 / (self.width * share * (1 - share)))
        return np.asarray(1 / (value - self.low))


def interval(
    value: Array, slope: Array, cov: Covariance, measure: Measure, level: float
) -> tuple[Array, Array, Array]:
    """Delta-method interval on a scale that keeps it inside the measure's range.

    Parameters
    ----------
    value : ndarray [G]
        The measure.
    slope : ndarray [G, P]
        Its derivative with respect to ``z``.
    cov : Covariance
        Of ``z``.
    measure : Measure
        Its range picks the scale, see `Link`.
    level : float
        Coverage, such as 0.95.

    Returns
    -------
    low, high, spread : ndarray [G]
        The interval, with the value inside, and its half-width: in e-folds (of the odds, for a
        bounded measure), or as a multiple of the value for a measure of either sign.
    """
    link = Link(measure)
    spread = np.sqrt(np.einsum("gp,pq,gq->g", slope, cov.matrix, slope))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        half = cov.quantile(level) * spread * link.slope(value)
        low, high = link.back(link.to(value) - half), link.back(link.to(value) + half)
        if link.free:
            half = half / np.abs(value)
    # A probability that underflows has no digits to put an interval around. It is as good as
    # known, unless the data leaves open what it is computed from.
    gone = np.isnan(low) | np.isnan(high)
    if cov.flat.size:
        half, high = np.where(gone, np.inf, half), np.where(gone, measure.high, high)
        low = np.where(gone, measure.low, low)
        gone[:] = False
    # The way to the scale and back rounds, so a narrow interval might miss its own centre.
    low, high = np.minimum(np.where(gone, value, low), value), np.where(gone, value, high)
    return low, np.maximum(high, value), np.where(gone, 0.0, half)
