"""The paper's most flexible queue: a free rate from every state to every lower one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from stationary.errors import InputError
from stationary.models._params import rate
from stationary.models.queues._queue import Moves, Queue, whole


class UpperTriangular(Queue):
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

    def __init__(self, states: int = 22, **rates: Any) -> None:
        n = whole(states, "states", 3, 1000)
        levels = {str(k): k for k in range(n - 1)} | {"overload": n - 2}
        labels = [f"rate_{i}_{j}" for i in range(n) for j in range(i)]
        super().__init__(levels=levels, params={"rate": rate([1.0] * len(labels), labels)}, **rates)
        self.lost[-2] = 0.0  # an arrival at a full queue enters overload

    def moves(self) -> Moves:
        """Arrivals one state up; rates from every state to every lower one."""
        for i, j in pairwise(self.states):
            yield i, j, "load", 1.0
        for i, start in enumerate(self.states):
            for j, end in enumerate(self.states[:i]):
                yield start, end, f"rate_{i}_{j}", 1.0

    def check_times(self, waiting: bool) -> None:
        """Raise, because overload says nothing of single requests."""
        del waiting
        raise InputError(
            "UpperTriangular does not say which requests are in overload, so their response times "
            "are unknown; use MultiDiagonal or another queue"
        )
