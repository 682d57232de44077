"""Model error: how far a real system in overload is from what light load shows of it.

A forecast of overload assumes that a server keeps its speed and that its capacity is the one given.
Real systems differ a little. On ten recordings of six systems (gunicorn with 1, 4 and 6 workers,
nginx, HAProxy, PostgreSQL, Node.js, Kamailio) the service rate in overload differed from that at
light load by +5, +4, -6, +4, +2, 0, +4 and -5 to 0 %, beyond sampling error by 3 % (posterior mean
3.4 %, 90 % between 1.8 and 5.7 %). From request logs 4 % covered the measured losses; counts of
queue lengths determine the rate less well, and needed 6 %. The capacity was off by less than one
request.

A server that drifts from window to window while it is lightly loaded will do so later, too. That
variance is added. The variance of the windows' mean service times about a line in the load, beyond
what chance gives them, is estimated by moments (DerSimonian and Laird, 1986), and lowered by its
standard error.

Queue lengths of several servers say little about how much a single service varies, because the
model takes busy servers as one of their joint speed. Fitted to counts of simulated systems, the
logarithm of the variability was off by 0.2 with two servers, by 0.3 with four (and 1.5 with a heavy
tail) and by 0.8 with eight. Percentiles at light load hang on it.

The evidence is ten recordings on one kind of machine. Estimate it anew where you have recordings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtri

from stationary._support.types import Array
from stationary.data import ServiceTimes, States
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.draws import Draws, Part, shuffled_points
from stationary.learning.estimate import Estimate
from stationary.learning.slowing import pure_sums, service_times
from stationary.models import Model
from stationary.models.queues import ServerQueue, Service

_SEED = 1 << 20
"""Apart from the seeds of draws from covariances."""

_EDGE = 1e-9

FROM_SERVICE_TIMES, FROM_COUNTS = 0.04, 0.06
"""How far the speed in overload is from that at light load, by what it was learnt from."""

_PER_SERVER, _MOST = 0.1, 0.7
"""Error of the logarithm of the variability, learnt from counts, for each server beyond the first;
at most what was believed of it before any data was seen."""


@dataclass(frozen=True)
class Discrepancy:
    """Model error: each draw is given one shift of its speed, and one of its capacity.

    Parameters
    ----------
    rate : float
        Standard deviation of the logarithm of the speed: 0.06 for 6 %.
    capacity : float
        Standard deviation of the capacity, in requests, rounded to whole ones.
    drift : float
        Standard deviation of the logarithm of the speed from one window to another.
    variability : float
        Standard deviation of the logarithm of the variability of service.
    """

    rate: float = FROM_COUNTS
    capacity: float = 0.7
    drift: float = 0.0
    variability: float = 0.0

    @classmethod
    def of(cls, estimate: Estimate, windows: Windows) -> Discrepancy:
        """Return the model error of a forecast from these data."""
        times = service_times(windows, estimate.model)
        if times is None:
            return cls(variability=_of_variability(estimate.model, windows))
        return cls(FROM_SERVICE_TIMES, drift=_drift(estimate.model, times, windows.loads.numpy()))

    def __post_init__(self) -> None:
        for name in ("rate", "capacity", "drift", "variability"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{name} must be zero or more; got {getattr(self, name)!r}")

    def applied(self, draws: Draws, seed: int = 0) -> Draws:
        """Return the draws with model error; it comes last, after any change of the system."""
        parts = [new for k, part in enumerate(draws.parts) for new in self._spread(part, seed + k)]
        return Draws(tuple(parts))

    def _spread(self, part: Part, seed: int) -> Iterator[Part]:
        model, count = part.model, len(part.theta)
        varies = self.variability > 0 and isinstance(model, Service)
        points = shuffled_points(count, 3 if varies else 2, _SEED + seed)
        rate, capacity, *service = ndtri(points.clip(_EDGE, 1 - _EDGE)).T
        factor = torch.from_numpy(np.exp(np.hypot(self.rate, self.drift) * rate))[:, None]
        theta = torch.where(model.speed_mask, part.theta * factor, part.theta)
        if varies:
            place = model.param_names.index("variability")
            theta[:, place] *= torch.from_numpy(np.exp(self.variability * service[0]))
        if not isinstance(model, ServerQueue) or part.costly:
            yield replace(part, theta=theta)  # no capacity to vary, or too large to be solved often
            return
        drawn = np.rint(model.capacity + self.capacity * capacity)
        drawn = drawn.clip(model.smallest, model.largest)
        yield from _with_capacities(replace(part, theta=theta), drawn)


def _with_capacities(part: Part, drawn: Array) -> Iterator[Part]:
    """Yield draws with capacities of their own, a part for each unless the model takes them."""
    model = part.model
    if isinstance(model, Service) and np.ptp(drawn):
        largest = int(drawn.max())
        wider = model.changed(capacity=largest).with_parameter("full", float(model.capacity))
        yield part.with_parameter(wider, torch.from_numpy(drawn))
        return
    for size in sorted(set(drawn.tolist()), key=lambda size: abs(size - model.capacity)):
        which = drawn == size
        yield replace(
            part,
            model=model if size == model.capacity else model.changed(capacity=int(size)),
            theta=part.theta[which],
            weights=part.weights[which],
        )


def _of_variability(model: Model, windows: Windows) -> float:
    """Error of the logarithm of the variability of a service that queue lengths tell of."""
    if not isinstance(model, Service) or not isinstance(windows.observations[0], States):
        return 0.0
    return min(_PER_SERVER * (model.servers - 1), _MOST)


def _drift(model: Model, times: ServiceTimes, loads: Array) -> float:
    """Standard deviation of the logarithm of the speed from window to window."""
    number, seconds = (part.sum(-1) for part in pure_sums(model, times))
    kept = number > 0
    number, mean, loads = number[kept], seconds[kept] / number[kept], loads[kept]
    spare = len(mean) - 2
    if spare < 1:
        return 0.0
    whole = seconds.sum() / number.sum()
    weight = number / (model.estimates.get("variability", 1.0) * whole**2)
    line = np.stack([np.ones_like(loads), loads], -1)
    inverse = np.linalg.pinv(line.T @ (weight[:, None] * line))
    left = mean - line @ (inverse @ (line.T @ (weight * mean)))
    scatter = (weight * left**2).sum()
    per_variance = weight.sum() - np.trace(inverse @ (line.T @ (weight[:, None] ** 2 * line)))
    variance = (scatter - spare - np.sqrt(2 * spare)) / per_variance
    return float(np.sqrt(max(variance, 0.0)) / whole)
