"""What no model knows: how far a real system in overload is from what light load shows of it.

A forecast of overload rests on a server that keeps its speed and a capacity that is as told. Real
ones do not quite. On ten recordings of six systems (gunicorn with 1, 4 and 6 workers, nginx,
HAProxy, PostgreSQL, Node.js, Kamailio) the service rate in overload differed from that at light
load by +5, +4, -6, +4, +2, 0, +4 and -5 to 0 %, beyond sampling error by 3 % (posterior mean 3.4 %,
90 % between 1.8 and 5.7 %). From request logs 4 % covered the measured losses; counts of queue
lengths know the rate less well, and took 6 %. The capacity was off by less than one request.

The evidence is ten recordings on one kind of machine. Estimate it anew where you have recordings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.stats import norm, qmc

from stationary.errors import InputError
from stationary.learning.draws import Draws, Part
from stationary.models.queues import ServerQueue

_SEED = 1 << 20
"""Apart from the seeds of draws from covariances."""

_EDGE = 1e-9


@dataclass(frozen=True)
class Discrepancy:
    """Model error: each draw is given one shift of its speed, and one of its capacity.

    Parameters
    ----------
    rate : float
        Standard deviation of the logarithm of the speed: 0.06 for 6 %.
    capacity : float
        Standard deviation of the capacity, in requests, rounded to whole ones.
    """

    rate: float = 0.06
    capacity: float = 0.7

    def __post_init__(self) -> None:
        for name in ("rate", "capacity"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{name} must be zero or more; got {getattr(self, name)!r}")

    def applied(self, draws: Draws, seed: int = 0) -> Draws:
        """Return the draws with model error; it comes last, after any change of the system."""
        parts = [new for k, part in enumerate(draws.parts) for new in self._spread(part, seed + k)]
        return Draws(tuple(parts))

    def _spread(self, part: Part, seed: int) -> Iterator[Part]:
        model, count = part.model, len(part.theta)
        # Sobol points want a power of two. Shuffled, because the draws are Sobol points as well,
        # and two such sequences side by side are correlated.
        points = qmc.Sobol(2, seed=_SEED + seed).random(1 << (count - 1).bit_length())
        points = np.random.default_rng(_SEED + seed).permutation(points)
        rate, capacity = norm.ppf(points[:count].clip(_EDGE, 1 - _EDGE)).T
        factor = torch.from_numpy(np.exp(self.rate * rate))[:, None]
        theta = torch.where(model.speed_mask, part.theta * factor, part.theta)
        if not isinstance(model, ServerQueue) or part.costly:
            yield replace(part, theta=theta)  # no capacity to vary, or too large to be solved often
            return
        drawn = np.rint(model.capacity + self.capacity * capacity).astype(int)
        drawn = drawn.clip(model.smallest, model.largest)
        for size in sorted(set(drawn.tolist()), key=lambda size: abs(size - model.capacity)):
            which = drawn == size
            yield replace(
                part,
                model=model if size == model.capacity else model.changed(capacity=size),
                theta=theta[which],
                weights=part.weights[which],
                drift=None if part.drift is None else part.drift[which],
            )
