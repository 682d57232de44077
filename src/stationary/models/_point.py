"""A model at given inputs and parameters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from stationary.gradients import Gradient
from stationary.models.latency._base import Shifted, Times
from stationary.solvers import Accuracy, Solver
from stationary.steady import steady_state

if TYPE_CHECKING:
    from stationary.models._base import Model
    from stationary.models._params import Values


class Point:
    """A model at inputs ``x [..., d]``, checked, and at parameters ``theta [..., P]``.

    This is what observations and measures read.
    """

    model: Any  # a Model; measures of queues also read its levels and flows

    def __init__(
        self,
        model: Model,
        x: Tensor,
        theta: Tensor,
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        index: Tensor | None = None,
    ) -> None:
        self.model, self.x, self.theta = model, x, theta
        self._how = solver, gradient, index
        self._accuracy = Accuracy.NORMWISE

    @property
    def load(self) -> Tensor:
        """The first input, ``[..., 1]``."""
        return self.x[..., :1]

    @cached_property
    def p(self) -> Values:
        """Parameters by name, each ``[..., size]``."""
        return self.model.named(self.theta)

    @property
    def values(self) -> dict[str, Tensor]:
        """Inputs and parameters by name, each ``[..., 1]``."""
        return dict(zip(self.model.inputs, self.x.split(1, -1), strict=True)) | vars(self.p)

    @cached_property
    def pi(self) -> Tensor:
        """Steady states ``[..., n]``, solved when first asked for."""
        solver, gradient, index = self._how
        generator = self.model.generator(self.x, self.theta, index)
        state = steady_state(generator, solver, gradient)
        self._accuracy = state.accuracy
        return state.pi

    @property
    def accuracy(self) -> Accuracy:
        """Whether rare states are right too; only likely ones, where that is not known."""
        _ = self.pi  # solving it tells
        return self._accuracy

    def with_pi(self, pi: Tensor) -> Point:
        """Return the same point with steady states that were computed elsewhere."""
        other = Point(self.model, self.x, self.theta)
        other.__dict__["pi"] = pi
        return other

    @cached_property
    def response_times(self) -> Times:
        """How long accepted requests stay, with a parameter ``overhead`` outside the queue."""
        times, overhead = self.model.response_times(self), vars(self.p).get("overhead")
        return times if overhead is None else Shifted(times, overhead)

    @cached_property
    def waiting_times(self) -> Times:
        """How long accepted requests wait for their service."""
        return self.model.waiting_times(self)

    def mean(self, per_state: Tensor) -> Tensor:
        """Long-run mean ``[...]`` of a quantity with the value ``per_state [..., n]``."""
        return (self.pi * per_state).sum(-1)
