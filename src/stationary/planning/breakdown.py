"""Where the width of a limit's interval comes from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from stationary.learning.discrepancy import Discrepancy
from stationary.learning.draws import Draws
from stationary.planning.assumed import Assumed
from stationary.planning.limits import Limit


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
    total = (np.log(found.high / found.low) / (2 * norm.ppf(0.5 + found.level / 2))) ** 2
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
