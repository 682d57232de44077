"""Service at a free rate for every queue length, up to a depth."""

from __future__ import annotations

from torch import Tensor

from stationary.models._params import Values, rate
from stationary.models._rates import join_rates, repeated
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import whole


class StateDependent(BirthDeathQueue):
    """Service at a free rate ``service_n`` with n in the system, that of n = depth above it.

    It contains every M/M/m/K with m up to the depth: ``service_n = n * rate``. How the rates go on
    above the depth is an assumption; choose the depth as the longest queue that was observed.

    Parameters
    ----------
    depth : int
        Queue lengths with a rate of their own.
    capacity : int
        Most requests in the system: states 0..capacity.
    **rates : float
        Present values of ``service_1``, ``service_2``, ...
    """

    speed = ("service",)

    def __init__(self, depth: int = 3, capacity: int = 20, **rates: float) -> None:
        capacity = whole(capacity, "capacity", 1, self.largest)
        self.depth = whole(depth, "depth", 1, capacity, ", the capacity")
        labels = [f"service_{n}" for n in range(1, self.depth + 1)]
        params = {"service": rate([1.0] * self.depth, labels)}
        super().__init__(1, capacity, params=params, **rates)

    @property
    def smallest(self) -> int:
        """Every queue length with a rate of its own has its place."""
        return self.depth

    def deaths(self, p: Values) -> Tensor:
        """``service_n``, and ``service_depth`` above."""
        return join_rates(p.service, repeated(p.service[..., -1:], self.capacity - self.depth))
