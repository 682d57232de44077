"""The plain queue: M/M/1/K, M/M/m/K, M/M/m/m+r and M/M/m/m are one class."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.models._params import rate
from stationary.models._point import Point
from stationary.models.queues._birth_death import BirthDeathQueue


class MMmK(BirthDeathQueue):
    """Poisson arrivals, ``servers`` exponential servers, room for ``capacity`` requests in all.

    Parameters
    ----------
    servers : int
        Number of servers, m. M/M/m/m+r has ``capacity = m + r``.
    capacity : int
        Most requests in the system, waiting or in service: states 0..capacity.
    service_rate : float
        Requests that one busy server finishes per unit time; what a fit learns.

    Examples
    --------
    >>> import stationary as st
    >>> model = MMmK(servers=1, capacity=2, service_rate=2.0)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.5714, 0.2857, 0.1429]], dtype=torch.float64, grad_fn=...)
    """

    params = {"service_rate": rate()}
    exponential = True

    def service_times(self, point: Point, levels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance ``[..., L]`` of service times that begin at these levels."""
        mean = (1 / point.p.service_rate) * torch.ones_like(levels)
        return mean, mean**2
