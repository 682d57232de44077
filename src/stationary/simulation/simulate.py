"""Simulated windows, reproducible from a seed.

A `Scheme` says how a chain is sampled, in steady state, for the length of a window:

- `Events`, the paper's Algorithm 1: the uniformized chain at its own events, at rate ``gamma``. In
  a window of length T there are ``N ~ Poisson(gamma T)`` events and ``N + 1`` samples, one of them
  at the start.
- `Arrivals`: a queue in continuous time; every arrival is a sample of the state that it finds.
- `Responses`: a queue whose requests are followed one by one; every arrival is a sample of the
  state that it finds, and the response times of those that are served fall in buckets.
- `PoissonCounts`: independent ``Poisson(load T pi_j)`` counts, the shortcut in the paper's
  appendix. They have the right means but lack the correlation of the other two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.arguments import Checked, explained
from stationary._support.seeds import as_random
from stationary._support.types import Array
from stationary.data.numbers import as_duration
from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.models import Model, Queue
from stationary.models.chunks import split, steady_states
from stationary.simulation import _kernels
from stationary.simulation.trajectories import (
    MOST_MOVES,
    as_inputs,
    check_size,
    draw_states,
    edges_by_source,
)


@dataclass(frozen=True, eq=False)
class Chains:
    """What a scheme samples: the chains of all windows, and their steady states."""

    model: Model
    generator: Generator
    loads: Array
    pi: Array
    arrivals: Array
    """Requests that arrive per unit time in each state, or in all of them."""

    def start(self, rng: np.random.Generator) -> Array:
        """Draw a state from every steady state."""
        return draw_states(self.pi, rng)


class Scheme(Checked, ABC):
    """A way to sample a chain for the length of a window; a new one says what is counted.

    Examples
    --------
    One sample per window, as a rare probe would see the system:

    >>> from stationary.models import MMmK
    >>> class Probe(Scheme):
    ...     sampling = Sampling.TIME
    ...     def draw(self, chains, duration, rng):
    ...         return np.eye(chains.generator.n, dtype=int)[chains.start(rng)]
    >>> simulate(MMmK(capacity=2, service_rate=20.0), x=[10.0] * 50, scheme=Probe()).counts.sum()
    tensor(50., dtype=torch.float64)
    """

    sampling: Sampling

    @abstractmethod
    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Array:
        """Return counts ``[M, n]`` of every state in every window."""


@dataclass(frozen=True)
class Events(Scheme):
    """The paper's Algorithm 1: the uniformized chain at its own events.

    Parameters
    ----------
    gamma : float or sequence of float, optional
        Event rate, for all windows or one for each, above every exit rate; by default just above.
    """

    gamma: float | Sequence[float] | None = None
    sampling = Sampling.TIME

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Array:
        """States ``s_0 .. s_N`` of each window, the initial one included."""
        given: Any = self.gamma
        try:
            given = None if given is None else torch.as_tensor(given, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"gamma must be a number or one per window; got {given!r}") from None
        gamma = chains.generator.event_rate(given).detach().cpu().numpy().copy()
        check_size(float(gamma.sum()) * duration, MOST_MOVES, "events")
        edges, start = edges_by_source(chains.generator), chains.start(rng)
        events = rng.poisson(gamma * duration)
        return np.asarray(_kernels.count_events(*edges, gamma, start, events, rng))


@dataclass(frozen=True)
class Arrivals(Scheme):
    """The states that the arrivals of a `Queue` find, those of lost requests included."""

    sampling = Sampling.ARRIVAL

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Array:
        """State each arrival finds before it joins; in the last state it is lost."""
        name, instead = type(chains.model).__name__, "use Events() or PoissonCounts()"
        if not isinstance(chains.model, Queue) or chains.model.groups != chains.model.states:
            raise InputError(
                f"Arrivals() needs a queue, where arrivals move one state up at the load; got "
                f"{name}: {instead}"
            )
        first, target, rates = edges_by_source(chains.generator)
        up = target == np.repeat(np.arange(chains.generator.n), np.diff(first)) + 1
        if not np.allclose(rates[:, up], chains.loads[:, None]):
            raise InputError(
                f"Arrivals() needs the rate one state up to be the load, which it is not in "
                f"{name}: {instead}"
            )
        busiest = chains.generator.exit_rates().amax(-1).detach().cpu().numpy() + chains.loads
        check_size(float(busiest.sum()) * duration, MOST_MOVES, "arrivals and departures")
        other, start = np.where(up, 0.0, rates), chains.start(rng)
        return np.asarray(
            _kernels.count_arrivals(first, target, other, chains.loads, start, duration, rng)
        )


@dataclass(frozen=True)
class PoissonCounts(Scheme):
    """Independent ``Poisson(load * duration * pi_j)`` counts of every state."""

    sampling = Sampling.ARRIVAL

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Array:
        """Poisson counts with the means that arrivals would see."""
        if not chains.model.arrives_alone:
            raise InputError(
                f"PoissonCounts() are of requests that arrive one at a time, and those of "
                f"{type(chains.model).__name__} come in batches: use Events()"
            )
        if not (chains.loads > 0).all():
            raise InputError(
                f"PoissonCounts() needs positive loads; got {chains.loads.min():g} in window "
                f"{int(chains.loads.argmin())}"
            )
        mean = chains.arrivals * duration * chains.pi
        if mean.max() > 2.0**53:
            raise InputError(f"duration {duration:g} gives counts above 2**53; shorten it")
        return np.asarray(rng.poisson(mean))


@dataclass(frozen=True)
class Responses(Scheme):
    """Response times of the requests of a `Queue`, and the states that arriving requests find.

    Requests are followed one by one, in the order of service of the model (its ``discipline``).

    Parameters
    ----------
    edges : sequence of float, optional
        Edges of the latency buckets; by default 60, geometric, from the fastest requests of the
        lightest load to the slowest of the heaviest.
    """

    edges: Sequence[float] | None = None
    sampling = Sampling.ARRIVAL

    def buckets(self, model: Model, x: Tensor) -> Array:
        """The edges that were given, or those that suit the loads."""
        if not isinstance(model, Queue):
            raise InputError(f"Responses() needs a queue; got {type(model).__name__}: use Events()")
        if self.edges is not None:
            return np.asarray(self.edges, dtype=float)
        with torch.no_grad():
            ends = x[x[:, 0].argsort()][[0, -1]]
            point = model.at(ends)
            low, high = (model.measure(name)(point) for name in ("p0.1", "p9999"))
        return np.geomspace(float(low.min()), 2 * float(high.max()), 60)

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Array:
        """Counts of the states found, then of the buckets."""
        model: Any = chains.model
        x = torch.from_numpy(chains.loads)[:, None]
        edges = self.buckets(model, x)
        point = model.at(x)
        with torch.no_grad():
            lead = model.measure("p9999")(point).numpy()
            gone = model.flows(point.with_pi(torch.from_numpy(chains.pi))).dropped
            overhead = vars(point.p).get("overhead", torch.zeros(1)).detach().expand(len(x), 1)
        first, target, rates = edges_by_source(chains.generator)
        levels = model.levels.long().numpy()
        source = np.repeat(np.arange(len(levels)), np.diff(first))
        leave = np.maximum(levels[source] - levels[target], 0)
        unserved = np.zeros(rates.shape)
        if isinstance(gone, Tensor):
            # Edges that take several requests away drop them; the rest is dropped on single ones.
            unserved[:, leave > 1] = 1.0
            rest = gone.expand(len(x), -1).numpy().copy()
            np.subtract.at(rest.T, source, (rates * leave * (leave > 1)).T)
            single = leave == 1
            unserved[:, single] = np.clip(rest[:, source[single]] / rates[:, single], 0.0, 1.0)
        busiest = chains.generator.exit_rates().amax(-1).detach().cpu().numpy()
        check_size(float((busiest * (lead + duration)).sum()), MOST_MOVES, "moves")
        found, buckets = _kernels.respond(
            (first, target, levels, unserved),
            rates,
            chains.arrivals * model.lost.numpy(),
            (model.servers, model.discipline == "ps"),
            chains.start(rng),
            (lead, duration),
            overhead[:, 0].double().numpy().copy(),
            edges,
            rng,
        )
        return np.concatenate([found, buckets], -1)


@explained
def simulate(
    model: Model,
    x: Any,
    duration: float = 1.0,
    seed: int | np.random.Generator = 0,
    scheme: Scheme | None = None,
) -> Windows:
    """Simulate windows of a model at its present parameters; every state is observed.

    Where the model groups its states, as one with phases does, the groups are observed, because
    people count queue lengths.

    Windows without a single count, as short ones may be, tell nothing and are left out with a
    `DataWarning`; the paper's scheme makes none of them.

    Parameters
    ----------
    model : Model
        The chain.
    x : array_like [M, d] or [M]
        Inputs, one row per window.
    duration : float
        Length of every window.
    seed : int or numpy.random.Generator
        The same seed gives the same windows.
    scheme : Scheme, optional
        What is counted: `Events()` by default, `Arrivals()`, `PoissonCounts()` or `Responses()`.

    Examples
    --------
    >>> from stationary.models import MMmK
    >>> simulate(MMmK(capacity=2, service_rate=25.0), x=[11.0, 12.0, 13.0], seed=1).observe
    (0, 1, 2)
    """
    if not isinstance(model, Model):
        raise InputError(f"simulate takes a model; got {type(model).__name__}")
    scheme = Events() if scheme is None else scheme
    if not isinstance(scheme, Scheme):
        raise InputError(
            f"scheme must be Events(), Arrivals(), PoissonCounts() or Responses(); got {scheme!r}"
        )
    duration, rng = as_duration(duration), as_random(seed)
    inputs = as_inputs(model, x)
    distinct, where = torch.unique(inputs, dim=0, return_inverse=True)
    pi = steady_states(model, distinct)
    timed: dict[str, Any] = {}
    if isinstance(scheme, Responses):
        scheme = Responses(scheme.buckets(model, inputs).tolist())
        timed = {"edges": scheme.edges}
    # Large chains go a few windows at a time, because of their memory.
    parts = zip(split(inputs, model.edges), split(where, model.edges), strict=True)
    drawn = np.concatenate(
        [scheme.draw(_chains(model, part, pi[group]), duration, rng) for part, group in parts]
    )
    states, latency = np.split(drawn, [len(model.states)], axis=1)
    counts = np.zeros((len(inputs), len(model.visible)), dtype=np.int64)
    np.add.at(counts.T, model.group_index, states.T)
    if not counts.any():
        raise InputError(
            f"nothing was seen in {len(inputs)} windows of duration {duration:g}; lengthen them"
        )
    return Windows(
        inputs,
        counts,
        model.visible,
        scheme.sampling,
        model.inputs,
        drop_empty=True,
        duration=duration,
        latency=latency if timed else None,
        **timed,
    )


def _chains(model: Model, x: Tensor, pi: Tensor) -> Chains:
    with torch.no_grad():
        generator = model(x)
        arrivals = model.arrivals(model.at(x).with_pi(pi))
    loads = x[:, 0].cpu().numpy().copy()
    rates = loads[:, None] if arrivals is None else arrivals.cpu().numpy()
    return Chains(model, generator, loads, pi.cpu().numpy(), rates)
