"""Servers whose speed depends on how much there is to do."""

from __future__ import annotations

from torch import Tensor

from stationary.models._params import Param, Values, rate
from stationary.models.queues._birth_death import BirthDeathQueue


class Slowing(BirthDeathQueue):
    """Servers that slow down under load: each works at ``service_rate / n ** slowdown``.

    Here n is the number of requests in the system, so that it finishes
    ``min(n, servers) * service_rate * n ** -slowdown`` of them per unit time. No slowdown is
    M/M/m/K; a negative one means servers that speed up (Conway and Maxwell, 1962).

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests that a server finishes per unit time while there is one request alone.
    slowdown : float
        Of either sign: at 0.5, with four in the system a server works at half its speed.
    """

    params = {"service_rate": rate(), "slowdown": Param(0.0, positive=False)}

    def deaths(self, p: Values) -> Tensor:
        """``min(n, servers) * service_rate * n ** -slowdown``."""
        return super().deaths(p) * (-p.slowdown * self.levels[1:].log()).exp()
