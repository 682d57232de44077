"""Service at a free rate for every queue length, up to a depth."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import named_rates, whole


class StateDependent(BirthDeathQueue):
    """Service at a free rate ``service_n`` with n in the system, that of n = depth above it.

    It holds every M/M/m/K with m up to the depth: ``service_n = n * rate``. How the rates go on
    above the depth is an assumption; choose the depth as the longest queue that was observed.

    Parameters
    ----------
    depth : int
        Queue lengths with a rate of their own.
    capacity : int
        Most requests in the system: states 0..capacity.
    **rates : float
        Present values of ``service_1``, ``service_2``, ...

    Examples
    --------
    >>> import stationary as st
    >>> model = StateDependent(depth=2, capacity=3, service_1=1.0, service_2=2.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.1429, 0.2857, 0.2857, 0.2857]], dtype=torch.float64, grad_fn=...)
    """

    name = "statedependent"
    speed = ("service",)
    _rate: Tensor

    def __init__(self, depth: int = 3, capacity: int = 20, **rates: float) -> None:
        depth = whole(depth, "depth", 1, 10**4)
        names = [f"service_{n}" for n in range(1, depth + 1)]
        super().__init__(
            servers=1,
            capacity=capacity,
            params={"service": named_rates(names, rates, type(self))},
        )
        if depth > self.capacity:
            raise InputError(
                f"depth must be at most the capacity, {self.capacity}, or rates would have no "
                f"effect; got {depth}"
            )
        self.depth = depth
        rate = torch.arange(self.capacity).clamp(max=depth - 1)
        self.register_buffer("_rate", rate, persistent=False)

    def deaths(self, p: Any) -> Tensor:
        """``service_n``, and ``service_depth`` above."""
        return p.service[..., self._rate]
