"""The queue: a model in which requests arrive at a load, wait, are served or lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.measures import Flows, flow_measures, queue_measures
from stationary.models._base import Model


class Queue(Model):
    """An open queue: requests arrive at rate ``x[:, 0]``, its length numbers its states.

    Parameters
    ----------
    levels : Tensor [n]
        Requests in the system in each state.
    busy : Tensor [n]
        Share of the servers that work in each state.
    lost : Tensor [n], optional
        1 where an arriving request is lost; by default in the last state.
    flows : callable, optional
        What arrives and what is lost, as for `flow_measures`, where arrivals are not Poisson at
        the load in every state or more is lost than the arrivals in some states.
    states, edges, params, real, groups
        As for `Model`.
    """

    levels: Tensor

    def __init__(
        self,
        *,
        states: Sequence[str | int],
        edges: Edges,
        params: Mapping[str, float],
        levels: Tensor,
        busy: Tensor,
        lost: Tensor | None = None,
        flows: Callable[[Tensor, Tensor], Flows] | None = None,
        real: Sequence[str] = (),
        groups: Sequence[str | int] | None = None,
    ) -> None:
        if lost is None:
            lost = torch.zeros(edges.n, dtype=torch.float64)
            lost[-1] = 1.0
        super().__init__(
            states=states,
            edges=edges,
            params=params,
            real=real,
            measures=queue_measures(levels, lost, busy)
            if flows is None
            else flow_measures(levels, busy, flows),
            groups=groups,
        )
        self.register_buffer("levels", levels, persistent=False)

    def as_inputs(self, x: Any) -> Tensor:
        """Loads ``[M, 1]``, which must be positive."""
        x = super().as_inputs(x)
        if not bool((x > 0).all() and (x < torch.inf).all()):
            row = int((~((x > 0) & (x < torch.inf))).nonzero()[0, 0])
            raise InputError(
                f"a load must be positive and finite; got {float(x[row, 0]):g} in window {row}"
            )
        return x

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up: every rate at the mean load."""
        return x.mean().expand(len(self.theta)).clone()


class ServerQueue(Queue):
    """A queue at ``servers`` equal servers; its first parameter is the rate of one of them.

    Parameters
    ----------
    servers : int
        Number of servers.
    capacity : int
        Most requests in the system, waiting or in service.
    units : sequence of str
        Other parameters that are rates, too, and so depend on the unit of time.
    **rest
        As for `Queue`.
    """

    def __init__(
        self, *, servers: int, capacity: int, units: Sequence[str] = (), **rest: Any
    ) -> None:
        self.servers = servers
        self.capacity = capacity
        super().__init__(**rest)
        self._rates = [k for k, name in enumerate(self.param_names) if name in units]

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up with the mean load, other rates in proportion to it."""
        start = self.theta.detach().clone()
        service = x.mean() / self.servers
        start[self._rates] *= service / start[0]
        start[0] = service
        return start

    @property
    def options(self) -> dict[str, Any]:
        """Servers and capacity."""
        return {"servers": self.servers, "capacity": self.capacity}


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


def named_rates(names: list[str], given: dict[str, float], model: type) -> dict[str, float]:
    """Return the rates of these names, 1 where none is given; another name is an error."""
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InputError(
            f"{model.__name__} has no parameter {unknown[0]!r}; it has {names[0]}..{names[-1]}"
        )
    return {name: given.get(name, 1.0) for name in names}
