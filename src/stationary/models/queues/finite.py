"""Requests from a finite number of clients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.models._base import Point
from stationary.models.measures import Flows
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import rate, whole


class FiniteClients(BirthDeathQueue):
    """A finite number of clients, each with at most one request in the system (machine repair).

    The load x is what they offer while all of them think: with n requests in the system the others
    send at ``x * (1 - n / clients)``. A client whose request is lost thinks again. With many
    clients this is M/M/m/K; with ``capacity == clients`` nothing is lost.

    A client never finds its own request, so an arriving request finds fewer others than the time
    average.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    clients : int
        How many clients there are, at least the capacity.
    service_rate : float
        Requests one busy server finishes per unit time.

    Examples
    --------
    >>> import stationary as st
    >>> model = FiniteClients(servers=1, capacity=2, clients=2, service_rate=1.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.2000, 0.4000, 0.4000]], dtype=torch.float64, grad_fn=...)
    """

    name = "finite"
    _thinking: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        clients: int = 100,
        service_rate: float = 1.0,
    ) -> None:
        self.clients = whole(clients, "clients", 1, 10**9)
        super().__init__(
            servers=servers,
            capacity=capacity,
            params={"service_rate": rate(service_rate)},
        )
        if self.clients < self.capacity:
            raise InputError(
                f"clients must be at least the capacity, {self.capacity}, or the system could "
                f"never be full; got {self.clients}"
            )
        thinking = (self.clients - self.levels) / self.clients
        self.register_buffer("_thinking", thinking, persistent=False)

    def births(self, load: Tensor, p: Any) -> Tensor:
        """The load, in proportion to the clients that think."""
        del p
        return load * self._thinking[:-1]

    def arrivals(self, point: Point) -> Tensor:
        """Requests of the clients that think."""
        return point.load * self._thinking

    def flows(self, point: Point) -> Flows:
        """Requests of the clients that think; those that find it full are refused."""
        offered = self.arrivals(point)
        return Flows(offered, offered * self.lost, torch.zeros_like(point.load))
