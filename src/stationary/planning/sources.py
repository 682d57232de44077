"""Where an answer comes from: parts of its interval, and the windows that move it most."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtri

from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.learning.covariances import Minimum
from stationary.learning.discrepancy import Discrepancy
from stationary.learning.draws import Draws, from_estimate
from stationary.learning.estimate import Estimate
from stationary.learning.likelihood import Likelihood
from stationary.planning.assumed import Assumed
from stationary.planning.limits import Limit
from stationary.planning.roots import Excess
from stationary.terms.slo import Slo

_STEP = 1e-3  # step of differences, in coordinates in which rates are logarithms


@dataclass(frozen=True)
class Breakdown:
    """Parts of the variance of the logarithm of a limit."""

    shares: dict[str, float]
    """By cause: ``model error`` and ``drift`` of the speed, ``capacity``, ``sampling`` (how well
    the data determine the speed), and ``the rest`` (slowing, and other servers)."""
    slowing: float
    """Probability that service slows down under load."""


def breakdown(
    found: Limit, draws: Draws, discrepancy: Discrepancy | None, assumed: tuple[Assumed, ...]
) -> Breakdown:
    """Say how much of a limit's interval each cause makes.

    A limit is proportional to the speed of the servers, so that an error of its logarithm is one of
    the limit's. What the causes that are known one by one do not explain is the rest.
    """
    if not 0 < found.low < found.high < np.inf:
        return Breakdown({}, _slowing(draws))
    total = (np.log(found.high / found.low) / (2 * ndtri(0.5 + found.level / 2))) ** 2
    part = max(draws.parts, key=lambda part: part.weights.sum())
    speed = part.theta[:, part.model.speed_mask].log().numpy()
    parts = {"sampling": float(speed.var(0).mean()) if speed.size else 0.0}
    if discrepancy is not None:
        parts["model error"] = discrepancy.rate**2
        parts["drift"] = discrepancy.drift**2
        parts["capacity"] = _of_capacity(discrepancy.capacity, assumed)
    parts["the rest"] = max(total - sum(parts.values()), 0.0)
    whole = sum(parts.values())
    shares = {name: float(value / whole) for name, value in parts.items()}
    return Breakdown(shares, _slowing(draws))


def _of_capacity(error: float, assumed: tuple[Assumed, ...]) -> float:
    """Variance of the logarithm of the limit by an error of the capacity, and by its range."""
    for each in assumed:
        if each.name == "capacity" and len(each.others) == 2:
            (low, first), (high, last) = each.others
            slope = np.log(last / first) / (high - low)
            among = 0.0 if each.most is None else each.most - (each.value or 0.0)
            # A range is uniform; of three capacities that nobody gave, two have the larger limit.
            share = 1 / 12 if each.given else 2 / 9
            return float(slope**2 * (error**2 + share * among**2))
    return 0.0


def _slowing(draws: Draws) -> float:
    slow = [part for part in draws.parts if {"slowing", "contention"} & {*part.model.param_names}]
    return float(sum(part.weights.sum() for part in slow))


def influence(estimate: Estimate, windows: Windows, slos: tuple[Slo, ...], near: float) -> Array:
    """Return by which share ``[M]`` the limit would change without each of the windows.

    The estimate is of all of them, and limits are searched from the load ``near``. Without one
    window, the minimum of the likelihood moves by about the inverse curvature times the gradient of
    that window's own likelihood: one Newton step. The limit follows by its slope.
    """
    minimum = Minimum(Likelihood(estimate.model, windows), windows, estimate.theta)
    scale, part = minimum.likelihood.scale, from_estimate(estimate)
    centre = scale.free(estimate.theta)
    moves = _STEP * torch.eye(len(centre), dtype=centre.dtype)
    theta = scale.natural(centre + torch.cat([moves, -moves]))
    moved = replace(part, theta=theta, weights=np.full(len(theta), 1 / len(theta)))
    up, down = Excess(moved, slos).roots(math.log(near))[0][1:].reshape(2, -1)
    steps = minimum.scores() / minimum.curvature @ minimum.basis.T
    with np.errstate(invalid="ignore"):
        slope = np.nan_to_num((up - down) / (2 * _STEP), posinf=0.0, neginf=0.0)  # of no limit: 0
    return np.asarray(np.expm1(steps @ slope))
