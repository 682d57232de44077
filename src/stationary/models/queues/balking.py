"""Requests that turn away from a long queue."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.models._params import Param, Values, rate
from stationary.models._point import Point
from stationary.models.measures import Flows
from stationary.models.queues._birth_death import BirthDeathQueue


class Balking(BirthDeathQueue):
    """An arrival that must wait for w others joins with probability ``1 / (1 + balking * w)``.

    w is how many must leave before its service starts, 0 while a server is free. Requests that turn
    away count as lost, as do those that arrive at a full system. Without balking this is M/M/m/K.

    Requests that turn away leave no trace in a log: those that are counted on arrival are the ones
    that were willing to join.

    Parameters
    ----------
    servers, capacity, service_rate
        As for `MMmK`.
    balking : float
        Positive; at 1, half of those who would wait for one other turn away.

    Examples
    --------
    >>> import stationary as st
    >>> model = Balking(servers=1, capacity=2, service_rate=1.0, balking=1.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.2000, 0.4000, 0.4000]], dtype=torch.float64, grad_fn=...)
    """

    params = {"service_rate": rate(), "balking": Param(0.1)}
    exponential = True

    def reluctance(self, p: Values) -> Tensor:
        """Requests that turn away for each one that joins, ``[..., n]``: ``balking * w``."""
        return p.balking * (self.levels - self.servers + 1).clamp(min=0)

    def births(self, load: Tensor, p: Values) -> Tensor:
        """The load, thinned by those who turn away."""
        return load / (1 + self.reluctance(p)[..., :-1])

    def arrivals(self, point: Point) -> Tensor:
        """Those willing to join, whether or not there is room for them."""
        return point.load / (1 + self.reluctance(point.p))

    def flows(self, point: Point) -> Flows:
        """Those who turn away are refused, and all who arrive at a full system."""
        away = self.reluctance(point.p)
        share = torch.where(self.lost > 0, 1.0, away / (1 + away))
        return Flows(point.load, point.load * share)
