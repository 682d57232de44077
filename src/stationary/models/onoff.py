"""Arrivals that come in bursts: a source that is on or off."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.measures import Flows
from stationary.models._queue import ServerQueue, sizes


class OnOffArrivals(ServerQueue):
    """A source that is on or off (MMPP-2, silent while off) at a mean rate of the load.

    On, it sends at rate ``x * (1 + burst)``, and it is on for ``1 / (1 + burst)`` of the time, so
    that ``burst`` is the squared coefficient of variation of the arrival rate. It goes on at rate
    ``switching / (1 + burst)`` and off at ``switching * burst / (1 + burst)``: correlations die out
    at rate ``switching``. With little burst or fast switching this is M/M/m/K.

    States are ``0.on, 0.off, 1.on, ...``; ``3`` stands for both states with three requests.
    Requests come only while the source is on, so arrivals do not see time averages: see
    ``sees_time_averages``. The loss is the share of requests, which find it on.

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
    sees_time_averages = False
    _down: Tensor
    _on: Tensor
    _full: Tensor

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
            params={"service_rate": service_rate, "burst": burst, "switching": switching},
            units=["switching"],
            levels=level.repeat_interleave(2),
            busy=busy.repeat_interleave(2) / servers,
            flows=self._flows,
            groups=[n for n, _ in phased],
        )
        sends = torch.tensor([phase == "on" for _, phase in phased], dtype=torch.float64)
        self.register_buffer("_on", sends, persistent=False)
        self.register_buffer("_full", self.levels == capacity, persistent=False)
        self.register_buffer("_down", busy[1:].repeat_interleave(2), persistent=False)

    def rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Arrivals while on, services, switching on, switching off."""
        service_rate, burst, switching = theta
        levels = self.capacity + 1
        on = (switching / (1 + burst)).expand(levels)
        still = torch.cat([service_rate * self._down, on, on * burst])
        return torch.cat(
            [(x * (1 + burst)).expand(-1, self.capacity), still.expand(len(x), -1)], -1
        )

    def _flows(self, x: Tensor, theta: Tensor) -> Flows:
        offered = x * (1 + theta[1]) * self._on
        return Flows(offered, offered * self._full, torch.zeros_like(x))
