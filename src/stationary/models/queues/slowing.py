"""Servers whose speed depends on how much there is to do."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from stationary.models._base import Param
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import rate


class Slowing(BirthDeathQueue):
    """Servers that slow down under load: each works at ``service_rate / n ** slowdown``.

    Here n is the number of requests in the system, so that it finishes
    ``min(n, servers) * service_rate * n ** -slowdown`` of them per unit time. No slowdown is
    M/M/m/K, a negative one is servers that speed up (Conway and Maxwell, 1962).

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests a server finishes per unit time when it has one request alone.
    slowdown : float
        Of either sign: at 0.5, with four in the system a server works at half its speed.

    Examples
    --------
    >>> import stationary as st
    >>> model = Slowing(servers=1, capacity=2, service_rate=2.0, slowdown=1.0)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.5000, 0.2500, 0.2500]], dtype=torch.float64, grad_fn=...)
    """

    name = "slowing"
    _log: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        service_rate: float = 1.0,
        slowdown: float = 0.0,
    ) -> None:
        super().__init__(
            servers=servers,
            capacity=capacity,
            params={
                "service_rate": rate(service_rate),
                "slowdown": Param(slowdown, positive=False),
            },
        )
        self.register_buffer("_log", self.levels[1:].log(), persistent=False)

    def deaths(self, p: Any) -> Tensor:
        """``min(n, servers) * service_rate * n ** -slowdown``."""
        return p.service_rate * self._busy * (-p.slowdown * self._log).exp()
