"""One trajectory of a chain, jump by jump, and what every simulation starts from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from stationary._support.arguments import explained
from stationary._support.seeds import as_random
from stationary._support.types import Array
from stationary.data.numbers import as_duration
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.models import Model
from stationary.simulation import _kernels
from stationary.steady import steady_state
from stationary.terms.categories import as_state

MOST_JUMPS = 2e8
"""Jumps of one trajectory, which is held in memory."""
MOST_MOVES = 1e11
"""Moves of all windows together: hours of work."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One trajectory of a chain.

    Attributes
    ----------
    times : ndarray
        When the chain entered each state, starting with 0.
    states : ndarray
        The states it entered.
    duration : float
        When the trajectory ends.
    """

    times: Array
    states: Array
    duration: float

    def occupancy(self, n: int) -> Array:
        """Share of time in each of the states ``0..n-1``."""
        if n <= self.states.max():
            raise InputError(f"n={n} is too small: the trajectory visits state {self.states.max()}")
        spent = np.diff(self.times, append=self.duration)
        return np.bincount(self.states, weights=spent, minlength=n) / self.duration

    def at(self, times: Any) -> Array:
        """States at these times."""
        when = np.asarray(times, dtype=np.float64)
        if not bool(((when >= 0) & (when <= self.duration)).all()):
            raise InputError(f"times must lie in [0, {self.duration:g}]; got {times!r:.60}")
        return np.asarray(self.states[np.searchsorted(self.times, when, side="right") - 1])


@explained
def trajectory(
    model: Model | Generator,
    x: Any = None,
    *,
    duration: float,
    seed: int | np.random.Generator = 0,
    start: int | str | None = None,
) -> Trajectory:
    """Simulate one trajectory, jump by jump (Gillespie).

    Parameters
    ----------
    model : Model or Generator
        A model with the inputs ``x`` of one window, or one chain.
    x : array_like
        Inputs for a model.
    duration : float
        Length of the trajectory.
    seed : int or numpy.random.Generator
        The same seed gives the same trajectory.
    start : int or str, optional
        First state; drawn from the steady state by default.

    Examples
    --------
    >>> from stationary.models import MMmK
    >>> path = trajectory(MMmK(capacity=1, service_rate=3.0), x=1.0, duration=1e4, seed=1)
    >>> path.occupancy(2).round(1)
    array([0.8, 0.2])
    """
    duration, rng = as_duration(duration), as_random(seed)
    with torch.no_grad():
        generator = _one_chain(model, x)
        exits = generator.exit_rates()
        if start is None:
            pi = steady_state(generator).pi
            first_state = int(draw_states(pi.cpu().numpy()[None], rng)[0])
            speed = float(exits @ pi)
        else:
            first_state = _state_index(model, generator, start)
            speed = float(exits.max())
    check_size(speed * duration, MOST_JUMPS, "jumps")
    times, states = _kernels.walk(*edges_by_source(generator), first_state, duration, rng)
    times.flags.writeable = states.flags.writeable = False
    return Trajectory(times, states, duration)


def _one_chain(model: Model | Generator, x: Any) -> Generator:
    if isinstance(model, Model):
        if x is None:
            raise InputError("a model needs x=, the inputs of one window")
        generator = model(as_inputs(model, x))
    elif not isinstance(model, Generator):
        raise InputError(f"trajectory takes a model or a generator; got {type(model).__name__}")
    elif x is not None:
        raise InputError("x= goes with a model; a generator has its rates already")
    else:
        generator = model
    if math.prod(generator.batch_shape) != 1:
        raise InputError(
            f"a trajectory belongs to one chain; got a batch of shape "
            f"{tuple(generator.batch_shape)}: give the inputs of one window, or pick one chain"
        )
    return Generator(generator.edges, generator.rates.reshape(-1))


def _state_index(model: Model | Generator, generator: Generator, start: int | str) -> int:
    state = as_state(start)
    if isinstance(model, Model):
        return model.state_index(str(state))
    if isinstance(state, str) or state >= generator.n:
        raise InputError(f"start must be a state 0..{generator.n - 1}; got {start!r}")
    return state


def draw_states(pi: Array, rng: np.random.Generator) -> Array:
    """Draw a state from each row."""
    below = np.cumsum(pi, -1)
    mark = rng.random((len(pi), 1)) * below[:, -1:]  # as rows add up to 1 only up to rounding
    return np.asarray((below <= mark).sum(-1))


def edges_by_source(generator: Generator) -> tuple[Array, Array, Array]:
    """Return where each state's edges begin, their targets, and their rates ``[..., E]``."""
    # Not `Edges.rows`, which also sorts by target: a seed would then give other windows.
    source, target = generator.edges.numpy
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(generator.n + 1))
    rates = generator.rates.detach().cpu().numpy()[..., order]
    return first, np.ascontiguousarray(target[order]), np.ascontiguousarray(rates)


def as_inputs(model: Model, x: Any) -> torch.Tensor:
    """Return the inputs ``[M, d]`` of a model, at least one row of them and finite."""
    inputs = model.as_inputs(x, least=1)
    if not bool(inputs.isfinite().all()):
        row = int((~inputs.isfinite()).nonzero()[0, 0])
        raise InputError(f"x must be finite; got {inputs[row].tolist()} in window {row}")
    return inputs.detach()


def check_size(expected: float, most: float, what: str) -> None:
    """Refuse what would run for hours or fill the memory."""
    if expected > most:
        raise InputError(
            f"this would simulate about {expected:.1e} {what}, more than {most:.0e}; shorten "
            f"duration or take fewer windows"
        )
