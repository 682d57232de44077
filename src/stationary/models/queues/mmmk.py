"""Birth-death queues: M/M/1/K, M/M/m/K, M/M/m/m+r and M/M/m/m are one class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import rate


class MMmK(BirthDeathQueue):
    """Poisson arrivals, ``servers`` exponential servers, room for ``capacity`` requests in all.

    Parameters
    ----------
    servers : int
        Number of servers, m. M/M/m/m+r has ``capacity = m + r``.
    capacity : int
        Most requests in the system, waiting or in service: states 0..capacity.
    service_rate : float
        Requests one busy server finishes per unit time; what a fit learns.

    Examples
    --------
    >>> import stationary as st
    >>> model = MMmK(servers=1, capacity=2, service_rate=2.0)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.5714, 0.2857, 0.1429]], dtype=torch.float64, grad_fn=...)
    """

    name = "mmmk"
    _up: Tensor
    _down: Tensor

    def __init__(self, servers: int = 1, capacity: int = 20, service_rate: float = 1.0) -> None:
        params = {"service_rate": rate(service_rate)}
        super().__init__(servers=servers, capacity=capacity, params=params)
        still = torch.zeros_like(self._busy)
        self.register_buffer("_up", torch.cat([still + 1, still]), persistent=False)
        self.register_buffer("_down", torch.cat([still, self._busy]), persistent=False)

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals up, departures down, in one sum: fits of fifty windows feel every operation."""
        return load * self._up + p.service_rate * self._down

    def closed_form(self, x: Any) -> Tensor:
        """Steady state ``[M, n]`` by the textbook formula, in log space."""
        x = self.as_inputs(x)
        k = torch.arange(self.capacity + 1, dtype=torch.float64)
        m = torch.tensor(float(self.servers), dtype=torch.float64)
        served = torch.where(k <= m, torch.lgamma(k + 1), torch.lgamma(m + 1) + (k - m) * m.log())
        return torch.softmax(k * (x / self.theta.detach()).log() - served, -1)
