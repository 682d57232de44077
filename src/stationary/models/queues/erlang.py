"""Service times less variable than exponential ones."""

from __future__ import annotations

import torch

from stationary.models._params import rate
from stationary.models._point import Point
from stationary.models.latency import Times
from stationary.models.latency.erlangs import Erlangs
from stationary.models.queues._queue import Moves, ServerQueue, whole


class ErlangService(ServerQueue):
    """One server whose service is a chain of equal phases: steadier than exponential.

    The squared coefficient of variation of the service time is ``1 / phases``: one phase is
    M/M/1/K, many come near constant service, M/D/1/K. States are ``0``, ``1.1``, ``1.2``, ...;
    ``3`` stands for all states with three requests.

    Parameters
    ----------
    phases : int
        How many phases; not learnt, compare fits with several.
    capacity : int
        Most requests in the system.
    service_rate : float
        Services per unit time of work: the inverse of their mean.
    """

    params = {"service_rate": rate()}
    largest = 10**4
    can_share = False
    slowed = False

    def __init__(self, phases: int = 4, capacity: int = 20, **values: float) -> None:
        self.phases = whole(phases, "phases", 1, 1000)
        super().__init__(1, capacity, **values)

    def state_levels(self) -> dict[str, int]:
        """The empty system, then every queue length in every phase."""
        phases = range(1, self.phases + 1)
        return {"0": 0} | {f"{n}.{i}": n for n in range(1, self.capacity + 1) for i in phases}

    def moves(self) -> Moves:
        """Arrivals up; each phase is ``phases`` times as fast as the service."""
        yield 0, "1.1", "load", 1.0
        for n in range(1, self.capacity + 1):
            for i in range(1, self.phases + 1):
                if n < self.capacity:
                    yield f"{n}.{i}", f"{n + 1}.{i}", "load", 1.0
                done = f"{n - 1}.1" if n > 1 else 0
                then = f"{n}.{i + 1}" if i < self.phases else done
                yield f"{n}.{i}", then, "service_rate", self.phases

    def times_in_order(self, point: Point, waiting: bool) -> Times:
        """The phases that are left of all requests before, and then one's own."""
        state = torch.arange(len(self.states))
        phase = (state - 1) % self.phases  # those that are over, of the request in service
        left = torch.where(state > 0, self.levels.long() * self.phases - phase, 0)
        stages = left + (0 if waiting else self.phases)
        accepted = point.pi * (1 - self.lost)
        weights = accepted.new_zeros((*accepted.shape[:-1], int(stages.max()) + 1))
        weights = weights.index_add(-1, stages, accepted)
        return Erlangs(weights / weights.sum(-1, keepdim=True), self.phases * point.p.service_rate)
