r"""One server whose service goes through phases, so that its time need not be exponential.

A service enters phase i with probability ``enter_i``. A phase ends at rate ``speed_i``; then comes
the next one, or the service is over. A chain of equal phases (Erlang) is steadier than exponential,
a choice between a fast and a slow one (hyperexponential) is more variable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.models._base import Param
from stationary.models.queues._queue import ServerQueue, rate, whole


class PhaseService(ServerQueue):
    """Poisson arrivals at one server with phases; a model says how fast they are.

    States are ``0``, ``1.1``, ``1.2``, ..., ``capacity.phases``; ``3`` stands for all states with
    three requests.

    Parameters
    ----------
    capacity : int
        Most requests in the system.
    first : sequence of int
        Phases in which a service can begin, counted from 0.
    following : sequence of int or None
        For each phase the one after it; None where the service is over.
    params
        As for `Model`.
    """

    _arrives: Tensor
    _speed: Tensor
    _enter: Tensor

    def __init__(
        self,
        *,
        capacity: int,
        first: Sequence[int],
        following: Sequence[int | None],
        params: Mapping[str, float | Param],
    ) -> None:
        count = len(following)

        def at(n: int, phase: int) -> int:
            return 1 + (n - 1) * count + phase

        # Every edge with the phase that ends (count: none, it is an arrival) and the one it enters.
        edges = [(0, at(1, j), count, j) for j in first]
        for n in range(1, capacity + 1):
            for i, then in enumerate(following):
                here = at(n, i)
                if n < capacity:
                    edges.append((here, at(n + 1, i), count, count))
                if then is not None:
                    edges.append((here, at(n, then), i, count))
                elif n == 1:
                    edges.append((here, 0, i, count))
                else:
                    edges += [(here, at(n - 1, j), i, j) for j in first]
        phased = [(n, i) for n in range(1, capacity + 1) for i in range(1, count + 1)]
        level = torch.tensor([0.0, *(n for n, _ in phased)], dtype=torch.float64)
        super().__init__(
            servers=1,
            capacity=capacity,
            states=[0, *(f"{n}.{i}" for n, i in phased)],
            edges=Edges.from_pairs([(i, j) for i, j, *_ in edges], len(level)),
            params=params,
            levels=level,
            busy=(level > 0).to(level),
            lost=(level == capacity).to(level),
            groups=[0, *(n for n, _ in phased)],
        )
        _, _, ends, enters = (torch.tensor(column) for column in zip(*edges, strict=True))
        self.register_buffer("_arrives", (ends == count).to(level), persistent=False)
        self.register_buffer("_speed", ends.clamp(max=count - 1), persistent=False)
        self.register_buffer("_enter", enters, persistent=False)

    @abstractmethod
    def service(self, p: Any) -> tuple[Tensor, Tensor]:
        """Probability ``[..., phases]`` to begin in each phase, and the speed of each."""

    def rates(self, load: Tensor, p: Any) -> Tensor:
        """Arrivals up at the load, phases on, services down into the phases that may begin."""
        enter, speed = self.service(p)
        chance = torch.cat([enter, torch.ones_like(enter[..., :1])], -1)[..., self._enter]
        ends = speed[..., self._speed] * (1 - self._arrives)
        return (load * self._arrives + ends) * chance


class ErlangService(PhaseService):
    """One server whose service is a chain of equal phases: steadier than exponential.

    The squared coefficient of variation of the service time is ``1 / phases``: one phase is
    M/M/1/K, many come near constant service, M/D/1/K.

    Parameters
    ----------
    phases : int
        How many phases; not learnt, compare fits with several.
    capacity : int
        Most requests in the system.
    service_rate : float
        Services per unit time of work: the inverse of their mean.

    Examples
    --------
    >>> import stationary as st
    >>> model = ErlangService(phases=2, capacity=1, service_rate=1.0)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.5000, 0.2500, 0.2500]], dtype=torch.float64, grad_fn=...)
    """

    name = "erlang"

    def __init__(self, phases: int = 4, capacity: int = 20, service_rate: float = 1.0) -> None:
        self.phases = whole(phases, "phases", 1, 1000)
        super().__init__(
            capacity=whole(capacity, "capacity", 1, 10**4),
            first=[0],
            following=[*range(1, self.phases), None],
            params={"service_rate": rate(service_rate)},
        )

    def service(self, p: Any) -> tuple[Tensor, Tensor]:
        """Begin in the first phase; each is ``phases`` times as fast as the service."""
        enter = torch.zeros(self.phases).to(p.service_rate)
        enter[0] = 1.0
        speed = p.service_rate * self.phases
        return enter, speed.expand(*speed.shape[:-1], self.phases)


class HyperexponentialService(PhaseService):
    """One server with fast and slow requests: service more variable than exponential.

    The service time is one of two exponentials, balanced so that each makes half of the mean. Its
    squared coefficient of variation is ``1 + extra_variation``; without any this is M/M/1/K.

    Parameters
    ----------
    capacity : int
        Most requests in the system.
    service_rate : float
        Services per unit time of work: the inverse of their mean.
    extra_variation : float
        Squared coefficient of variation of the service time, beyond 1; positive.

    Examples
    --------
    >>> import stationary as st
    >>> model = HyperexponentialService(capacity=1, service_rate=1.0, extra_variation=1.0)
    >>> st.steady_state(model([1.0])).pi
    tensor([[0.5000, 0.2500, 0.2500]], dtype=torch.float64, grad_fn=...)
    """

    name = "hyperexponential"

    def __init__(
        self, capacity: int = 20, service_rate: float = 1.0, extra_variation: float = 0.5
    ) -> None:
        super().__init__(
            capacity=whole(capacity, "capacity", 1, 10**4),
            first=[0, 1],
            following=[None, None],
            params={"service_rate": rate(service_rate), "extra_variation": extra_variation},
        )

    def service(self, p: Any) -> tuple[Tensor, Tensor]:
        """Two moments, balanced means: ``enter = (1 +- s) / 2``, ``speed = 2 rate enter``."""
        extra = p.extra_variation
        s = (extra / (2 + extra)).sqrt()
        # The second is (1 - s) / 2 with all of its digits.
        enter = torch.cat([(1 + s) / 2, 1 / ((2 + extra) * (1 + s))], -1)
        return enter, 2 * p.service_rate * enter
