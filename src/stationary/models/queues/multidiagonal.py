"""The paper's queue in which several requests may leave at once."""

from __future__ import annotations

from typing import Any

from stationary.models._params import rate
from stationary.models.queues._queue import Moves, Queue, whole


class MultiDiagonal(Queue):
    """M/M/Multiple/K: ``d`` requests leave at once at rate ``rate_d``, for d = 1..depth.

    Parameters
    ----------
    depth : int
        Most requests that leave at once.
    capacity : int
        Most requests in the system: states 0..capacity.
    **rates : float
        Present values of ``rate_1``, ``rate_2``, ...
    """

    speed = ("rate",)

    def __init__(self, depth: int = 3, capacity: int = 20, **rates: Any) -> None:
        self.capacity = whole(capacity, "capacity", 1, 10**4)
        self.depth = whole(depth, "depth", 1, self.capacity, ", the capacity")
        labels = [f"rate_{d}" for d in range(1, self.depth + 1)]
        levels = {str(n): n for n in range(self.capacity + 1)}
        super().__init__(levels=levels, params={"rate": rate([1.0] * self.depth, labels)}, **rates)

    def moves(self) -> Moves:
        """Arrivals one state up; up to ``depth`` requests leave at once."""
        for n in range(self.capacity):
            yield n, n + 1, "load", 1.0
        for d in range(1, self.depth + 1):
            for n in range(d, self.capacity + 1):
                yield n, n - d, f"rate_{d}", 1.0
