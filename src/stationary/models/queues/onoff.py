"""Arrivals that come in bursts: a source that is on or off."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._base import Point
from stationary.models.measures import Flows
from stationary.models.queues._queue import ServerQueue, rate, sizes


class OnOffArrivals(ServerQueue):
    """A source that is on or off (MMPP-2, silent while off) at a mean rate of the load.

    On, it sends at rate ``x * (1 + burst)``, and it is on for ``1 / (1 + burst)`` of the time, so
    that ``burst`` is the squared coefficient of variation of the arrival rate. It goes on at rate
    ``switching / (1 + burst)`` and off at ``switching * burst / (1 + burst)``: correlations die out
    at rate ``switching``. With little burst or fast switching this is M/M/m/K.

    States are ``0.on, 0.off, 1.on, ...``; ``3`` stands for both states with three requests.
    Requests come only while the source is on, and so find more others than the time average. The
    loss is the share of requests, which find it on.

    Parameters
    ----------
    servers, capacity : int
        As for `MMmK`.
    service_rate : float
        Requests one busy server finishes per unit time.
    burst : float
        How much more than the mean comes while on; positive.
    switching : float
        How fast it switches.

    Examples
    --------
    >>> import stationary as st
    >>> model = OnOffArrivals(servers=1, capacity=1, service_rate=1.0, burst=1.0, switching=2.0)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.2143, 0.3571, 0.2857, 0.1429]], dtype=torch.float64, grad_fn=...)
    """

    name = "onoff"
    _down: Tensor
    _on: Tensor

    def __init__(
        self,
        servers: int = 1,
        capacity: int = 20,
        service_rate: float = 1.0,
        burst: float = 0.5,
        switching: float = 0.1,
    ) -> None:
        servers, capacity, level, busy = sizes(servers, capacity, 10**4)
        on, off = range(0, 2 * capacity + 2, 2), range(1, 2 * capacity + 2, 2)
        arrive = list(itertools.pairwise(on))
        serve = [(k, k - 2) for k in range(2, 2 * capacity + 2)]
        switch = [*zip(off, on, strict=True), *zip(on, off, strict=True)]
        phased = [(n, phase) for n in range(capacity + 1) for phase in ("on", "off")]
        super().__init__(
            servers=servers,
            capacity=capacity,
            states=[f"{n}.{phase}" for n, phase in phased],
            edges=Edges.from_pairs(arrive + serve + switch, len(phased)),
            params={
                "service_rate": rate(service_rate),
                "burst": burst,
                "switching": rate(switching),
            },
            levels=level.repeat_interleave(2),
            busy=busy.repeat_interleave(2) / servers,
            lost=(level == capacity).to(level).repeat_interleave(2),
            groups=[n for n, _ in phased],
        )
        sends = torch.tensor([phase == "on" for _, phase in phased], dtype=torch.float64)
        self.register_buffer("_on", sends, persistent=False)
        self.register_buffer("_down", busy[1:].repeat_interleave(2), persistent=False)

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals while on, services, switching on, switching off."""
        up = load * (1 + p.burst)
        on = p.switching / (1 + p.burst)
        batch, levels = up.shape[:-1], self.capacity + 1
        parts = [(up, self.capacity), (p.service_rate * self._down, len(self._down))]
        parts += [(on, levels), (on * p.burst, levels)]
        return torch.cat([part.expand(*batch, size) for part, size in parts], -1)

    def arrivals(self, point: Point) -> Tensor:
        """Requests while the source is on."""
        return point.load * (1 + point.p.burst) * self._on

    def flows(self, point: Point) -> Flows:
        """Requests while the source is on; those that find it full are refused."""
        offered = self.arrivals(point)
        return Flows(offered, offered * self.lost, torch.zeros_like(point.load))
