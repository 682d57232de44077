"""The paper's queue in which several requests may leave at once."""

from __future__ import annotations

from stationary.models.queues._jumps import JumpQueue
from stationary.models.queues._queue import whole


class MultiDiagonal(JumpQueue):
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

    def __init__(self, depth: int = 3, capacity: int = 20, **rates: float) -> None:
        self.capacity = whole(capacity, "capacity", 1, 10**4)
        self.depth = whole(depth, "depth", 1, self.capacity, ", the capacity")
        lengths = range(self.capacity + 1)
        jumps = {(n, n - d): f"rate_{d}" for d in range(1, self.depth + 1) for n in lengths[d:]}
        super().__init__({str(n): n for n in lengths}, jumps, **rates)
