"""Requests that arrive several at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._params import Param, Values, rate
from stationary.models._point import Point
from stationary.models._rates import join_rates
from stationary.models.measures import Flows
from stationary.models.queues._queue import ServerQueue


class BatchArrivals(ServerQueue):
    """Requests come in batches of geometric size with mean ``1 + extra``; what fits is let in.

    The load counts requests: batches come at rate ``load * p`` with ``p = 1 / (1 + extra)``, one of
    size k with probability ``p q**(k-1)``, ``q = 1 - p``. The loss is the share of requests lost,
    not of batches that meet a full system: with r places left it is ``q**r``. Without extra this is
    M/M/m/K.

    The later requests of a batch see the earlier ones: counts by arriving requests are refused,
    see ``arrives_alone``.

    Parameters
    ----------
    servers, capacity, service_rate
        As for `MMmK`.
    extra : float
        Mean number of requests that come with the first of a batch; positive.
    """

    params = {"service_rate": rate(), "extra": Param(0.1)}
    exponential = True
    arrives_alone = False
    largest = 10**4
    _size: Tensor
    _fills: Tensor

    def find_edges(self) -> Edges:
        """From every length to every longer one, then one state down."""
        n = self.capacity + 1
        jumps = torch.triu_indices(n, n, 1)
        down = torch.tensor([range(1, n), range(n - 1)])
        self.register_buffer("_size", (jumps[1] - jumps[0]).double(), persistent=False)
        self.register_buffer("_fills", jumps[1] == self.capacity, persistent=False)
        src, dst = torch.cat([jumps, down], 1)
        return Edges(src, dst, n)

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Batches of every size up, those that fill the system with all larger ones; services."""
        more, last = p.extra / (1 + p.extra), 1 / (1 + p.extra)
        up = load * last * more ** (self._size - 1) * torch.where(self._fills, 1.0, last)
        return join_rates(up, p.service_rate * self.serving[1:])

    def flows(self, point: Point) -> Flows:
        """What does not fit is refused, the later requests of a batch first."""
        more = point.p.extra / (1 + point.p.extra)
        return Flows(point.load, point.load * more ** (self.capacity - self.levels))

    def found(self, point: Point) -> Tensor:
        """A request finds what its batch found, and those of the batch that come before it."""
        more = point.p.extra / (1 + point.p.extra)
        length = self.levels[:-1]
        earlier = (length - length[:, None]).triu()  # of the batch, from what it found
        weights = torch.triu(more[..., None] ** earlier)
        found = (point.pi[..., :-1, None] * weights).sum(-2)
        return found / found.sum(-1, keepdim=True)
