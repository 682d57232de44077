"""Measures: named functionals of the steady state that a user cares about.

A measure is a function of a model at some inputs and parameters, a `Point`, and the range of its
values, which decides on which scale an uncertainty interval is built. Models make their measures
when they are asked for: a forecast of one number computes one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.models._point import Point


@dataclass(frozen=True)
class Measure:
    """A functional of the steady state.

    Parameters
    ----------
    function : callable
        ``function(point) -> Tensor [...]``, differentiable, where ``point.pi [..., n]`` is the
        steady state, ``point.load [..., 1]`` the load and ``point.p`` the parameters by name.
    low, high : float
        The values it can take: ``0, 1`` for a probability, ``0, inf`` for a mean.
    about : str
        One line for people.
    time : bool
        Whether it is a length of time.
    share : float, optional
        For a percentile of the response time, the share of requests that take no longer.

    Examples
    --------
    The probability that at least two requests are in the system:

    >>> import stationary as st
    >>> crowded = Measure(lambda point: point.pi[..., 2:].sum(-1), 0.0, 1.0)
    >>> crowded(st.models.MMmK(capacity=2).at([1.0])).detach()
    tensor([0.3333], dtype=torch.float64)
    """

    function: Callable[[Point], Tensor]
    low: float = -math.inf
    high: float = math.inf
    about: str = ""
    time: bool = False
    share: float | None = None

    def __call__(self, point: Point) -> Tensor:
        """Value of the measure at every input, ``[...]``."""
        return self.function(point)


@dataclass(frozen=True, eq=False)
class _Reward:
    """The mean of a value per state; no closure, so that models that keep one can be pickled."""

    values: Tensor | nn.Module

    def __call__(self, point: Point) -> Tensor:
        if isinstance(self.values, Tensor):
            return point.pi @ self.values.to(point.pi)
        return point.mean(self.values.to(point.x.device)(point.values))


def reward(values: Any, low: float = -math.inf, high: float = math.inf, about: str = "") -> Measure:
    """Long-run mean of a value per state, between two bounds.

    Values are fixed, ``[n]``, or a module that computes them from inputs and parameters by name.
    """
    if not isinstance(values, nn.Module):
        try:
            values = torch.as_tensor(values, dtype=torch.float64)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(f"a measure takes one number per state; got {values!r:.80}") from None
    return Measure(_Reward(values), low, high, about)


def mean_of_states(values: Any, about: str) -> Measure:
    """Long-run mean of fixed values ``[n]``, which lies between the least and the largest."""
    low, high = float(values.min()), float(values.max())
    if low == high:  # an interval needs space around the value
        low, high = -math.inf, math.inf
    return reward(values, low, high, about)


def probability(states: Any, about: str = "") -> Measure:
    """Long-run probability of a set of states, given as a 0/1 vector."""
    return reward(states, 0.0, 1.0, about)


class Flows(NamedTuple):
    """Requests per unit time in each state, ``[..., n]`` or what broadcasts to it."""

    offered: Tensor
    """Requests that arrive."""
    refused: Tensor
    """Those of them that are not let in."""
    dropped: Tensor | float = 0.0
    """Requests that were let in and leave unserved."""


def _loss(point: Point) -> Tensor:
    flow = point.model.flows(point)
    return point.mean(flow.refused + flow.dropped) / point.mean(flow.offered)


def _throughput(point: Point) -> Tensor:
    flow = point.model.flows(point)
    return point.mean(flow.offered - flow.refused - flow.dropped)


def _response_time(point: Point) -> Tensor:
    flow = point.model.flows(point)
    # Little's law for all requests that were let in, served or not.
    inside = point.mean(point.model.levels) / point.mean(flow.offered - flow.refused)
    overhead = vars(point.p).get("overhead")
    return inside if overhead is None else inside + overhead[..., 0]


FLOW_MEASURES = {
    "loss": Measure(_loss, 0.0, 1.0, "share of arriving requests that are lost"),
    "throughput": Measure(_throughput, 0.0, math.inf, "requests served per unit time"),
    "response_time": Measure(
        _response_time, 0.0, math.inf, "mean time in the system of an accepted request", True
    ),
}
"""Of a model that has ``flows(point) -> Flows`` and, for the last, ``levels [n]``."""
