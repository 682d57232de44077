"""The paper's most flexible queue: a free rate from every state to every lower one."""

from __future__ import annotations

from stationary.errors import InputError
from stationary.models.queues._jumps import JumpQueue
from stationary.models.queues._queue import whole


class UpperTriangular(JumpQueue):
    """Arrivals one state up, a free rate from every state to every lower one; the last is overload.

    States are the queue lengths ``0..states-2`` and ``overload``, which an arrival at a full queue
    enters; in it the queue is full. It has ``states (states - 1) / 2`` parameters, far more than a
    few observed states determine.

    Parameters
    ----------
    states : int
        Number of states, overload included.
    **rates : float
        Present values of ``rate_i_j``, from state i down to state j.
    """

    speed = ()

    def __init__(self, states: int = 22, **rates: float) -> None:
        n = whole(states, "states", 3, 1000)
        levels = {str(k): k for k in range(n - 1)} | {"overload": n - 2}
        jumps = {(i, j): f"rate_{i}_{j}" for i in range(n) for j in range(i)}
        super().__init__(levels, jumps, **rates)
        self.lost[-2] = 0.0  # an arrival at a full queue enters overload

    def check_times(self, waiting: bool) -> None:
        """Raise, because overload says nothing of single requests."""
        del waiting
        raise InputError(
            "UpperTriangular does not say which requests are in overload, so their response times "
            "are unknown; use MultiDiagonal or another queue"
        )
