"""The queue: a model in which requests arrive at a load, wait, are served or lost."""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.models._base import Model, Param, Point
from stationary.models.measures import FLOW_MEASURES, Flows, Measure, reward


class Queue(Model):
    """An open queue: requests arrive at the load, and its length numbers its states.

    Parameters
    ----------
    levels : Tensor [n]
        Requests in the system in each state.
    busy : Tensor [n]
        Share of the servers that work in each state.
    lost : Tensor [n], optional
        1 where an arriving request is lost; by default in the last state.
    **rest
        States, edges, params and groups, as for `Model`.
    """

    levels: Tensor
    busy: Tensor
    lost: Tensor

    def __init__(
        self, *, levels: Tensor, busy: Tensor, lost: Tensor | None = None, **rest: Any
    ) -> None:
        super().__init__(**rest)
        if lost is None:
            lost = torch.zeros_like(levels)
            lost[-1] = 1.0
        self.register_buffer("levels", levels, persistent=False)
        self.register_buffer("busy", busy, persistent=False)
        self.register_buffer("lost", lost, persistent=False)

    def flows(self, point: Point) -> Flows:
        """What arrives and what is lost in each state: by default arrivals at the load."""
        return Flows(point.load, point.load * self.lost, torch.zeros_like(point.load))

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that a forecast shows by default."""
        return ("loss", "mean_queue", "throughput", "response_time", "utilisation")

    def measure(self, name: str) -> Measure:
        """Return a measure of the queue, or the probability of a state."""
        if name in FLOW_MEASURES:
            return FLOW_MEASURES[name]
        if name == "mean_queue":
            return reward(self.levels, 0.0, float(self.levels.max()), "mean requests in the system")
        if name == "utilisation" and name in self.measures:
            return reward(self.busy, 0.0, 1.0, "mean share of busy servers")
        return super().measure(name)

    def as_inputs(self, x: Any) -> Tensor:
        """Loads ``[..., 1]``, which must be positive."""
        x = super().as_inputs(x)
        if not bool((x > 0).all() and (x < torch.inf).all()):
            bad = (~((x > 0) & (x < torch.inf))).nonzero()[0].tolist()
            raise InputError(
                f"a load must be positive and finite; got {float(x[tuple(bad)]):g} in window "
                f"{bad[0]}"
            )
        return x

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up: every rate at the mean load."""
        return torch.where(self.per_time == 1, x.mean(), self.theta.detach())


class ServerQueue(Queue):
    """A queue at ``servers`` equal servers; its first parameter is the rate of one of them.

    Parameters
    ----------
    servers : int
        Number of servers.
    capacity : int
        Most requests in the system, waiting or in service.
    **rest
        As for `Queue`.
    """

    servers: int
    capacity: int

    def __init__(self, *, servers: int, capacity: int, **rest: Any) -> None:
        self.servers = servers
        self.capacity = capacity
        super().__init__(**rest)

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up with the mean load, other rates in proportion to it."""
        now = self.theta.detach()
        return now * (x.mean() / self.servers / now[0]) ** self.per_time


def rate(value: float) -> Param:
    """Return a positive parameter that is a rate: per unit of time."""
    return Param(value, per_time=1)


def sizes(servers: int, capacity: int, largest: int = 10**5) -> tuple[int, int, Tensor, Tensor]:
    """Servers and capacity, checked; queue lengths ``0..capacity``; servers at work at each."""
    servers = whole(servers, "servers", 1, 10**9)
    capacity = whole(capacity, "capacity", 1, largest)
    level = torch.arange(capacity + 1, dtype=torch.float64)
    return servers, capacity, level, level.clamp(max=servers)


def steps(capacity: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Edges one level up, and one level down, in order of the level."""
    up = [(k, k + 1) for k in range(capacity)]
    return up, [(j, i) for i, j in up]


def whole(value: Any, name: str, least: int, most: int) -> int:
    """Return ``value`` as an int between two limits, or raise an error that names the option."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not float(value).is_integer() or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}; got {value!r}")
    return int(value)


def named_rates(names: list[str], given: dict[str, float], model: type) -> Param:
    """Return a vector of rates of these names, 1 where none is given; another name is an error."""
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InputError(
            f"{model.__name__} has no parameter {unknown[0]!r}; it has {names[0]}..{names[-1]}"
        )
    return Param([given.get(name, 1.0) for name in names], per_time=1, labels=names)
