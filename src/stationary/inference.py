r"""How sure a fit is: covariance of the estimates, and intervals for what is computed from them.

On the free scale ``z`` of `Model.natural`, with ``H`` the Hessian of the objective at its minimum
and ``s_m`` the gradient of window m's part of it, less their mean, the covariance is the sandwich

    H^-1 ( M / (M - P) sum_m s_m s_m^T ) H^-1.

Windows are taken as independent; counts inside one window need not be: successive requests see
nearly the same queue, so a window of a thousand is worth far fewer, and the plain inverse of ``H``
would be too sure of itself. Directions along which the likelihood is flat get a standard deviation
of `UNDETERMINED`: there the scores vanish too, and a sandwich would call them known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import torch
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.measures import Measure
from stationary.objective import Objective
from stationary.scales import Scale

Array = np.ndarray[Any, Any]

UNDETERMINED = 1e3
"""Standard deviation, in e-folds, given to a direction the data does not determine."""

_FLAT = 1e-4
"""Curvature, in nats for a factor of e, below which a direction counts as flat."""

_FEWEST_SPARE = 8
"""Windows beyond the number of parameters from which a sandwich is worth more than its noise."""


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
    """

    matrix: Array
    df: int
    kind: str
    flat: Array
    scale: Scale

    @property
    def stderr(self) -> Array:
        """Standard errors of ``z``: relative ones where it is a logarithm."""
        return np.sqrt(np.diag(self.matrix))

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of this level reaches each way."""
        check_level(level)
        tail = 0.5 + level / 2
        return float(scipy.stats.t.ppf(tail, self.df) if self.df else scipy.stats.norm.ppf(tail))


def check_level(level: float) -> None:
    """Raise unless this is the coverage of an interval."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, as in 0.95; got {level!r}")


def covariance(objective: Objective, windows: Windows, theta: Tensor) -> Covariance:
    """Sandwich covariance over windows, or the inverse Hessian where windows are too few.

    A positive parameter estimated at zero has no logarithm to be uncertain about: it is taken on a
    linear scale, in units of where its fit started, as if it could go either way.
    """
    scale = objective.scale
    hessian = finite_hessian(objective, scale.free(theta).numpy())
    unit = objective.model.start(objective.x)
    at_zero = scale.log & (theta < unit) & torch.from_numpy(np.diag(hessian) < _FLAT)
    if bool(at_zero.any()):
        scale = Scale(scale.log & ~at_zero, torch.where(at_zero, unit, scale.unit))
        objective = objective.on(scale)
        hessian = finite_hessian(objective, scale.free(theta).numpy())
    z = scale.free(theta).numpy()
    curvature, basis = np.linalg.eigh(hessian)
    flat = curvature < _FLAT
    basis_flat, basis = basis[:, flat], basis[:, ~flat]
    curvature = curvature[~flat]
    spare = len(windows) - len(curvature)
    if spare >= _FEWEST_SPARE:
        scores = _scores(objective, windows, z) @ basis / curvature
        scores -= scores.mean(0)
        inner = scores.T @ scores * (len(windows) / spare)
        kind, df = f"sandwich over {len(windows)} windows", spare
    else:
        inner = np.diag(1 / curvature)
        kind, df = f"observed information ({len(windows)} windows are too few for a sandwich)", 0
    matrix = basis @ inner @ basis.T + UNDETERMINED**2 * basis_flat @ basis_flat.T
    return Covariance(matrix, df, kind, basis_flat, scale)


def finite_hessian(objective: Objective, z: Array) -> Array:
    """Hessian in which second derivatives that overflow are zero: they say nothing."""
    return np.nan_to_num(objective.hessian(z), posinf=0.0, neginf=0.0)


def nats_above_minimum(objective: Objective, z: Array) -> float:
    """Newton's estimate of how far the objective lies above its minimum near ``z``.

    Infinite where the objective curves downwards, so that no minimum is near.
    """
    _, slope = objective.value_and_gradient(z)
    curvature, basis = np.linalg.eigh(finite_hessian(objective, z))
    if not (curvature > -_FLAT).all():
        return float("inf")
    along = basis.T @ slope
    steep = curvature > _FLAT
    return float((along[steep] ** 2 / curvature[steep]).sum() / 2)


def _scores(objective: Objective, windows: Windows, z: Array) -> Array:
    """Gradient of every window's negative log-likelihood, ``[M, P]``."""
    jacobian_at = jacobian(objective.log_probabilities, z)  # [U, C, P]
    _, group = np.unique(windows.x.numpy(), axis=0, return_inverse=True)
    result: Array = -np.einsum("mc,mcp->mp", windows.counts.numpy(), jacobian_at[group.ravel()])
    return result


def jacobian(function: Callable[[Tensor], Tensor], z: Array) -> Array:
    """Jacobian ``[..., P]`` of a function of ``z``, by rows or by columns, whichever are fewer.

    The vector-Jacobian product is linear in its vector, so its own derivative holds one column:
    P passes, whatever the number of outputs.
    """
    free = torch.tensor(z, requires_grad=True)
    out = function(free)
    if out.numel() < len(z):
        rows = [torch.autograd.grad(o, free, retain_graph=True)[0] for o in out.flatten()]
        return torch.stack(rows).reshape(*out.shape, len(z)).numpy()
    dummy = torch.zeros_like(out, requires_grad=True)
    (product,) = torch.autograd.grad(out, free, dummy, create_graph=True)
    columns = [torch.autograd.grad(p, dummy, retain_graph=True)[0] for p in product]
    return torch.stack(columns, -1).numpy()


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
        Its range picks the scale: logit for a bounded one, log for a positive number.
    level : float
        Coverage, such as 0.95.

    Returns
    -------
    low, high, spread : ndarray [G]
        The interval, with the value inside, and its half-width: in e-folds (of the odds, for a
        bounded measure), or as a multiple of the value for a measure of either sign.
    """
    spread = np.sqrt(np.einsum("gp,pq,gq->g", slope, cov.matrix, slope))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if np.isfinite(measure.low) and np.isfinite(measure.high):
            width = measure.high - measure.low
            share = (value - measure.low) / width
            half = cov.quantile(level) * spread / (width * share * (1 - share))
            centre = scipy.special.logit(share)
            low = measure.low + width * scipy.special.expit(centre - half)
            high = measure.low + width * scipy.special.expit(centre + half)
        elif np.isfinite(measure.low):
            above = value - measure.low
            half = cov.quantile(level) * spread / above
            low = measure.low + above * np.exp(-half)
            high = measure.low + above * np.exp(half)
        else:
            half = cov.quantile(level) * spread
            low, high = value - half, value + half
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
