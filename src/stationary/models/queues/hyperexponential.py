"""Service times more variable than exponential ones."""

from __future__ import annotations

from torch import Tensor

from stationary.models._params import Param, Values, rate
from stationary.models.queues._queue import Moves, ServerQueue


class HyperexponentialService(ServerQueue):
    """One server with fast and slow requests: service more variable than exponential.

    The service time is one of two exponentials, balanced so that each makes half of the mean. Its
    squared coefficient of variation is ``1 + extra_variation``; without any this is M/M/1/K.
    States are ``0``, ``1.1`` (one request, a fast service), ``1.2`` (a slow one), ``2.1``, ...

    Parameters
    ----------
    capacity : int
        Most requests in the system.
    service_rate : float
        Services per unit time of work: the inverse of their mean.
    extra_variation : float
        Squared coefficient of variation of the service time, beyond 1; positive.
    """

    params = {"service_rate": rate(), "extra_variation": Param(0.5)}
    largest = 10**4
    can_share = False
    slowed = False

    def __init__(self, capacity: int = 20, **values: float) -> None:
        super().__init__(1, capacity, **values)

    def state_levels(self) -> dict[str, int]:
        """The empty system, then every queue length with a fast and with a slow service."""
        return {"0": 0} | {f"{n}.{i}": n for n in range(1, self.capacity + 1) for i in (1, 2)}

    def terms(self, load: Tensor, p: Values) -> dict[str, Tensor]:
        """Two moments, balanced means: a share ``(1 +- s) / 2``, at ``2 service_rate share``."""
        extra = p.extra_variation
        s = (extra / (2 + extra)).sqrt()
        # The second is (1 - s) / 2 without a subtraction, which would lose digits near s = 1.
        share = {1: (1 + s) / 2, 2: 1 / ((2 + extra) * (1 + s))}
        speed = {i: 2 * p.service_rate * share[i] for i in (1, 2)}
        return {
            "load": load,
            **{f"load to {j}": load * share[j] for j in (1, 2)},
            **{f"end {i}": speed[i] for i in (1, 2)},
            **{f"end {i} to {j}": speed[i] * share[j] for i in (1, 2) for j in (1, 2)},
        }

    def moves(self) -> Moves:
        """Arrivals up; services down, into the kind of the next request."""
        for j in (1, 2):
            yield 0, f"1.{j}", f"load to {j}", 1.0
            yield f"1.{j}", 0, f"end {j}", 1.0
        for n in range(2, self.capacity + 1):
            for i in (1, 2):
                yield f"{n - 1}.{i}", f"{n}.{i}", "load", 1.0
                for j in (1, 2):
                    yield f"{n}.{i}", f"{n - 1}.{j}", f"end {i} to {j}", 1.0
