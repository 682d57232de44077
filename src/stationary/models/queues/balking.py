"""Requests that turn away from a long queue."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.models._base import Point
from stationary.models.measures import Flows
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import rate


class Balking(BirthDeathQueue):
    """An arrival that must wait for w others joins with probability ``1 / (1 + balking * w)``.

    w is how many must leave before its service starts, 0 while a server is free. Requests that turn
    away count as lost, as do those that find the system full. Without balking this is M/M/m/K.

    Requests that turn away leave no trace in a log: those that are counted on arrival are the ones
    that were willing to join.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests one busy server finishes per unit time.
    balking : float
        Positive; at 1, half of those who would wait for one other turn away.

    Examples
    --------
    >>> import stationary as st
    >>> model = Balking(servers=1, capacity=2, service_rate=1.0, balking=1.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.2000, 0.4000, 0.4000]], dtype=torch.float64, grad_fn=...)
    """

    name = "balking"
    _ahead: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        service_rate: float = 1.0,
        balking: float = 0.1,
    ) -> None:
        super().__init__(
            servers=servers,
            capacity=capacity,
            params={"service_rate": rate(service_rate), "balking": balking},
        )
        ahead = (self.levels - self.servers + 1).clamp(min=0)
        self.register_buffer("_ahead", ahead, persistent=False)

    def births(self, load: Tensor, p: Any) -> Tensor:
        """The load, thinned by those who turn away."""
        return load / (1 + p.balking * self._ahead[:-1])

    def arrivals(self, point: Point) -> Tensor:
        """Those willing to join, whether or not there is room for them."""
        return point.load / (1 + point.p.balking * self._ahead)

    def flows(self, point: Point) -> Flows:
        """Those who turn away are refused, and all who find it full."""
        away = point.p.balking * self._ahead
        share = torch.where(self.lost > 0, 1.0, away / (1 + away))
        return Flows(point.load, point.load * share, torch.zeros_like(point.load))
