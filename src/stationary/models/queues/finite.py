"""Requests from a finite number of clients."""

from __future__ import annotations

from torch import Tensor

from stationary.models._params import Values, rate
from stationary.models._point import Point
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import whole


class FiniteClients(BirthDeathQueue):
    """A finite number of clients, each with at most one request in the system (machine repair).

    The load is what they offer while all of them think: with n requests in the system the others
    send at ``load * (1 - n / clients)``. A client whose request is lost thinks again. With many
    clients this is M/M/m/K; with ``capacity == clients`` nothing is lost.

    A client never meets its own request, so an arriving request sees fewer others than the time
    average.

    Parameters
    ----------
    servers, capacity, service_rate
        As for `MMmK`.
    clients : int
        How many clients there are, at least the capacity.
    """

    params = {"service_rate": rate()}
    exponential = True

    def __init__(
        self, servers: int = 1, capacity: int = 20, clients: int = 100, **values: float
    ) -> None:
        super().__init__(servers, capacity, **values)
        why = ", because fewer clients than the capacity could never fill the system"
        self.clients = whole(clients, "clients", self.capacity, 10**9, why)

    @property
    def thinking(self) -> Tensor:
        """Share of the clients that have no request in the system, ``[n]``."""
        return (self.clients - self.levels) / self.clients

    def births(self, load: Tensor, p: Values) -> Tensor:
        """The load, in proportion to the clients that think."""
        del p
        return load * self.thinking[:-1]

    def arrivals(self, point: Point) -> Tensor:
        """Requests of the clients that think."""
        return point.load * self.thinking
