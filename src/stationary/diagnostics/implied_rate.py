r"""Check that the windows imply the same service rate at every load.

One Newton step along a direction ``d`` of the free parameters, from window w alone, leads to

    delta_w = ( sum_c (y_wc - n_w p_wc) a_wc ) / I_w,   I_w = n_w ( sum_c p_wc a_wc^2 - mean^2 ),

with ``a_wc`` the slope of ``log p_wc`` along ``d``: what this window would change in the estimate.
A regression on the logarithm of the load, weighted by ``I_w`` and with the HC3 variance (MacKinnon
and White, 1985), tells whether that depends on the load.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from stationary.derivatives import by_input
from stationary.diagnostics._residuals import LEVEL, Residuals
from stationary.findings import Finding, Verdict
from stationary.inference import Array
from stationary.models._queue import ServerQueue
from stationary.objective import Objective

if TYPE_CHECKING:
    from stationary.result import Fit

_LARGE = 0.05
"""Relative change for twice the load from which it matters."""


def implied_rate(fit: Fit, residuals: Residuals) -> Finding:
    """Check that the service rate the windows imply does not change with load."""
    if not (residuals.loads > 0).all():
        return _unknown("Some loads are not positive, so there is no doubling of the load.")
    log_load = np.log(residuals.loads)
    if np.ptp(log_load) < 1e-9:
        return _unknown("All windows have the same load: record several.")
    along, which = _direction(fit)
    step, information = implied_steps(fit, residuals, along)
    if not information.sum() > 0 or int((information > 0).sum()) < 4:
        return _unknown("The windows say too little about any parameter.")
    slope, p_value = _weighted_slope(log_load, step, information)
    name = fit.model.param_names[which].replace("_", " ")
    move = slope * math.log(2) * along[which]
    logarithm = bool(fit.covariance.scale.log[which])
    change = math.expm1(min(move, 50.0)) if logarithm else move
    size = f"{abs(change):.0%}" if logarithm else f"{abs(move * _unit(fit, which)):.2g}"
    if p_value < LEVEL and abs(change) > _LARGE:
        return Finding(
            "service rate",
            Verdict.WARNING,
            f"The {name} the windows imply {'rises' if change > 0 else 'falls'} by {size} when the "
            f"load doubles; the model says it stays the same. A forecast beyond the observed loads "
            f"goes on with the wrong one.",
            p_value,
        )
    return Finding(
        "service rate",
        Verdict.OK,
        f"The windows imply the same {name} at every load, as far as they tell.",
        p_value,
    )


def implied_steps(fit: Fit, residuals: Residuals, along: Array) -> tuple[Array, Array]:
    """What each window alone would change along a direction, and its information, both ``[M]``."""
    scale = fit.covariance.scale
    objective = Objective(fit.model, fit.windows).on(scale)
    z, direction = scale.free(fit.model.theta.detach()), torch.from_numpy(along)

    def on_the_line(t: Tensor, x: Tensor) -> Tensor:
        return objective.log_probabilities(z + t[0] * direction, x)

    _, line = by_input(on_the_line, np.zeros(1), objective.x, fit.model.edges)
    slope = line[..., 0]  # at the distinct inputs, in order
    _, where = np.unique(residuals.x, axis=0, return_inverse=True)
    slope = np.nan_to_num(slope[where.ravel()], posinf=0.0, neginf=0.0)
    score = (residuals.excess * slope).sum(1)
    centred = slope - (residuals.predicted * slope).sum(1, keepdims=True)
    information = residuals.totals * (residuals.predicted * centred**2).sum(1)
    step = np.divide(score, information, out=np.zeros_like(score), where=information > 0)
    return step, information


def _direction(fit: Fit) -> tuple[Array, int]:
    """Unit direction of the free parameters, and the parameter that moves most along it.

    The service rate of a queue; otherwise the direction the data determines best.
    """
    if isinstance(fit.model, ServerQueue):
        return np.eye(len(fit.model.param_names))[0], 0
    _, basis = np.linalg.eigh(fit.covariance.matrix)
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
    return slope, float(2 * scipy.stats.t.sf(abs(slope) / error, freedom))


def _unit(fit: Fit, which: int) -> float:
    return float(fit.covariance.scale.unit[which])


def _unknown(sentence: str) -> Finding:
    return Finding("service rate", Verdict.UNKNOWN, sentence)
