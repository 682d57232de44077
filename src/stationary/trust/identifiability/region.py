"""The parameters that explain the data almost as well as the best ones, and questions about them.

A question is a measure at one input. It is asked on a scale that keeps its range: the log odds of a
share, the logarithm of a positive number. Its value on that scale is its level here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import RateError, ReducibleError, SolverError
from stationary.learning.inference import Link
from stationary.learning.likelihood import Likelihood
from stationary.models import Model, Point
from stationary.models.measures import Measure

REACH = 20.0
"""E-folds that a parameter or a measure may go from its estimate; farther is as good as open."""

TIGHT = 1e-6
"""How well the ends of a range keep to the bound, as a share of it."""


@dataclass(frozen=True)
class Row:
    """One question: a measure at one input, on the scale its ends are searched on.

    Attributes
    ----------
    x : Tensor [1, d]
        The input.
    name : str
        Of the measure.
    measure : Measure
        What is asked for.
    value : float
        At the estimates.
    reach : float
        E-folds from the estimate, and from even odds, at which an end counts as open.
    sides : tuple of int
        Ends to search for: 0 the lower, 1 the upper.
    """

    x: Tensor
    name: str
    measure: Measure
    value: float
    reach: float = REACH
    sides: tuple[int, ...] = (0, 1)

    @property
    def _link(self) -> Link:
        return Link(self.measure)

    def level(self, value: Tensor) -> Tensor:
        """Log odds, logarithm, or multiple of the estimate of a measure of either sign."""
        low, high = self.measure.low, self.measure.high
        if self._link.free:
            return value / (abs(self.value) or 1.0)
        if not self._link.bounded:
            return (value - low).clamp_min(1e-300).log()
        share = ((value - low) / (high - low)).clamp(1e-300, 1 - 1e-16)
        return share.log() - (-share).log1p()

    def natural(self, level: float, start: float) -> float:
        """Value at a level; an end of the measure's own range where that is as good as reached."""
        low, high = self.measure.low, self.measure.high
        if self.is_open(level, start):
            return low if level < start else high
        if self._link.free:
            return level * (abs(self.value) or 1.0)
        return float(self._link.back(np.array(level)))

    def is_open(self, level: float, start: float) -> bool:
        """Whether a level that started at another is so far out that a search may stop."""
        if self._link.free:
            return False
        even = 0.0 if self._link.bounded else start
        return level <= min(start, even) - self.reach or level >= max(start, even) + self.reach


class Region:
    """The parameters within some nats of the best fit, and the ends of every row seen in it.

    Parameters
    ----------
    likelihood : Likelihood
        Negative log-likelihood.
    z : ndarray [P]
        The best fit.
    bound : float
        Nats by which it may be exceeded.
    """

    def __init__(self, likelihood: Likelihood, z: Array, bound: float) -> None:
        self.likelihood, self.z, self.bound = likelihood, z, bound
        self.lowest, _ = likelihood.value_and_gradient(z)
        self.ask([])

    def ask(self, rows: Sequence[Row]) -> None:
        """Take these questions, with the best fit as all that is known about them."""
        self.rows = tuple(rows)
        self.start = self._levels(self.z)
        self.ends = np.stack([self.start, self.start], -1)  # [R, 2]: lowest and highest level
        self.points = np.tile(self.z, (len(rows), 2, 1))  # where they were seen

    @property
    def model(self) -> Model:
        """The chain."""
        return self.likelihood.model

    def cost(self, z: Array) -> tuple[float, Array]:
        """Nats above the best fit as a share of the bound, and its gradient."""
        try:
            value, gradient = self.likelihood.value_and_gradient(z)
        except (RateError, ReducibleError, SolverError):
            return math.inf, np.zeros_like(z)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return math.inf, np.zeros_like(z)
        return (value - self.lowest) / self.bound, gradient / self.bound

    def visit(self, z: Array) -> bool:
        """Note what every row comes to at a point of the region; False if it is outside."""
        if not self.cost(z)[0] <= 1 + TIGHT:
            return False
        try:
            levels = self._levels(z)
        except (RateError, ReducibleError, SolverError):
            return False
        for side, better in enumerate((levels < self.ends[:, 0], levels > self.ends[:, 1])):
            self.ends[better, side] = levels[better]
            self.points[better, side] = z
        return True

    def moved(self, row: int, side: int) -> float:
        """How far an end is from the best fit."""
        return float(abs(self.ends[row, side] - self.start[row]))

    def range(self, row: int) -> tuple[float, float]:
        """Ends of a row as values of its measure."""
        asked, start = self.rows[row], float(self.start[row])
        low, high = self.ends[row].tolist()
        return asked.natural(low, start), asked.natural(high, start)

    def is_open(self, row: int, side: int) -> bool:
        """Whether an end is as far out as it matters."""
        return self.rows[row].is_open(self.ends[row, side], self.start[row])

    def level(self, z: Array, row: int) -> tuple[float, Array]:
        """Level of one row, and its gradient; NaN where the chain has no steady state."""
        asked = self.rows[row]
        free = torch.tensor(z, requires_grad=True)
        theta = self.likelihood.scale.natural(free)
        try:
            point = Point(self.model, asked.x, theta, self.likelihood.solver)
            level = asked.level(asked.measure(point))[0]
        except (RateError, ReducibleError, SolverError):
            return math.nan, np.zeros_like(z)
        (gradient,) = torch.autograd.grad(level, free)
        return float(level.detach()), np.nan_to_num(gradient.numpy(), posinf=0.0, neginf=0.0)

    @torch.no_grad()
    def _levels(self, z: Array) -> Array:
        if not self.rows:
            return np.empty(0)
        theta = self.likelihood.scale.natural(torch.from_numpy(z))
        x = torch.cat([row.x for row in self.rows])
        pi = Point(self.model, x, theta, self.likelihood.solver).pi
        levels = [
            row.level(row.measure(Point(self.model, row.x, theta).with_pi(pi[k : k + 1])))[0]
            for k, row in enumerate(self.rows)
        ]
        return torch.stack(levels).numpy()
