"""Simulated windows, reproducible from a seed.

Three ways to look at a chain for a while, each a `Scheme`:

- `Events`, the paper's Algorithm 1: the uniformized chain at its own events, at rate ``gamma``,
  from its steady state on. In a window of length T there are ``N ~ Poisson(gamma T)`` events and
  ``N + 1`` looks, one at the start.
- `Arrivals`: a continuous-time queue from its steady state on; every arrival notes what it finds.
- `PoissonCounts`: independent ``Poisson(load T pi_j)`` counts, the shortcut in the paper's
  appendix. They have the right means but none of the correlation of the other two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from stationary._support.seeds import as_random
from stationary.data.numbers import as_duration
from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.models import Model, Queue
from stationary.models.chunks import probabilities, split
from stationary.simulation import _kernels
from stationary.simulation.paths import (
    Floats,
    Ints,
    as_inputs,
    by_source,
    check_moves,
    draw_states,
)

MOST_MOVES = 1e11


@dataclass(frozen=True, eq=False)
class Chains:
    """What a scheme draws from: the chains of all windows, and their steady states."""

    model: Model
    generator: Generator
    loads: Floats
    pi: Floats
    arrivals: Floats
    """Requests that arrive per unit time in each state, or in all of them."""

    def start(self, rng: np.random.Generator) -> Ints:
        """Draw a state from every steady state."""
        return draw_states(self.pi, rng)


class Scheme(ABC):
    """A way to look at a chain for a while; a new one says what is counted.

    Examples
    --------
    One look a window, as a rare probe would see the system:

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
    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Ints:
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

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Ints:
        """States ``s_0 .. s_N`` of each window, the initial one included."""
        gamma = self._rates(chains.generator)
        check_moves(float(gamma.sum()) * duration, MOST_MOVES, "events")
        first, target, order = by_source(chains.generator)
        counts = np.zeros(chains.pi.shape, dtype=np.int64)
        rates = np.ascontiguousarray(chains.generator.rates.detach().cpu().numpy()[:, order])
        start, events = chains.start(rng), rng.poisson(gamma * duration)
        _kernels.count_events(first, target, rates, gamma, start, events, rng, counts)
        return counts

    def _rates(self, generator: Generator) -> Floats:
        gamma: Any = self.gamma
        if gamma is not None:
            try:
                gamma = torch.as_tensor(gamma, dtype=torch.float64)
            except (TypeError, ValueError, RuntimeError):
                raise InputError(f"gamma must be a number or one a window; got {gamma!r}") from None
        rate: Floats = generator.event_rate(gamma).detach().cpu().numpy().copy()
        return rate


@dataclass(frozen=True)
class Arrivals(Scheme):
    """What the arrivals of a `Queue` find: a real trajectory, with lost requests noted too."""

    sampling = Sampling.ARRIVAL

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Ints:
        """State each arrival finds before it joins; in the last state it is lost."""
        simple = isinstance(chains.model, Queue) and chains.model.groups == chains.model.states
        if not simple:
            raise InputError(
                f"Arrivals() needs a queue, where arrivals move one state up at the load; "
                f"{type(chains.model).__name__} is none: use Events() or PoissonCounts()"
            )
        first, target, order = by_source(chains.generator)
        rates = chains.generator.rates.detach().cpu().numpy()[:, order].copy()
        source = np.repeat(np.arange(chains.generator.n), np.diff(first))
        up = target == source + 1
        if not np.allclose(rates[:, up], chains.loads[:, None]):
            raise InputError(
                f"Arrivals() needs the rate one state up to be the load; it is not in "
                f"{type(chains.model).__name__}: use Events() or PoissonCounts()"
            )
        rates[:, up] = 0.0
        busiest = chains.generator.exit_rates().amax(-1).detach().cpu().numpy() + chains.loads
        check_moves(float(busiest.sum()) * duration, MOST_MOVES, "arrivals and departures")
        counts = np.zeros(chains.pi.shape, dtype=np.int64)
        start = chains.start(rng)
        _kernels.count_arrivals(first, target, rates, chains.loads, start, duration, rng, counts)
        return counts


@dataclass(frozen=True)
class PoissonCounts(Scheme):
    """Independent ``Poisson(load * duration * pi_j)`` counts of every state."""

    sampling = Sampling.ARRIVAL

    def draw(self, chains: Chains, duration: float, rng: np.random.Generator) -> Ints:
        """Poisson counts with the means that arrivals would see."""
        if not chains.model.arrives_alone:
            raise InputError(
                f"PoissonCounts() are what requests find that arrive one at a time, and those of "
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
        counts: Ints = rng.poisson(mean)
        return counts


def simulate(
    model: Model,
    x: Any,
    duration: float = 1.0,
    seed: int | np.random.Generator = 0,
    scheme: Scheme | None = None,
) -> Windows:
    """Simulate windows of a model at its present parameters; every state is observed.

    Where the model groups its states, as one with phases does, every group is: people count queue
    lengths.

    Windows without a single count, which short ones may have, say nothing and are left out with a
    `DataWarning`; the paper's scheme has none.

    Parameters
    ----------
    model : Model
        The chain.
    x : array_like [M, d] or [M]
        Inputs, a row per window.
    duration : float
        Length of every window.
    seed : int or numpy.random.Generator
        The same seed gives the same windows.
    scheme : Scheme, optional
        What is counted: `Events()` by default, `Arrivals()` or `PoissonCounts()`.

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
        raise InputError(f"scheme must be Events(), Arrivals() or PoissonCounts(); got {scheme!r}")
    duration, rng = as_duration(duration), as_random(seed)
    inputs = as_inputs(model, x)
    distinct, where = torch.unique(inputs, dim=0, return_inverse=True)
    pi = probabilities(model, distinct)
    counts = np.concatenate(
        [
            _counted(model, scheme.draw(_chains(model, part, pi[group]), duration, rng))
            for part, group in zip(
                split(inputs, model.edges), split(where, model.edges), strict=True
            )
        ]
    )
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
    )


def _chains(model: Model, x: Tensor, pi: Tensor) -> Chains:
    with torch.no_grad():
        generator = model(x)
        arrivals = model.arrivals(model.at(x).with_pi(pi))
    loads = x[:, 0].cpu().numpy().copy()
    every = loads[:, None] if arrivals is None else arrivals.cpu().numpy()
    return Chains(model, generator, loads, pi.cpu().numpy(), every)


def _counted(model: Model, counts: Ints) -> Ints:
    """Counts of what people count: of groups, where states are grouped."""
    if model.groups is model.states:
        return counts
    group, n = model.group_index, len(model.states)
    which = scipy.sparse.csr_array((np.ones(n, np.int64), (np.arange(n), group)))
    grouped: Ints = counts @ which
    return grouped
