"""Measures: named functionals of the steady state that a user cares about.

A measure is a function of the inputs ``x [M, d]`` and the steady states ``pi [M, n]``, and of the
parameters where ``pi`` alone does not tell, together with the interval its values live in, which
decides the scale an uncertainty interval is built on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from stationary.errors import InputError


@dataclass(frozen=True)
class Measure:
    """A functional of the steady state.

    Parameters
    ----------
    function : callable
        ``function(x, pi) -> Tensor [M]``, differentiable in ``pi``; ``function(x, pi, theta)`` with
        ``of_theta``, which reads the parameters by position: more may follow its own.
    low, high : float
        The values it can take: ``0, 1`` for a probability, ``0, inf`` for a mean.
    about : str
        One line for people.
    of_theta : bool
        Whether the function takes the parameters too.

    Examples
    --------
    The probability that at least two requests are in a three-state system:

    >>> import torch
    >>> crowded = Measure(lambda x, pi: pi[..., 2:].sum(-1), 0.0, 1.0, "two or more in the system")
    >>> crowded(torch.ones(1, 1), torch.tensor([[0.5, 0.3, 0.2]]))
    tensor([0.2000])
    """

    function: Callable[..., Tensor]
    low: float = -math.inf
    high: float = math.inf
    about: str = ""
    of_theta: bool = False

    def __call__(self, x: Tensor, pi: Tensor, theta: Tensor | None = None) -> Tensor:
        """Value of the measure for every window."""
        if not self.of_theta:
            return self.function(x, pi)
        if theta is None:
            raise InputError(
                f"this measure ({self.about}) depends on the parameters: pass theta, too"
            )
        return self.function(x, pi, theta)


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


class Flows(NamedTuple):
    """Requests per unit time in each state, ``[M, n]`` or what broadcasts to it."""

    offered: Tensor
    """Those that arrive."""
    refused: Tensor
    """Those of them that are not let in."""
    dropped: Tensor
    """Those that were let in and leave unserved."""


def flow_measures(
    levels: Tensor, busy: Tensor, flows: Callable[[Tensor, Tensor], Flows]
) -> dict[str, Measure]:
    """Return the measures of `queue_measures` where arrivals and losses follow the parameters.

    Parameters
    ----------
    levels, busy : Tensor [n]
        As for `queue_measures`.
    flows : callable
        ``flows(load [M, 1], theta) -> Flows``.
    """

    def mean(pi: Tensor, rate: Tensor) -> Tensor:
        return (pi * rate).sum(-1)

    def loss(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
        flow = flows(x[..., :1], theta)
        return mean(pi, flow.refused + flow.dropped) / mean(pi, flow.offered)

    def throughput(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
        flow = flows(x[..., :1], theta)
        return mean(pi, flow.offered - flow.refused - flow.dropped)

    def response_time(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
        flow = flows(x[..., :1], theta)  # Little's law on those let in, served or not
        return (pi @ levels.to(pi)) / mean(pi, flow.offered - flow.refused)

    changed = {
        "loss": Measure(loss, 0.0, 1.0, "share of arriving requests that are lost", True),
        "throughput": Measure(throughput, 0.0, math.inf, "requests served per unit time", True),
        "response_time": Measure(
            response_time, 0.0, math.inf, "mean time in the system of an accepted request", True
        ),
    }
    return queue_measures(levels, torch.zeros_like(levels), busy) | changed
