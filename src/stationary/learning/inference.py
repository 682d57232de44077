"""How sure a fit is: the covariance of its estimates, and intervals for what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.special
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.learning.likelihood import Likelihood
from stationary.learning.solvable import UNSOLVABLE
from stationary.models.measures import Measure
from stationary.models.scales import Scale
from stationary.terms.slo import check_level

UNDETERMINED = 1e3
"""Standard deviation, in e-folds, given to a direction the data does not determine."""

OPEN = math.log(10)
"""Half-width, in e-folds, from which a forecast counts as open: a factor of ten each way."""

KNOWN = 0.1
"""Half-width, relative to the value, up to which it counts as known on any scale.

The odds of a utilisation of 0.9999 may be open by a factor of ten; the utilisation is not.
"""

_TINY = float(np.finfo(float).tiny)

_TOUCHED = 1e-3
"""Squared share in the flat directions from which a parameter counts as undetermined."""

FLAT = 1e-4
"""Curvature, in nats for a factor of e, below which a direction counts as flat."""

NEAR = 0.05
"""Nats above the optimum up to which an estimate counts as converged.

There its estimates are within a third of a standard error of the maximum-likelihood ones.
"""

_NOISE = 1e-10
"""Share of the largest curvature that may be rounding in the others."""


@dataclass(frozen=True)
class Covariance:
    """Covariance of the free parameters.

    Attributes
    ----------
    matrix : ndarray [P, P]
        Covariance of the coordinates ``z`` of ``scale``; ``[[nan]]`` where there is none.
    df : int
        Degrees of freedom of the t quantiles; 0 for a normal one.
    kind : str
        How it was got: ``sandwich``, ``correlated``, ``dispersed``, ``information``, or the name of
        a way of one's own.
    flat : ndarray [P, F]
        Unit directions of ``z`` that the data leaves open.
    scale : Scale
        What ``z`` is.
    inflation : float
        How many times the variance that independent counts would have.
    block : int
        Successive windows that were taken as one.
    linear : bool
        Whether the likelihood is closer to a parabola in the parameters themselves than in the
        coordinates, so that draws move the former: the data may know sums of rates of which each
        alone is hardly known.
    """

    matrix: Array
    df: int
    kind: str
    flat: Array
    scale: Scale
    inflation: float = 1.0
    block: int = 1
    linear: bool = False

    @classmethod
    def none(cls, scale: Scale) -> Covariance:
        """Return what stands for a covariance where there is none."""
        return cls(np.full((1, 1), np.nan), 0, "none", np.empty((len(scale.log), 0)), scale)

    @property
    def stderr(self) -> Array:
        """Standard errors of ``z``: relative ones where it is a logarithm."""
        return np.sqrt(np.diag(self.matrix))

    @property
    def determined(self) -> Array:
        """Which parameters, ``[P]``, have a standard error and no part in a flat direction."""
        return np.isfinite(self.stderr) & ((self.flat**2).sum(1) < _TOUCHED)

    @property
    def computed(self) -> bool:
        """Whether all standard errors are numbers."""
        return bool(np.isfinite(self.stderr).all())

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of this level reaches each way."""
        check_level(level)
        tail = 0.5 + level / 2
        return float(scipy.special.stdtrit(self.df, tail) if self.df else scipy.special.ndtri(tail))


def finite_hessian(likelihood: Likelihood, z: Array) -> Array:
    """Hessian in which second derivatives that overflow are zero: they say nothing."""
    return np.nan_to_num(likelihood.hessian(z), posinf=0.0, neginf=0.0)


def nats_above_minimum(likelihood: Likelihood, z: Array, slope: Array) -> float:
    """Newton's estimate of how far the likelihood lies above its minimum, from its slope at ``z``.

    Half the Newton decrement. Infinite where the likelihood curves downwards or cannot be
    differentiated twice, so that no minimum is known to be near.
    """
    # So small a slope is near the minimum however flat the likelihood is, without its curvature.
    most = float(slope @ slope) / (2 * FLAT)
    if most <= NEAR:
        return most
    if likelihood.model.weights:
        return math.nan  # many optima, and none that Newton's step would lead to
    try:
        curvature, basis = np.linalg.eigh(finite_hessian(likelihood, z))
    except UNSOLVABLE:
        return math.inf
    if not (curvature > -max(FLAT, _NOISE * curvature[-1])).all():
        return math.inf
    # A slope along a flat direction, as of a fit that diverged, is far from any minimum.
    return float(((basis.T @ slope) ** 2 / np.maximum(curvature, FLAT)).sum() / 2)


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

    def to(self, value: Array) -> Array:
        """Value on the scale."""
        return self.level(torch.from_numpy(np.asarray(value))).numpy()

    def level(self, value: Tensor) -> Tensor:
        """Value on the scale, differentiable; nearly at an end of the range, where it is beyond."""
        if self.free:
            return value
        share = ((value - self.low) / (self.width if self.bounded else 1.0)).clamp_min(_TINY)
        if not self.bounded:
            return share.log()
        share = share.clamp_max(1 - 1e-16)
        return share.log() - (-share).log1p()

    def back(self, scaled: Array) -> Array:
        """Value from the scale."""
        if self.free:
            return scaled
        if self.bounded:
            return np.asarray(self.low + self.width * scipy.special.expit(scaled))
        with np.errstate(over="ignore"):  # an interval may have no upper end
            return np.asarray(self.low + np.exp(scaled))
