"""A system that stops working until it is reset."""

from __future__ import annotations

from stationary.models._params import rate
from stationary.models._point import Point
from stationary.models.measures import Flows
from stationary.models.queues._queue import Moves, ServerQueue, whole


class Leaking(ServerQueue):
    """M/M/m/K that fails at rate ``leak``, at any length, until a reset at rate ``reset``.

    While it has failed it is in state ``overload``: what was in it is lost, nothing is served, and
    what arrives is lost. A reset leaves it empty. Without a leak this is M/M/m/K, unless it spills.

    Parameters
    ----------
    servers, capacity, service_rate
        As for `MMmK`; states are ``0..capacity`` and ``overload``.
    spill : int
        1 if an arrival at a full queue makes it fail, too; 0 if that arrival is only lost.
    leak, reset : float
        Failures and resets per unit time; positive.
    """

    params = {"service_rate": rate(), "leak": rate(0.01), "reset": rate(0.1)}
    drops_all = True

    def __init__(
        self, servers: int = 1, capacity: int = 20, spill: int = 0, **values: float
    ) -> None:
        self.spill = whole(spill, "spill", 0, 1)
        super().__init__(servers, capacity, **values)
        self.lost[-1] = 1.0
        self.slowed = bool(self.spill)  # then those behind make it fail

    def state_levels(self) -> dict[str, int]:
        """``0..capacity``, and an empty system that has failed."""
        return {**super().state_levels(), "overload": 0}

    def moves(self) -> Moves:
        """Arrivals, services, failures, and resets of the failed system."""
        yield from super().moves()
        for n in range(self.capacity + 1):
            yield n, "overload", "leak", 1.0
        yield self.capacity, "overload", "load", self.spill
        yield "overload", 0, "reset", 1.0

    def flows(self, point: Point) -> Flows:
        """A failure drops what is in the system; while it lasts, all that arrive are refused."""
        failing = point.p.leak + self.spill * point.load * self.lost
        return super().flows(point)._replace(dropped=failing * self.levels)
