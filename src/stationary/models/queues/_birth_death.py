r"""Queues that grow and shrink by one: the base of those with a closed form.

With births ``b_n`` from n to n + 1 and deaths ``d_n`` from n to n - 1 the flows between neighbours
balance, so that

    pi_n  ~  prod_{k=1..n} b_{k-1} / d_k.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models.queues._queue import ServerQueue, sizes, steps


class BirthDeathQueue(ServerQueue):
    """States ``0..capacity``; a model says at which rates the queue grows and shrinks.

    Parameters
    ----------
    servers, capacity : int
        As for `ServerQueue`.
    **rest
        Parameters, and what else `ServerQueue` takes.
    """

    _busy: Tensor

    def __init__(self, *, servers: int, capacity: int, **rest: Any) -> None:
        servers, capacity, level, busy = sizes(servers, capacity)
        up, down = steps(capacity)
        super().__init__(
            servers=servers,
            capacity=capacity,
            states=range(capacity + 1),
            edges=Edges.from_pairs(up + down, capacity + 1),
            levels=level,
            busy=busy / servers,
            **rest,
        )
        self.register_buffer("_busy", busy[1:], persistent=False)

    def births(self, load: Tensor, p: Any) -> Tensor:
        """Rates ``[..., capacity]`` up from ``0..capacity-1``: the load, unless a model differs."""
        del p
        return load.expand(*load.shape[:-1], self.capacity)

    def deaths(self, p: Any) -> Tensor:
        """Rates ``[..., capacity]`` down from ``1..capacity``: those of the busy servers."""
        return p.service_rate * self._busy

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Births, then deaths."""
        return torch.cat(torch.broadcast_tensors(self.births(load, p), self.deaths(p)), -1)

    def closed_form(self, x: Any) -> Tensor:
        """Steady state ``[..., n]`` by the product formula, in log space."""
        point = self.at(x, self.theta.detach())
        step = self.births(point.load, point.p).log() - self.deaths(point.p).log()
        return torch.softmax(torch.nn.functional.pad(step.cumsum(-1), (1, 0)), -1)
