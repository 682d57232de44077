r"""Check that the windows imply the same service rate at every load.

One Newton step along a direction ``d`` of the free parameters, from window w alone, leads to

    delta_w = ( sum_c (y_wc - n_w p_wc) a_wc ) / I_w,   I_w = n_w ( sum_c p_wc a_wc^2 - mean^2 ),

with ``a_wc`` the slope of ``log p_wc`` along ``d``: what this window would change in the estimate.
A regression on the logarithm of the load, weighted by ``I_w`` and with the HC3 variance (MacKinnon
and White, 1985), tells whether that depends on the load.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import stdtr
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.learning.derivatives import by_input
from stationary.learning.estimate import Estimate
from stationary.models import Point
from stationary.models.queues import ServerQueue
from stationary.terms.findings import Finding, Untrusted
from stationary.trust.checks._case import LEVEL, Case, passed, unknown, warning

_LARGE = 0.05  # relative change for twice the load from which it matters


def check(case: Case) -> Finding:
    """Test whether the service rate that the windows imply changes with load."""
    loads, estimate = case.residuals.loads, case.estimate
    if not (loads > 0).all():
        return unknown("load_not_positive")
    log_load = np.log(loads)
    if np.ptp(log_load) < 1e-9:
        return unknown("one_load")
    if not estimate.covariance.computed:
        return unknown("little_information")
    along, which = _direction(estimate)
    step, information = implied_steps(case, along)
    if not information.sum() > 0 or int((information > 0).sum()) < 4:
        return unknown("little_information")
    slope, p_value = _weighted_slope(log_load, step, information)
    move = slope * math.log(2) * float(along[which])
    scale, name = estimate.covariance.scale, estimate.model.param_names[which]
    relative = bool(scale.log[which])
    change = math.expm1(min(move, 50.0)) if relative else move
    if p_value >= LEVEL or abs(change) <= _LARGE:
        return passed("rate_constant", p_value, parameter=name)
    if not relative:
        change *= float(scale.unit[which])
    facts = {"parameter": name, "relative": relative, "change": change}
    return warning("rate_changes", p_value, Untrusted.UNSEEN_LOADS, **facts)


def implied_steps(case: Case, along: Array) -> tuple[Array, Array]:
    """What each window alone would change along a direction, and its information, both ``[M]``."""
    estimate, residuals, counted = case.estimate, case.residuals, case.windows.counted
    model, scale = estimate.model, estimate.covariance.scale
    if counted is None:
        raise InputError("an implied rate is of counts, and these windows have none")
    kind = counted.on(model)
    z, direction = scale.free(estimate.theta), torch.from_numpy(along)
    x, where = torch.unique(torch.from_numpy(residuals.x), dim=0, return_inverse=True)

    def on_the_line(t: Tensor, x: Tensor) -> Tensor:
        return kind.log_terms(Point(model, x, scale.natural(z + t[0] * direction)))

    _, line = by_input(on_the_line, np.zeros(1), model.as_inputs(x), model.edges)
    slope = np.nan_to_num(line[..., 0][where.numpy()], posinf=0.0, neginf=0.0)
    score = (residuals.excess * slope).sum(1)
    centred = slope - (residuals.predicted * slope).sum(1, keepdims=True)
    information = residuals.totals * (residuals.predicted * centred**2).sum(1)
    step = np.divide(score, information, out=np.zeros_like(score), where=information > 0)
    return step, information


def _direction(estimate: Estimate) -> tuple[Array, int]:
    """Unit direction of the free parameters, and the parameter that moves most along it.

    The service rate of a queue; otherwise the direction the data determines best.
    """
    if isinstance(estimate.model, ServerQueue):
        return np.eye(len(estimate.model.param_names))[0], 0
    _, basis = np.linalg.eigh(estimate.covariance.matrix)
    which = int(np.abs(basis[:, 0]).argmax())
    along: Array = basis[:, 0] * np.sign(basis[which, 0])
    return along, which


def _weighted_slope(at: Array, value: Array, weight: Array) -> tuple[float, float]:
    """Slope of a weighted regression on a line, and its p-value by HC3."""
    root = np.sqrt(weight / weight.sum())
    design = np.column_stack([root, root * at])
    inverse = np.linalg.pinv(design.T @ design)
    coefficients = inverse @ design.T @ (root * value)
    left = root * value - design @ coefficients
    leverage = np.einsum("mi,ij,mj->m", design, inverse, design)
    # A window that alone decides the slope says nothing of its error: let that error be huge.
    left = left / np.maximum(1 - leverage, 1e-3)
    covariance = inverse @ (design * left[:, None] ** 2).T @ design @ inverse
    error = math.sqrt(max(covariance[1, 1], 1e-290))
    freedom = len(at) - 2
    slope = float(coefficients[1])
    return slope, float(2 * stdtr(freedom, -abs(slope) / error))
