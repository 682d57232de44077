"""Which windows move an answer most.

Without one window, the minimum of the likelihood moves by about the inverse curvature times the
gradient of that window's own likelihood: one Newton step. The limit follows by its slope.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.learning.covariances import Minimum
from stationary.learning.draws import from_estimate
from stationary.learning.estimate import Estimate
from stationary.learning.likelihood import Likelihood
from stationary.planning.roots import Excess
from stationary.terms.slo import Slo

_STEP = 1e-3
"""Step of differences, in coordinates in which rates are logarithms."""


def influence(estimate: Estimate, windows: Windows, slos: tuple[Slo, ...], near: float) -> Array:
    """Return by which share ``[M]`` the limit would change without each of the windows.

    The estimate is of all of them, and limits are searched from the load ``near``.
    """
    minimum = Minimum(Likelihood(estimate.model, windows), windows, estimate.theta)
    scale, part = minimum.likelihood.scale, from_estimate(estimate)
    centre = scale.free(estimate.theta)
    moves = _STEP * torch.eye(len(centre), dtype=centre.dtype)
    theta = scale.natural(centre + torch.cat([moves, -moves]))
    moved = replace(part, theta=theta, weights=np.full(len(theta), 1 / len(theta)))
    up, down = Excess(moved, slos).roots(math.log(near))[0][1:].reshape(2, -1)
    steps = minimum.scores() / minimum.curvature @ minimum.basis.T
    return np.asarray(np.expm1(steps @ ((up - down) / (2 * _STEP))))
