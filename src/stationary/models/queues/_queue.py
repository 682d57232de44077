"""The queue: a model in which requests arrive at a load, wait, and are served or lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models._params import Values
from stationary.models._point import Point
from stationary.models.latency import percentile, percentile_of
from stationary.models.measures import FLOW_MEASURES, Flows, Measure, reward

Moves = Iterator[tuple[int | str, int | str, str, float]]
"""From state, to state, the name of a term, and which multiple of it the rate is."""


class Queue(Model):
    """An open queue: requests arrive at the load, and every state has a queue length.

    A subclass in a file of this folder is a model of the command line, by the name of its file.

    Parameters
    ----------
    levels : mapping
        Requests in the system for every state, by name. A state such as ``3.on`` is counted as
        ``3``. A request that arrives in a state of the highest level is lost.
    servers : int
        Number of servers.
    **rest
        Params and edges, as for `Model`.

    Attributes
    ----------
    levels : Tensor [n]
        Requests in the system in each state.
    serving : Tensor [n]
        Servers at work in each state.
    lost : Tensor [n]
        1 where an arriving request is lost, otherwise 0.
    """

    servers: int
    levels: Tensor
    serving: Tensor
    lost: Tensor

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        package, _, file = cls.__module__.rpartition(".")
        if package == __package__ and not file.startswith("_"):
            cls.name = file

    def __init__(self, *, levels: Mapping[str, int], servers: int = 1, **rest: Any) -> None:
        self.servers = servers
        groups = [state.partition(".")[0] for state in levels]
        super().__init__(states=list(levels), groups=groups, **rest)
        level = torch.tensor(list(levels.values()), dtype=torch.float64)
        self.register_buffer("levels", level, persistent=False)
        self.register_buffer("serving", level.clamp(max=servers), persistent=False)
        self.register_buffer("lost", (level == level.max()).to(level), persistent=False)

    def flows(self, point: Point) -> Flows:
        """What arrives and what is lost in each state: by default, what meets a full system."""
        arriving = self.arrivals(point)
        offered = point.load if arriving is None else arriving
        return Flows(offered, offered * self.lost)

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
            return reward(self.serving / self.servers, 0.0, 1.0, "mean share of busy servers")
        share = percentile_of(name)
        if share is not None and hasattr(self, "sojourn"):
            return percentile(share)
        return super().measure(name)

    def check_inputs(self, x: Tensor) -> None:
        """Loads must be positive and finite."""
        bad = ~((x > 0) & (x < torch.inf))
        if bool(bad.any()):
            place = tuple(bad.nonzero()[0].tolist())
            raise InputError(
                f"a load must be positive and finite; got {float(x[place]):g} in window {place[0]}"
            )

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up: every rate at the mean load."""
        return torch.where(self.per_time == 1, x.mean(), self.theta.detach())


class ServerQueue(Queue):
    """M/M/m/K, which a model changes by moves of its own; its first parameter is a server's rate.

    Parameters
    ----------
    servers : int
        Number of servers.
    capacity : int
        Most requests in the system, waiting or in service.
    **values : float
        Present values of the parameters that the class declares.
    """

    capacity: int
    largest: ClassVar[int] = 10**5
    """The largest capacity that the model takes."""

    _multiples: Tensor

    @property
    def smallest(self) -> int:
        """The smallest capacity that the model can be given."""
        return self.servers

    def __init__(self, servers: int = 1, capacity: int = 20, **values: Any) -> None:
        servers = whole(servers, "servers", 1, 10**9)
        self.capacity = whole(capacity, "capacity", 1, self.largest)
        super().__init__(levels=self.state_levels(), servers=servers, **values)

    def state_levels(self) -> dict[str, int]:
        """Requests in the system in each state, by name: by default states ``0..capacity``."""
        return {str(n): n for n in range(self.capacity + 1)}

    def terms(self, load: Tensor, p: Values) -> dict[str, Tensor]:
        """What rates are multiples of, each ``[..., 1]``: by default the load and parameters."""
        return {"load": load, **vars(p)}

    def moves(self) -> Moves:
        """Yield all moves between states; those between the same two states add up."""
        for n in range(self.capacity):
            yield n, n + 1, "load", 1.0
        for n in range(1, self.capacity + 1):
            yield n, n - 1, "service_rate", min(n, self.servers)

    def find_edges(self) -> Edges:
        """Collect the moves; ``_multiples [terms, E]`` holds what each edge sums up."""
        one = torch.ones(1, dtype=torch.float64)
        row = {name: k for k, name in enumerate(self.terms(one, self.named(self.theta)))}
        state = {name: k for k, name in enumerate(self.states)}
        edge: dict[tuple[int, int], int] = {}
        entries = [
            (row[term], edge.setdefault((state[str(i)], state[str(j)]), len(edge)), times)
            for i, j, term, times in self.moves()
        ]
        rows, edges, times = (np.array(column) for column in zip(*entries, strict=True))
        multiples = np.zeros((len(row), len(edge)))
        np.add.at(multiples, (rows, edges), times)
        self.register_buffer("_multiples", torch.from_numpy(multiples), persistent=False)
        return Edges.from_pairs(list(edge), len(state))

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Add up the multiples of all terms."""
        terms = zip(self.terms(load, p).values(), self._multiples.unbind(), strict=True)
        # One sum over all edges: in a fit to fifty windows every operation counts.
        first, *others = (value * multiple for value, multiple in terms)
        return sum(others, first)

    def start(self, x: Tensor) -> Tensor:
        """Service that just keeps up with the mean load, other rates in proportion to it."""
        now = self.theta.detach()
        return now * (x.mean() / self.servers / now[0]) ** self.per_time


def whole(value: Any, name: str, least: int, most: int, why: str = "") -> int:
    """Return ``value`` as an int between two limits, or raise an error that names the option."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not float(value).is_integer() or not least <= value <= most:
        raise InputError(
            f"{name} must be a whole number from {least} to {most}{why}; got {value!r}"
        )
    return int(value)
