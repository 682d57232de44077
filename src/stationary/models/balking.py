"""Requests that turn away from a long queue."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.measures import Flows
from stationary.models._birth_death import BirthDeathQueue


class Balking(BirthDeathQueue):
    """An arrival that must wait for w others joins with probability ``1 / (1 + balking * w)``.

    w is how many must leave before its service starts, 0 while a server is free. Requests that turn
    away count as lost, as do those that find the system full. Without balking this is M/M/m/K.

    Requests that turn away leave no trace in a log, and the others see a queue they were willing to
    join: counts by arriving requests are refused, see ``sees_time_averages``.

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
    sees_time_averages = False
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
            params={"service_rate": service_rate, "balking": balking},
            flows=self._flows,
        )
        ahead = (self.levels - self.servers + 1).clamp(min=0)
        self.register_buffer("_ahead", ahead, persistent=False)

    def births(self, x: Tensor, theta: Tensor) -> Tensor:
        """The load, thinned by those who turn away."""
        return x / (1 + theta[1] * self._ahead[:-1])

    def _flows(self, x: Tensor, theta: Tensor) -> Flows:
        away = theta[1] * self._ahead
        share = torch.cat([(away / (1 + away))[:-1], torch.ones_like(away[-1:])])
        return Flows(x, x * share, torch.zeros_like(x))
