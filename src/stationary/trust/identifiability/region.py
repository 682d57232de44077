"""The parameters that explain the data almost as well as the best ones, and questions about them.

A question is a measure at one input. It is asked on a scale that keeps its range: the log odds of a
share, the logarithm of a positive number. Its value on that scale is its level here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import RateError, ReducibleError, SolverError
from stationary.learning.inference import Link
from stationary.learning.likelihood import Likelihood
from stationary.models import Point
from stationary.models.measures import Measure

REACH = 20.0
"""E-folds that a parameter or a measure may go from its estimate; farther counts as open."""

_MOST_EVALUATIONS, _MOST_WORK = 6000, 5e7
"""Evaluations of the likelihood in all searches, and that times the rates of all generators."""

_TIGHT = 1e-6  # how well the ends of a range keep to the bound, as a share of it

IMPOSSIBLE = 1e15
"""Stands for a value that over- or underflows; a line search steps back from it."""

_FAILURES = (RateError, ReducibleError, SolverError)


@dataclass(frozen=True)
class Question:
    """A measure at one input, of which the range is wanted."""

    x: Tensor  # [1, d]
    name: str
    measure: Measure
    value: float  # at the estimates
    reach: float = REACH  # e-folds from the estimate and from even odds to an end that is open
    sides: tuple[int, ...] = (0, 1)  # ends to search for: 0 the lower, 1 the upper

    @cached_property
    def link(self) -> Link:
        """The scale that keeps the range of the measure."""
        return Link(self.measure)

    @property
    def unit(self) -> float:
        """What a step of one e-fold is for a measure of either sign, which has no logarithm."""
        return (abs(self.value) or 1.0) if self.link.free else 1.0

    def natural(self, level: float, start: float) -> float:
        """Value at a level; an end of the measure's own range where the level is open."""
        if self.is_open(level, start):
            return self.measure.low if level < start else self.measure.high
        return float(self.link.back(np.array(level * self.unit)))

    def is_open(self, level: float, start: float) -> bool:
        """Whether a level that started at another is so far out that a search may stop."""
        even = 0.0 if self.link.bounded else start
        out = level <= min(start, even) - self.reach or level >= max(start, even) + self.reach
        return out and not self.link.free


class Region:
    """Parameters within ``bound`` nats of the best fit ``z``, and the ends of questions there."""

    def __init__(self, likelihood: Likelihood, z: Array, bound: float) -> None:
        self.likelihood, self.model, self.z, self.bound = likelihood, likelihood.model, z, bound
        self.lowest, _ = likelihood.value_and_gradient(z)
        rates = len(likelihood.x) * likelihood.model.edges.src.numel()
        self._last = likelihood.evaluations + min(_MOST_EVALUATIONS, int(_MOST_WORK / rates))
        self._at, self._cost = z, (0.0, np.zeros_like(z))

    def ask(self, questions: Sequence[Question]) -> None:
        """Take these questions, with the best fit as all that is known about them."""
        self.questions = tuple(questions)
        self.start = self.levels(self.z)
        self.ends = np.stack([self.start, self.start], -1)  # [K, 2]: lowest and highest level
        self.points = np.tile(self.z, (len(questions), 2, 1))  # where they were seen
        self.searched = np.zeros((len(questions), 2), dtype=bool)

    @property
    def is_exhausted(self) -> bool:
        """Whether the searches took as many evaluations as they may."""
        return self.likelihood.evaluations >= self._last

    def cost(self, z: Array) -> tuple[float, Array]:
        """Nats above the best fit as a share of the bound, and its gradient."""
        if not np.array_equal(z, self._at):  # SLSQP asks for values and slopes apart
            self._at, self._cost = z.copy(), (IMPOSSIBLE, np.zeros_like(z))
            with suppress(*_FAILURES):
                value, gradient = self.likelihood.value_and_gradient(z)
                if np.isfinite(value) and np.isfinite(gradient).all():
                    excess = min((value - self.lowest) / self.bound, IMPOSSIBLE)
                    self._cost = excess, gradient / self.bound
        return self._cost

    def visit(self, z: Array) -> None:
        """Take a point into account: every question whose end it moves outwards, if inside."""
        if self.is_exhausted or self.cost(z)[0] > 1 + _TIGHT:
            return
        with suppress(*_FAILURES):
            levels = self.levels(z)
            for side, better in enumerate((levels < self.ends[:, 0], levels > self.ends[:, 1])):
                self.ends[better, side] = levels[better]
                self.points[better, side] = z

    def moved(self, k: int, side: int) -> float:
        """How far an end is from the best fit."""
        return float(abs(self.ends[k, side] - self.start[k]))

    def range(self, k: int) -> tuple[float, float]:
        """Ends of a question as values of its measure."""
        low, high = (self.questions[k].natural(end, self.start[k]) for end in self.ends[k])
        return low, high

    def is_open(self, k: int, side: int) -> bool:
        """Whether an end is as far out as it matters."""
        return self.questions[k].is_open(self.ends[k, side], self.start[k])

    def level(self, z: Array, k: int) -> tuple[float, Array]:
        """Level of one question, and its gradient; NaN where the chain has no steady state."""
        free = torch.tensor(z, requires_grad=True)
        try:
            level = self._levels(self.questions[k : k + 1], free)[0]
        except _FAILURES:
            return math.nan, np.zeros_like(z)
        (gradient,) = torch.autograd.grad(level, free)
        return float(level.detach()), np.nan_to_num(gradient.numpy(), posinf=0.0, neginf=0.0)

    @torch.no_grad()
    def levels(self, z: Array) -> Array:
        """Levels of all questions at a point, ``[K]``."""
        return self._levels(self.questions, torch.from_numpy(z)).numpy()

    def _levels(self, questions: Sequence[Question], z: Tensor) -> Tensor:
        theta, model = self.likelihood.scale.natural(z), self.model
        x = torch.cat([asked.x for asked in questions])
        pi = Point(model, x, theta, self.likelihood.solver).pi  # of all questions at once
        points = [Point(model, x[[k]], theta).with_pi(pi[[k]]) for k in range(len(x))]
        levels = [
            asked.link.level(asked.measure(point))[0] / asked.unit
            for asked, point in zip(questions, points, strict=True)
        ]
        return torch.stack(levels)
