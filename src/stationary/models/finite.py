"""Requests from a finite number of clients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.measures import Flows
from stationary.models._birth_death import BirthDeathQueue
from stationary.models._queue import whole


class FiniteClients(BirthDeathQueue):
    """A finite number of clients, each with at most one request in the system (machine repair).

    The load x is what they offer while all of them think: with n requests in the system the others
    send at ``x * (1 - n / clients)``. A client whose request is lost thinks again. With many
    clients this is M/M/m/K; with ``capacity == clients`` nothing is lost.

    A client never finds its own request, so arrivals do not see time averages: see
    ``sees_time_averages``.

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
    sees_time_averages = False
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
            params={"service_rate": service_rate},
            flows=self._flows,
        )
        if self.clients < self.capacity:
            raise InputError(
                f"clients must be at least the capacity, {self.capacity}, or the system could "
                f"never be full; got {self.clients}"
            )
        thinking = (self.clients - self.levels) / self.clients
        self.register_buffer("_thinking", thinking, persistent=False)

    def births(self, x: Tensor, theta: Tensor) -> Tensor:
        """The load, in proportion to the clients that think."""
        del theta
        return x * self._thinking[:-1]

    def _flows(self, x: Tensor, theta: Tensor) -> Flows:
        del theta
        full = torch.zeros_like(self._thinking)
        full[-1] = 1.0
        offered = x * self._thinking
        return Flows(offered, offered * full, torch.zeros_like(x))

    @property
    def options(self) -> dict[str, Any]:
        """Servers, capacity and clients."""
        return {**super().options, "clients": self.clients}
