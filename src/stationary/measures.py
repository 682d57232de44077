"""Measures: named functionals of the steady state that a user cares about.

A measure is a function of the inputs ``x [M, d]`` and the steady states ``pi [M, n]`` together with
the interval its values live in, which decides the scale an uncertainty interval is built on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Measure:
    """A functional of the steady state.

    Parameters
    ----------
    function : callable
        ``function(x, pi) -> Tensor [M]``, differentiable in ``pi``.
    low, high : float
        The values it can take: ``0, 1`` for a probability, ``0, inf`` for a mean.
    about : str
        One line for people.

    Examples
    --------
    The probability that at least two requests are in a three-state system:

    >>> import torch
    >>> crowded = Measure(lambda x, pi: pi[..., 2:].sum(-1), 0.0, 1.0, "two or more in the system")
    >>> crowded(torch.ones(1, 1), torch.tensor([[0.5, 0.3, 0.2]]))
    tensor([0.2000])
    """

    function: Callable[[Tensor, Tensor], Tensor]
    low: float = -math.inf
    high: float = math.inf
    about: str = ""

    def __call__(self, x: Tensor, pi: Tensor) -> Tensor:
        """Value of the measure for every window."""
        return self.function(x, pi)


def reward(
    vector: Tensor, low: float = -math.inf, high: float = math.inf, about: str = ""
) -> Measure:
    """Long-run mean of a reward per state, ``pi @ vector``."""
    return Measure(lambda _, pi: pi @ vector.to(pi), low, high, about)


def probability(states: Tensor, about: str = "") -> Measure:
    """Long-run probability of a set of states, given as a 0/1 vector."""
    return reward(states.to(torch.float64), 0.0, 1.0, about)


def queue_measures(levels: Tensor, lost: Tensor, busy: Tensor) -> dict[str, Measure]:
    """Measures of an open queue fed by Poisson arrivals at rate ``x[:, 0]``.

    Parameters
    ----------
    levels : Tensor [n]
        Requests in the system (waiting or in service) in each state.
    lost : Tensor [n]
        1 where an arriving request is lost.
    busy : Tensor [n]
        Share of the servers that work in each state.
    """

    def throughput(x: Tensor, pi: Tensor) -> Tensor:
        return x[..., 0] * (pi @ (1 - lost).to(pi))

    def response_time(x: Tensor, pi: Tensor) -> Tensor:
        return (pi @ levels.to(pi)) / throughput(x, pi)  # Little's law on accepted requests

    return {
        "loss": probability(lost, "share of arriving requests that are lost"),
        "mean_queue": reward(levels, 0.0, float(levels.max()), "mean requests in the system"),
        "throughput": Measure(throughput, 0.0, math.inf, "accepted requests per unit time"),
        "response_time": Measure(
            response_time, 0.0, math.inf, "mean time in the system of an accepted request"
        ),
        "utilisation": reward(busy, 0.0, 1.0, "mean share of busy servers"),
    }
