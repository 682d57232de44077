"""The Universal Scalability Law: a server whose speed has a peak."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from stationary.models.measures import Measure, probability
from stationary.models.queues._birth_death import BirthDeathQueue
from stationary.models.queues._queue import rate


class UniversalScalability(BirthDeathQueue):
    """One system that works on all its requests at once, by the Universal Scalability Law.

    With n requests in the system it finishes

        service_rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))

    of them per unit time (Gunther, 2007). Contention is the share of the work that only one request
    at a time can do, and holds the speed below ``service_rate / contention``; coherency is what
    every pair of requests costs, and makes the speed fall again above a peak near
    ``n = sqrt((1 - contention) / coherency)``. Neither of them is M/M/K/K, a server for each place;
    a contention of 1 and no coherency is M/M/1/K.

    There are no servers to count: the utilisation is the share of time in which there is any work.

    Parameters
    ----------
    capacity : int
        Most requests in the system: states 0..capacity.
    service_rate : float
        Requests finished per unit time by a system that has one alone.
    contention, coherency : float
        Positive; see above.

    Examples
    --------
    >>> import stationary as st
    >>> model = UniversalScalability(capacity=2, service_rate=2.0, contention=0.5, coherency=0.25)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.5714, 0.2857, 0.1429]], dtype=torch.float64, grad_fn=...)
    """

    name = "usl"
    _others: Tensor
    _pairs: Tensor

    def __init__(
        self,
        capacity: int = 20,
        service_rate: float = 1.0,
        contention: float = 0.1,
        coherency: float = 0.01,
    ) -> None:
        super().__init__(
            servers=1,
            capacity=capacity,
            params={
                "service_rate": rate(service_rate),
                "contention": contention,
                "coherency": coherency,
            },
        )
        n = self.levels[1:]
        self.register_buffer("_others", n - 1, persistent=False)
        self.register_buffer("_pairs", n * (n - 1), persistent=False)

    def deaths(self, p: Any) -> Tensor:
        """The Universal Scalability Law at n = 1..capacity."""
        slowed = 1 + p.contention * self._others + p.coherency * self._pairs
        return p.service_rate * self.levels[1:] / slowed

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures of a queue; without servers to count, ``busy`` in place of a utilisation."""
        return (*(name for name in super().measures if name != "utilisation"), "busy")

    def measure(self, name: str) -> Measure:
        """Return a measure of the queue."""
        if name == "busy":
            return probability(self.levels > 0, "share of time with any work")
        return super().measure(name)
