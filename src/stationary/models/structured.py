"""The paper's structured chains: arrivals move one state up, departures may skip states down."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models.queues._queue import Queue, named_rates, whole


class MultiDiagonal(Queue):
    """M/M/Multiple/K: ``d`` requests leave together at rate ``rate_d``, for d = 1..depth.

    Parameters
    ----------
    depth : int
        Most requests that leave at once.
    capacity : int
        Most requests in the system: states 0..capacity.
    **rates : float
        Present values of ``rate_1``, ``rate_2``, ...
    """

    name = "multidiagonal"
    speed = ("rate",)
    _leaving: Tensor

    def __init__(self, depth: int = 3, capacity: int = 20, **rates: float) -> None:
        self.capacity = whole(capacity, "capacity", 1, 10**4)
        self.depth = whole(depth, "depth", 1, 10**4)
        if self.depth > self.capacity:
            raise InputError(
                f"depth must be at most the capacity, {self.capacity}, or rates would have no "
                f"effect; got {self.depth}"
            )
        n = self.capacity + 1
        up = [(k, k + 1) for k in range(self.capacity)]
        down = [(k, k - d) for d in range(1, self.depth + 1) for k in range(d, n)]
        level = torch.arange(n, dtype=torch.float64)
        super().__init__(
            states=range(n),
            edges=Edges.from_pairs(up + down, n),
            params={
                "rate": named_rates(
                    [f"rate_{d}" for d in range(1, self.depth + 1)], rates, type(self)
                )
            },
            levels=level,
            busy=(level > 0).to(torch.float64),
        )
        leaving = torch.tensor([i - j - 1 for i, j in down])
        self.register_buffer("_leaving", leaving, persistent=False)

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals up at the load; from k to k - d at ``rate_d``."""
        return _beside(load, self.capacity, p.rate[..., self._leaving])


class UpperTriangular(Queue):
    """Arrivals one state up, a free rate from every state to every lower one; the last is overload.

    States are the queue sizes ``0..states-2`` and ``overload``, which an arrival at a full queue
    enters; in it the queue is full. It has ``states (states - 1) / 2`` parameters, far more than a
    few observed states determine.

    Parameters
    ----------
    states : int
        Number of states, overload included.
    **rates : float
        Present values of ``rate_i_j``, from state i down to state j.
    """

    name = "uppertriangular"
    speed = ()

    def __init__(self, states: int = 22, **rates: float) -> None:
        n = whole(states, "states", 3, 1000)
        up = [(k, k + 1) for k in range(n - 1)]
        down = [(i, j) for i in range(n) for j in range(i)]
        level = torch.arange(n, dtype=torch.float64)
        level[-1] = n - 2
        super().__init__(
            states=[*range(n - 1), "overload"],
            edges=Edges.from_pairs(up + down, n),
            params={"rate": named_rates([f"rate_{i}_{j}" for i, j in down], rates, type(self))},
            levels=level,
            busy=(level > 0).to(torch.float64),
        )

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals up at the load; from i to j < i at ``rate_i_j``."""
        return _beside(load, len(self.states) - 1, p.rate)


def _beside(load: Tensor, count: int, down: Tensor) -> Tensor:
    """Arrivals at ``count`` edges beside other rates, whatever their batches."""
    batch = np.broadcast_shapes(load.shape[:-1], down.shape[:-1])
    return torch.cat([load.expand(*batch, count), down.expand(*batch, -1)], -1)
