"""The queue: a model in which requests arrive at a load, wait, and are served or lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models._params import Param, Values
from stationary.models._point import Point
from stationary.models._rates import join_rates
from stationary.models.latency import Times
from stationary.models.latency.erlangs import Erlangs, geometric
from stationary.models.latency.orders import SHARED, Follower, queue_moves
from stationary.models.latency.tagged import Tagged
from stationary.models.measures import FLOW_MEASURES, Flows, Measure, mean_of_states, reward

_DISCIPLINES = ("fcfs", "ps")

_FEW_STATES = 500
"""States up to which a forecast shows percentiles without being asked."""

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
    discipline : str
        Order of service: ``"fcfs"``, first come, first served, or ``"ps"``, processor sharing: the
        system works on all its requests at once. Queue lengths are the same; response times differ.
    overhead : float, optional
        A constant time that every request spends outside the queue, such as the way there and back.
        If given, it is a parameter, and this its present value; otherwise there is none.
    **rest
        Params and edges, as for `Model`.

    Attributes
    ----------
    levels : Tensor [n]
        Requests in the system in each state.
    serving : Tensor [n]
        Servers at work in each state, from which the utilisation follows: all that have a request,
        unless a model sets it otherwise.
    lost : Tensor [n]
        1 where an arriving request is lost, otherwise 0.
    """

    can_share: ClassVar[bool] = True
    """Whether its queue lengths are those of processor sharing, too."""

    slowed: bool = True
    """Whether requests may change the speed at which those before them are served."""

    drops_all: ClassVar[bool] = False
    """Whether requests that `flows` says are dropped go all at once. Where some go alone, nobody
    knows which, and times are refused."""

    exponential: bool = False
    """Whether services are exponential, at each server at the same rate. Every class declares it,
    because a subclass may have moves of its own."""

    servers: int
    levels: Tensor
    serving: Tensor
    lost: Tensor
    _term: Tensor
    _edge: Tensor
    _times: Tensor

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls.exponential = cls.__dict__.get("exponential", False)
        package, _, file = cls.__module__.rpartition(".")
        if package == __package__ and not file.startswith("_"):
            cls.name = file

    def __init__(
        self,
        *,
        levels: Mapping[str, int],
        servers: int = 1,
        discipline: str = "fcfs",
        overhead: float | None = None,
        **rest: Any,
    ) -> None:
        self.servers = servers
        if discipline not in _DISCIPLINES:
            raise InputError(
                f"discipline must be 'fcfs' (first come, first served) or 'ps' (processor "
                f"sharing); got {discipline!r}"
            )
        if discipline == "ps" and not self.can_share:
            raise InputError(
                f"{type(self).__name__} serves one request after the other; under processor "
                f"sharing the variability of service does not matter: use MMmK with discipline='ps'"
            )
        self.discipline = discipline
        if overhead is not None:
            params = {"overhead": Param(overhead, per_time=-1)}
            rest["params"] = {**rest.get("params", self.params), **params}
        groups = [state.partition(".")[0] for state in levels]
        super().__init__(states=list(levels), groups=groups, **rest)
        level = torch.tensor(list(levels.values()), dtype=torch.float64)
        self.register_buffer("levels", level, persistent=False)
        self.register_buffer("serving", level.clamp(max=servers), persistent=False)
        self.register_buffer("lost", (level == level.max()).to(level), persistent=False)
        self._tagged: dict[bool, Tagged] = {}

    def terms(self, load: Tensor, p: Values) -> dict[str, Tensor]:
        """What rates are multiples of, each ``[..., k]``: by default the load and parameters."""
        return {"load": load, **vars(p)}

    def moves(self) -> Moves:
        """Yield all moves between states; those between the same two states add up."""
        raise NotImplementedError

    def find_edges(self) -> Edges:
        """Collect the moves: the edge of each, and which multiple of which term its rate is."""
        declared = self._declared
        labels: list[str] = []
        for name in self.terms(torch.ones(1, dtype=torch.float64), self.named(self.theta)):
            place = declared.places.get(name)
            labels += [name] if place is None else declared.labels[place]
        column = {label: k for k, label in enumerate(labels)}
        state = {name: k for k, name in enumerate(self.states)}
        edge: dict[tuple[int, int], int] = {}
        entries = [
            (column[term], edge.setdefault((state[str(i)], state[str(j)]), len(edge)), times)
            for i, j, term, times in self.moves()
        ]
        columns = zip(("_term", "_edge", "_times"), zip(*entries, strict=True), strict=True)
        for name, values in columns:
            self.register_buffer(name, torch.tensor(values), persistent=False)
        return Edges.from_pairs(list(edge), len(state))

    def rates(self, load: Tensor, p: Values) -> Tensor:
        """Add up the moves on each edge."""
        rates = join_rates(*self.terms(load, p).values())[..., self._term] * self._times
        if len(self._term) == len(self.edges):
            return rates
        none = rates.new_zeros((*rates.shape[:-1], len(self.edges)))
        return none.index_add(-1, self._edge, rates)

    def flows(self, point: Point) -> Flows:
        """What arrives and what is lost in each state: by default, what meets a full system."""
        arriving = self.arrivals(point)
        offered = point.load if arriving is None else arriving
        return Flows(offered, offered * self.lost)

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that a forecast shows by default: percentiles, where they cost little."""
        known = (self.exponential and self.discipline == "fcfs") or not self.slowed
        few = known and len(self.states) <= _FEW_STATES
        percentiles = ("p50", "p95", "p99") if few else ()
        return ("loss", "response_time", *percentiles, "mean_queue", "throughput", "utilisation")

    def check_times(self, waiting: bool) -> None:
        """Raise if waiting times are asked for where no request waits."""
        if waiting and self.discipline == "ps":
            raise InputError(
                "under processor sharing no request waits: ask for p99 or slower_0.2 instead"
            )

    def measure(self, name: str) -> Measure:
        """Return a measure of the queue, or the probability of a state."""
        if name in FLOW_MEASURES:
            return FLOW_MEASURES[name]
        if name == "mean_queue":
            return mean_of_states(self.levels, "mean requests in the system")
        if name == "utilisation" and name in self.measures:
            return reward(self.serving / self.servers, 0.0, 1.0, "mean share of busy servers")
        return super().measure(name)

    def response_times(self, point: Point) -> Times:
        """How long accepted requests that are served stay, without an overhead."""
        if self.discipline == "ps":
            return self._followed(point, waiting=False)
        return self.times_in_order(point, waiting=False)

    def waiting_times(self, point: Point) -> Times:
        """How long accepted requests wait until their service begins."""
        self.check_times(waiting=True)
        return self.times_in_order(point, waiting=True)

    def times_in_order(self, point: Point, waiting: bool) -> Times:
        """Response or waiting times, first come, first served.

        By default one tagged request is followed through the chain. A model may have a faster way.
        """
        return self._followed(point, waiting)

    def _followed(self, point: Point, waiting: bool) -> Times:
        """Follow a tagged request; its chain is built once."""
        if waiting not in self._tagged:
            shared = self.discipline == "ps"
            levels = self.levels.long().numpy()
            moves = queue_moves(self.edges.src.numpy(), self.edges.dst.numpy(), levels)
            servers = [SHARED if shared else self.servers]
            follower = Follower(moves, levels[None], servers, waiting, self.slowed or shared)
            self._tagged[waiting] = follower.chain()
        rates = self.edge_rates(point.x, point.theta)
        flow = rates * point.pi[..., self.edges.src]
        present = None if waiting else point.mean(self.levels)
        return self._tagged[waiting].times(rates, flow, self._dropped_each(point), present)

    def _dropped_each(self, point: Point) -> Tensor | None:
        """Rate ``[..., n]`` at which each request is dropped unserved; None if none is."""
        gone = self.flows(point).dropped
        if not isinstance(gone, Tensor):
            return None
        if not self.drops_all:
            raise InputError(
                f"{type(self).__name__} does not say which requests leave unserved, so their "
                f"response times are unknown; ask for loss, throughput or mean_queue"
            )
        return gone / self.levels.clamp_min(1.0)

    def found(self, point: Point) -> Tensor:
        """Probability ``[..., K]`` that an accepted request finds ``0..K-1`` others."""
        flow = self.flows(point)
        weights, levels = point.pi * (flow.offered - flow.refused), self.levels.long()
        by_level = weights.new_zeros((*weights.shape[:-1], int(levels.max()) + 1))
        by_level = by_level.index_add(-1, levels, weights)[..., :-1]
        return by_level / by_level.sum(-1, keepdim=True)

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

    def moves(self) -> Moves:
        """Arrivals up and services down."""
        for n in range(self.capacity):
            yield n, n + 1, "load", 1.0
        for n in range(1, self.capacity + 1):
            yield n, n - 1, "service_rate", min(n, self.servers)

    def times_in_order(self, point: Point, waiting: bool) -> Times:
        """Of exponential services: with n >= m others, n - m + 1 must end, at all servers' rate."""
        if not self.exponential:
            return super().times_in_order(point, waiting)
        found, m = self.found(point), min(self.servers, self.capacity)
        stages = torch.cat([found[..., :m].sum(-1, keepdim=True), found[..., m:]], -1)
        times = Erlangs(stages, m * point.p.service_rate)
        if not waiting and m == self.capacity:  # nobody waits
            times = Erlangs(torch.nn.functional.pad(stages, (1, 0)), point.p.service_rate)
        elif not waiting:
            times = Erlangs(geometric(stages, m), times.rate)
        return times

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
