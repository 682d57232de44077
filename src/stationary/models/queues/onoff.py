"""Arrivals in bursts: a source that is on or off."""

from __future__ import annotations

import torch
from torch import Tensor

from stationary.models._params import Param, Values, rate
from stationary.models._point import Point
from stationary.models.queues._queue import Moves, ServerQueue


class OnOffArrivals(ServerQueue):
    """A source that is on or off (MMPP-2, silent while off) at a mean rate of the load.

    On, it sends at rate ``load * (1 + burst)``, and it is on for ``1 / (1 + burst)`` of the time,
    so that ``burst`` is the squared coefficient of variation of the arrival rate. It goes on at
    rate ``switching / (1 + burst)`` and off at ``switching * burst / (1 + burst)``: correlations
    die out at rate ``switching``. With little burst or fast switching this is M/M/m/K.

    States are ``0.on, 0.off, 1.on, ...``; ``3`` stands for both states with three requests.
    Requests come only while the source is on, and so see more others than the time average. The
    loss is the share of requests, all of which arrive while it is on.

    Parameters
    ----------
    servers, capacity, service_rate
        As for `MMmK`.
    burst : float
        How much more than the mean comes while on; positive.
    switching : float
        How fast it switches.
    """

    params = {"service_rate": rate(), "burst": Param(0.5), "switching": rate(0.1)}
    exponential = True
    largest = 10**4

    def state_levels(self) -> dict[str, int]:
        """Each queue length with the source on, then off."""
        return {f"{n}.{phase}": n for n in range(self.capacity + 1) for phase in ("on", "off")}

    def terms(self, load: Tensor, p: Values) -> dict[str, Tensor]:
        """Arrivals while on, services, switching on, switching off."""
        on = p.switching / (1 + p.burst)
        arrive = load * (1 + p.burst)
        return {"arrive": arrive, "serve": p.service_rate, "on": on, "off": on * p.burst}

    def moves(self) -> Moves:
        """Arrivals while on; services and switching always."""
        for n in range(self.capacity + 1):
            yield f"{n}.off", f"{n}.on", "on", 1.0
            yield f"{n}.on", f"{n}.off", "off", 1.0
            if n:
                yield f"{n - 1}.on", f"{n}.on", "arrive", 1.0
                for phase in ("on", "off"):
                    yield f"{n}.{phase}", f"{n - 1}.{phase}", "serve", min(n, self.servers)

    def arrivals(self, point: Point) -> Tensor:
        """Requests while the source is on: in every other state."""
        on = torch.arange(len(self.states), device=point.x.device) % 2 == 0
        return point.load * (1 + point.p.burst) * on
