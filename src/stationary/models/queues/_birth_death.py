r"""Queues that grow and shrink by one request: the base of those with a closed form.

With births ``b_n`` from n to n + 1 and deaths ``d_n`` from n to n - 1 the flows between neighbours
balance, so that

    pi_n  ~  prod_{k=1..n} b_{k-1} / d_k.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._params import Values
from stationary.models._point import Point
from stationary.models._rates import join_rates, repeated
from stationary.models.measures import Flows
from stationary.models.queues._queue import ServerQueue


class BirthDeathQueue(ServerQueue):
    """States ``0..capacity``; a model says at which rates the queue grows and shrinks.

    Deaths are services. Where some are requests that leave unserved, `flows` must say how many, or
    they count as served. Births are the requests that are let in. Those that arrive beyond them are
    lost; where the clients themselves send fewer, `arrivals` must say how many.
    """

    def births(self, load: Tensor, p: Values) -> Tensor:
        """Rates ``[..., capacity]`` up from ``0..capacity-1``: the load, unless a model differs."""
        del p
        return repeated(load, self.capacity)

    def deaths(self, p: Values) -> Tensor:
        """Rates ``[..., capacity]`` down from ``1..capacity``: those of the busy servers."""
        return p.service_rate * self.serving[1:]

    def find_edges(self) -> Edges:
        """One state up, then one state down, each in order of the queue length."""
        up = [(n, n + 1) for n in range(self.capacity)]
        return Edges.from_pairs([*up, *((j, i) for i, j in up)], self.capacity + 1)

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Births, then deaths."""
        return join_rates(self.births(load, p), self.deaths(p))

    def flows(self, point: Point) -> Flows:
        """What arrives, and what of it is not let in: all but the births."""
        offered = super().flows(point).offered
        births = torch.nn.functional.pad(self.births(point.load, point.p), (0, 1))
        return Flows(offered, offered - births)

    def closed_form(self, x: Any) -> Tensor:
        """Steady state ``[..., n]`` by the product formula, in log space."""
        point = self.at(x, self.theta.detach())
        step = self.births(point.load, point.p).log() - self.deaths(point.p).log()
        return torch.softmax(torch.nn.functional.pad(step.cumsum(-1), (1, 0)), -1)
