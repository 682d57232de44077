"""Requests that come several at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._base import Point
from stationary.models.measures import Flows
from stationary.models.queues._queue import ServerQueue, rate, sizes, steps


class BatchArrivals(ServerQueue):
    """Requests come in batches of geometric size with mean ``1 + extra``; what fits is let in.

    The load x counts requests: batches come at rate ``x p`` with ``p = 1 / (1 + extra)``, one of
    size k with probability ``p q**(k-1)``, ``q = 1 - p``. The loss is the share of requests lost,
    not of batches that find it full: with r places left it is ``q**r``. Without extra this is
    M/M/m/K.

    The later requests of a batch find the earlier ones: counts by arriving requests are refused,
    see ``arrives_alone``.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests one busy server finishes per unit time.
    extra : float
        Mean number of requests that come along with the first of a batch; positive.

    Examples
    --------
    >>> import stationary as st
    >>> model = BatchArrivals(servers=1, capacity=2, service_rate=2.0, extra=1.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.5000, 0.2500, 0.2500]], dtype=torch.float64, grad_fn=...)
    """

    name = "batch"
    arrives_alone = False
    _fills: Tensor
    _size: Tensor
    _down: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        service_rate: float = 1.0,
        extra: float = 0.1,
    ) -> None:
        servers, capacity, level, busy = sizes(servers, capacity, 10**4)
        jumps = [(n, k) for n in range(capacity) for k in range(n + 1, capacity + 1)]
        down = steps(capacity)[1]
        super().__init__(
            servers=servers,
            capacity=capacity,
            states=range(capacity + 1),
            edges=Edges.from_pairs(jumps + down, capacity + 1),
            params={"service_rate": rate(service_rate), "extra": extra},
            levels=level,
            busy=busy / servers,
        )
        place = torch.tensor(jumps, dtype=torch.float64)
        self.register_buffer("_size", place[:, 1] - place[:, 0], persistent=False)
        self.register_buffer("_fills", place[:, 1] == capacity, persistent=False)
        self.register_buffer("_down", busy[1:], persistent=False)

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Batches of every size up, those that fill the system with all larger ones; services."""
        more, last = p.extra / (1 + p.extra), 1 / (1 + p.extra)
        up = load * last * more ** (self._size - 1) * torch.where(self._fills, 1.0, last)
        down = p.service_rate * self._down
        return torch.cat([up, down.expand(*up.shape[:-1], -1)], -1)

    def flows(self, point: Point) -> Flows:
        """What does not fit is refused, the later requests of a batch first."""
        more = point.p.extra / (1 + point.p.extra)
        refused = point.load * more ** (self.capacity - self.levels)
        return Flows(point.load, refused, torch.zeros_like(point.load))
