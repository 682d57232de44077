"""Measures of one model at inputs and parameters, each point solved once and then remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError, RateError, ReducibleError, SolverError
from stationary.learning.derivatives import by_input
from stationary.learning.expansion import Expansion
from stationary.learning.inference import Link
from stationary.models import Model, Point
from stationary.models.chunks import in_chunks
from stationary.models.measures import Measure
from stationary.models.scales import Scale
from stationary.solvers import Accuracy

UNSOLVABLE = (RateError, ReducibleError, SolverError, InputError)
"""What a chain that cannot be solved raises."""

FAR = 1e12
"""How many times smaller or larger than its estimate a rate may be drawn: beyond, chains fall
apart into pieces."""


class SolvedPoints:
    """Measures on their links at inputs and coordinates of the parameters, each solved once."""

    def __init__(self, model: Model, measures: list[Measure], scale: Scale) -> None:
        self.model, self.scale = model, scale
        self.pairs = [(measure, Link(measure)) for measure in measures]
        self.accuracy: Accuracy | None = None
        """Of a chain that was solved, if any was."""
        self._known: dict[tuple[bytes, bytes], tuple[Array, Array]] = {}

    def with_slopes(self, x: Array, z: Array, parameters: bool = True) -> tuple[Array, Array]:
        """Levels ``[N, K]`` and slopes ``[N, K, P + 1]`` in the coordinates and the log load.

        Without ``parameters`` slopes are in the log load only, ``[N, K, 1]``. NaN where a chain
        cannot be solved.
        """
        keys = [(row.tobytes(), z.tobytes()) for row in x]
        new = [n for n, key in enumerate(keys) if key not in self._known]
        if new:
            many = len(self.pairs)
            shapes = (many,), (many, 1 + len(z) * parameters)
            solved = each_solvable(lambda rows: self._expand(rows, z, parameters), shapes, x[new])
            for n, level, slope in zip(new, *solved, strict=True):
                self._known[keys[n]] = level, slope
        level, slope = zip(*(self._known[key] for key in keys), strict=True)
        return np.stack(level), np.stack(slope)

    def expansion(self, x: Array, z: Array) -> Expansion | None:
        """Measures around an input ``[d]``; None where the chain cannot be solved."""
        try:
            found = Expansion(self.model, self.pairs, self.scale, torch.from_numpy(x[None]), z)
        except UNSOLVABLE:
            return None
        self.accuracy = found.accuracy
        return found

    def levels(self, x: Array, z: Sequence[Array]) -> Array:
        """Levels ``[N, K]`` at inputs ``[N, d]`` and coordinates ``[N, P]``, side by side."""
        if not z:
            return np.empty((0, len(self.pairs)))
        theta = self._theta(torch.from_numpy(np.stack(z)))
        shapes = ((len(self.pairs),),)
        return each_solvable(lambda *rows: (self._solve(*rows),), shapes, x, theta.numpy())[0]

    def _theta(self, z: Tensor) -> Tensor:
        return within(self.model, self.scale, self.scale.natural(z))

    def _solve(self, x: Array, theta: Array) -> Array:
        def of_part(x: Tensor, theta: Tensor) -> Tensor:
            with torch.no_grad():  # which does not reach into threads
                return self._link(Point(self.model, x, theta))

        rows = torch.from_numpy(x), torch.from_numpy(theta)
        return torch.cat(in_chunks(of_part, self.model.edges, *rows)).numpy()

    def _expand(self, x: Array, z: Array, parameters: bool) -> tuple[Array, Array]:
        first = torch.eye(x.shape[1], dtype=torch.float64)[0]
        fixed = self._theta(torch.from_numpy(z))

        def levels(free: Tensor, x: Tensor) -> Tensor:
            # The last coordinate is a shift of the log load.
            theta = self.scale.natural(free[:-1]) if parameters else fixed
            return self._link(Point(self.model, x * (free[-1] * first).exp(), theta))

        free = np.append(z if parameters else z[:0], 0.0)
        return by_input(levels, free, torch.from_numpy(x), self.model.edges)

    def _link(self, point: Point) -> Tensor:
        return torch.stack([link.level(measure(point)) for measure, link in self.pairs], -1)


def each_solvable(
    function: Callable[..., tuple[Array, ...]], shapes: Sequence[tuple[int, ...]], *rows: Any
) -> tuple[Array, ...]:
    """Return a function of rows, NaN in those at which it fails; halves of them are tried alone."""
    try:
        return function(*rows)
    except UNSOLVABLE:
        if len(rows[0]) == 1:
            return tuple(np.full((1, *shape), np.nan) for shape in shapes)
    half = len(rows[0]) // 2
    halves = [row[:half] for row in rows], [row[half:] for row in rows]
    parts = [each_solvable(function, shapes, *some) for some in halves]
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def within(model: Model, scale: Scale, theta: Tensor) -> Tensor:
    """Keep positive parameters within a huge factor of their estimates."""
    centre = model.theta.detach()
    size = torch.where(scale.log, centre, scale.unit)
    return torch.where(model.positive, theta.clamp(size / FAR, size * FAR), theta)
