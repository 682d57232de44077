"""Systems that are emptied now and then, or stop working until they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._base import Point
from stationary.models.measures import Flows
from stationary.models.queues._queue import ServerQueue, rate, sizes, steps, whole


class Resetting(ServerQueue):
    """M/M/m/K that is emptied at rate ``reset``, whatever is in it; those requests are lost.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests one busy server finishes per unit time.
    reset : float
        Resets per unit time; positive.

    Examples
    --------
    >>> import stationary as st
    >>> model = Resetting(servers=1, capacity=2, service_rate=1.0, reset=1.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.4286, 0.2857, 0.2857]], dtype=torch.float64, grad_fn=...)
    """

    name = "resetting"
    _slope: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        service_rate: float = 1.0,
        reset: float = 0.01,
    ) -> None:
        servers, capacity, level, busy = sizes(servers, capacity)
        up, down = steps(capacity)
        empty = [(k, 0) for k in range(2, capacity + 1)]  # service empties it from 1, too
        super().__init__(
            servers=servers,
            capacity=capacity,
            states=range(capacity + 1),
            edges=Edges.from_pairs(up + down + empty, capacity + 1),
            params={"service_rate": rate(service_rate), "reset": rate(reset)},
            levels=level,
            busy=busy / servers,
        )
        slope = torch.zeros(3, len(self.edges), dtype=torch.float64)
        slope[0, :capacity] = 1.0
        slope[1, capacity : 2 * capacity] = busy[1:]
        slope[2, capacity] = 1.0
        slope[2, 2 * capacity :] = 1.0
        self.register_buffer("_slope", slope, persistent=False)

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals up, services down, resets to 0."""
        up, down, empty = self._slope
        return load * up + p.service_rate * down + p.reset * empty

    def flows(self, point: Point) -> Flows:
        """A reset drops what is in the system."""
        return Flows(point.load, point.load * self.lost, point.p.reset * self.levels)


class Leaking(ServerQueue):
    """M/M/m/K that fails at rate ``leak``, at any length, until a reset at rate ``reset``.

    While it has failed it is in state ``overload``: what was in it is lost, nothing is served, and
    what comes is lost. A reset leaves it empty. Without a leak this is M/M/m/K, unless it spills.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`; states are ``0..capacity`` and ``overload``.
    spill : int
        1 if an arrival at a full queue makes it fail, too; 0 if that arrival is only lost.
    service_rate : float
        Requests one busy server finishes per unit time.
    leak, reset : float
        Failures and resets per unit time; positive.

    Examples
    --------
    >>> import stationary as st
    >>> model = Leaking(servers=1, capacity=1, service_rate=1.0, leak=1.0, reset=2.0)
    >>> st.steady_state(model([2.0])).pi
    tensor([[0.3333, 0.3333, 0.3333]], dtype=torch.float64, grad_fn=...)
    """

    name = "leaking"
    _slope: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        spill: int = 0,
        service_rate: float = 1.0,
        leak: float = 0.01,
        reset: float = 0.1,
    ) -> None:
        servers, capacity, level, busy = sizes(servers, capacity)
        self.spill = whole(spill, "spill", 0, 1)
        up, down = steps(capacity)
        over = capacity + 1
        fail = [(k, over) for k in range(over)]
        nothing = torch.zeros(1, dtype=torch.float64)
        super().__init__(
            servers=servers,
            capacity=capacity,
            states=[*range(over), "overload"],
            edges=Edges.from_pairs([*up, *down, *fail, (over, 0)], over + 1),
            params={"service_rate": rate(service_rate), "leak": rate(leak), "reset": rate(reset)},
            levels=torch.cat([level, nothing]),
            busy=torch.cat([busy, nothing]) / servers,
            lost=torch.cat([(level == capacity).to(level), nothing + 1]),
        )
        slope = torch.zeros(4, len(self.edges), dtype=torch.float64)
        slope[0, :capacity] = 1.0
        slope[0, -2] = self.spill
        slope[1, capacity : 2 * capacity] = busy[1:]
        slope[2, 2 * capacity : -1] = 1.0
        slope[3, -1] = 1.0
        self.register_buffer("_slope", slope, persistent=False)

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals up, services down, failures to overload, resets from there to 0."""
        up, down, fail, back = self._slope
        return load * up + p.service_rate * down + p.leak * fail + p.reset * back

    def flows(self, point: Point) -> Flows:
        """A failure drops what is in the system; while it lasts, all that come are refused."""
        failing = point.p.leak + self.spill * point.load * self.lost
        return Flows(point.load, point.load * self.lost, failing * self.levels)
