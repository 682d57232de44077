r"""Measures of chains too large to solve for every draw: a curve over load, and how it moves.

A change of the unit of time is exact: if all rates of a chain are multiplied by ``c``, its steady
state is that of the load ``load / c``. So a draw of the parameters is split into a common factor
``c`` of all rates and a rest. The chain is solved at its estimates on a grid of log loads, with the
slopes of every measure in the load and in the parameters; a draw reads the curve at ``load / c``
(by Hermite interpolation) and adds the rest, linearly on the scale of the measure's interval.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from stationary.derivatives import by_input
from stationary.edges import Edges
from stationary.errors import RateError, ReducibleError, SolverError
from stationary.inference import Link
from stationary.models import Model, Point
from stationary.scales import Scale

Array = np.ndarray[Any, Any]

_STEP = 0.1
"""Distance of grid points, in e-folds of load."""

_MOST_SECONDS = 4.0
"""Work above which a curve is cheaper than solving every draw."""

_DENSE = 3e9
"""Multiply-adds per second of an elimination, about."""

_curves: WeakKeyDictionary[Model, dict[Any, Curve]] = WeakKeyDictionary()


def is_costly(edges: Edges, solves: int) -> bool:
    """Whether so many solves of chains on these edges take longer than a curve."""
    return solves * _seconds(edges) > _MOST_SECONDS


@lru_cache(maxsize=64)
def _seconds(edges: Edges) -> float:
    """Seconds that one chain takes, about."""
    if edges.birth_death is not None:
        return 1e-6 + 5e-9 * edges.n
    return 2e-6 + edges.n**3 / 3 / _DENSE


class Curve:
    """Measures of a model over load at its parameters, with their slopes.

    Parameters
    ----------
    model : Model
        The chain, at the centre of the draws.
    names : tuple of str
        Measures.
    scale : Scale
        Coordinates of the parameters.
    """

    def __init__(self, model: Model, names: tuple[str, ...], scale: Scale) -> None:
        self.model, self.scale = model, scale
        self.measures = [model.measure(name) for name in names]
        self.links = [Link(measure) for measure in self.measures]
        self.z = scale.free(model.theta.detach())
        self.unit = _unit_of_time(model, scale)
        self.dimension: Array | None = None
        self.known: dict[Any, tuple[Array, Array]] = {}

    @classmethod
    def of(cls, model: Model, names: tuple[str, ...], scale: Scale) -> Curve:
        """Return the curve of a model, with what was solved of it before."""
        kept = _curves.setdefault(model, {})
        state = (model.theta, scale.log, scale.unit)
        key = names, *(part.detach().numpy().tobytes() for part in state)
        if key not in kept:
            kept[key] = cls(model, names, scale)
        return kept[key]

    def values(self, x: Tensor, theta: Tensor) -> Array:
        """Measures ``[B, G, K]`` at inputs ``[1 or B, G, d]``, parameters ``[B, 1 or G, P]``."""
        batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
        moved = (self.scale.free(theta) - self.z).expand(*batch, -1).numpy()
        inputs = x.expand(*batch, -1).numpy()
        length = float(self.unit @ self.unit)
        common = moved @ self.unit / length if length else np.zeros(batch)
        rest = moved - common[..., None] * self.unit
        place = np.log(inputs[..., 0]) - common
        values = np.empty((*batch, len(self.measures)))
        others, where = np.zeros((1, 0)), np.zeros(batch, dtype=int)
        if inputs.shape[-1] > 1:
            rows = inputs[..., 1:].reshape(-1, inputs.shape[-1] - 1)
            others, place_of = np.unique(rows, axis=0, return_inverse=True)
            where = place_of.reshape(batch)
        for k, other in enumerate(others):
            mine = where == k
            values[mine] = self._read(place[mine], common[mine], rest[mine], other)
        return values

    def _read(self, place: Array, common: Array, rest: Array, other: Array) -> Array:
        """Measures ``[N, K]`` at log loads ``[N]``, for common factors and rests of draws."""
        left = np.floor(place / _STEP).astype(int)
        self._solve(np.unique([left, left + 1]), other)
        points = np.unique([left, left + 1])
        table = [self.known[int(k), tuple(other)] for k in points]
        level, slope = (np.stack(column) for column in zip(*table, strict=True))
        a = np.searchsorted(points, left)
        t = (place / _STEP - left)[:, None]
        h00, h01 = (1 + 2 * t) * (1 - t) ** 2, t**2 * (3 - 2 * t)
        h10, h11 = t * (1 - t) ** 2, t**2 * (t - 1)
        in_load = slope[..., -1] * _STEP
        centre = h00 * level[a] + h10 * in_load[a] + h01 * level[a + 1] + h11 * in_load[a + 1]
        by_theta = (1 - t[..., None]) * slope[a, :, :-1] + t[..., None] * slope[a + 1, :, :-1]
        moved = centre + np.einsum("nkp,np->nk", by_theta, rest)
        found = np.stack([link.back(moved[:, k]) for k, link in enumerate(self.links)], -1)
        dimension = self._dimension(other)
        with np.errstate(over="ignore"):
            found = found * np.exp(common[:, None] * dimension)
        lows = [measure.low for measure in self.measures]
        return np.asarray(np.clip(found, lows, [measure.high for measure in self.measures]))

    def _solve(self, points: Array, other: Array) -> None:
        """Solve the grid points that are not known yet."""
        new = [int(k) for k in points if (int(k), tuple(other)) not in self.known]
        if not new:
            return
        x = torch.tensor([[np.exp(_STEP * k), *other] for k in new], dtype=torch.float64)
        try:
            found = self._levels(x)
        except (RateError, ReducibleError, SolverError):
            found = self._one_by_one(x)
        for k, level, slope in zip(new, *found, strict=True):
            self.known[k, tuple(other)] = level, slope

    def _levels(self, x: Tensor) -> tuple[Array, Array]:
        """Measures on their links ``[G, K]``, and slopes in parameters and log load."""
        first = torch.eye(x.shape[1], dtype=torch.float64)[0]

        def levels(free: Tensor, x: Tensor) -> Tensor:
            # The last coordinate is a shift of the log load.
            point = Point(self.model, x * (free[-1] * first).exp(), self.scale.natural(free[:-1]))
            pairs = zip(self.measures, self.links, strict=True)
            return torch.stack([link.level(measure(point)) for measure, link in pairs], -1)

        z = np.append(self.z.numpy(), 0.0)
        return by_input(levels, z, x, self.model.edges)

    def _one_by_one(self, x: Tensor) -> tuple[Array, Array]:
        found = []
        for row in x:
            try:
                found.append(self._levels(row[None]))
            except (RateError, ReducibleError, SolverError):
                size = len(self.measures), len(self.z) + 1
                found.append((np.full((1, size[0]), np.nan), np.full((1, *size), np.nan)))
        levels, slopes = zip(*found, strict=True)
        return np.concatenate(levels), np.concatenate(slopes)

    def _dimension(self, other: Array) -> Array:
        """Power of the unit of time that each measure has: 1 for a rate, -1 for a time."""
        if self.dimension is None:
            if not self.unit.any():
                self.dimension = np.zeros(len(self.measures))
                return self.dimension
            load = np.exp(_STEP * min(k for k, _ in self.known))
            x = torch.tensor([[load, *other]], dtype=torch.float64)
            double = torch.tensor(np.log(2.0) * self.unit)
            with torch.no_grad():
                one = Point(self.model, x, self.scale.natural(self.z))
                first = torch.eye(x.shape[1], dtype=torch.float64)[0]
                two = Point(self.model, x * 2**first, self.scale.natural(self.z + double))
                ratio = torch.stack([m(two) / m(one) for m in self.measures]).ravel()
            self.dimension = ratio.log2().round().nan_to_num(0.0, 0.0, 0.0).numpy()
        return self.dimension


@torch.no_grad()
def _unit_of_time(model: Model, scale: Scale) -> Array:
    """How coordinates move when all rates are multiplied by e; zero if that is not known.

    What a model declares is tried out, and so is that all of its positive parameters are rates.
    """
    x = torch.ones(1, len(model.inputs), dtype=torch.float64)
    theta = model.theta.detach()
    before = model.edge_rates(x, theta)
    first = torch.eye(len(model.inputs), dtype=torch.float64)[0]
    for powers in (model.per_time, model.positive.to(torch.float64)):
        # On a linear scale a factor is no shift: such parameters stand at zero, and stay.
        powers = torch.where(scale.log, powers, 0.0)
        after = model.edge_rates(x * 2**first, theta * 2**powers)
        if torch.allclose(after, 2 * before, rtol=1e-9, atol=0.0):
            return powers.numpy()
    return np.zeros(len(theta))
