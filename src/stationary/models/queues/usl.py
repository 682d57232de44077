"""The Universal Scalability Law: a server whose speed has a peak."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from stationary.models._params import Param, Values, rate
from stationary.models.measures import Measure, probability
from stationary.models.queues._birth_death import BirthDeathQueue


class UniversalScalability(BirthDeathQueue):
    """One system that works on all its requests at once, by the Universal Scalability Law.

    With n requests in the system it finishes

        service_rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))

    of them per unit time (Gunther, 2007). Contention is the share of the work that only one request
    at a time can do, and holds the speed below ``service_rate / contention``; coherency is what
    every pair of requests costs, and makes the speed fall again above a peak near
    ``n = sqrt((1 - contention) / coherency)``. Without both this is M/M/K/K, a server for each
    place; a contention of 1 without coherency is M/M/1/K.

    As it works on all of them at once, response times are those of processor sharing unless
    ``discipline="fcfs"``. There are no servers to count: the measure ``busy``, the share of time in
    which there is any work, takes the place of the utilisation.

    Parameters
    ----------
    capacity : int
        Most requests in the system: states 0..capacity.
    service_rate : float
        Requests finished per unit time by a system that has one alone.
    contention, coherency : float
        Positive; see above.
    """

    params = {"service_rate": rate(), "contention": Param(0.1), "coherency": Param(0.01)}

    def __init__(self, capacity: int = 20, **values: Any) -> None:
        super().__init__(1, capacity, **{"discipline": "ps", **values})

    def deaths(self, p: Values) -> Tensor:
        """The Universal Scalability Law at n = 1..capacity."""
        n = self.levels[1:]
        return p.service_rate * n / (1 + p.contention * (n - 1) + p.coherency * (n * (n - 1)))

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures of a queue; without servers to count, ``busy`` in place of a utilisation."""
        return (*(name for name in super().measures if name != "utilisation"), "busy")

    def measure(self, name: str) -> Measure:
        """Return a measure of the queue."""
        if name == "busy":
            return probability(self.levels > 0, "share of time with any work")
        return super().measure(name)
