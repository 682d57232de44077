r"""Measures of chains too large to solve for every draw: curves over load, and how they move.

A change of the unit of time is exact: if all rates of a chain are multiplied by ``c``, its steady
state is that of the load ``load / c``. So a draw of the parameters is split into a common factor
``c`` of all rates and a rest. The chain is solved at its estimates on a grid of log loads, with the
slopes of every measure in the load and in the parameters; a draw reads this curve at ``load / c``
(by Hermite interpolation) and adds the rest on the scale of the measure's interval.

The rest is taken apart into the principal axes of the draws. Along an axis whose effect is small it
is linear. Along another one the chain is solved two standard deviations to either side, too, where
the ends of intervals are made: a bottleneck that moves to another server bends the curve, and a
line would call a bad draw harmless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError, RateError, ReducibleError, SolverError
from stationary.learning.derivatives import by_input
from stationary.learning.inference import Link
from stationary.models import Model, Point
from stationary.models.measures import Measure
from stationary.models.scales import Scale

_STEP = 0.1
"""Distance of grid points, in e-folds of load."""

_MOST_SECONDS = 8.0
"""Work above which curves are cheaper than solving every draw."""

_DENSE = 5e9
"""Multiply-adds per second of an elimination, about."""

_SIDE = 2.0
"""Standard deviations to either side at which the chain is solved along an axis."""

_NEVER = 1e-12
"""Probability below which a measure does not decide whether an axis is bent."""

_FELT = 0.03
"""Effect of one standard deviation, on the scale of the interval, from which an axis is bent."""

FAR = 1e12
"""How many times smaller or larger than it is a rate may be drawn: beyond, chains fall apart."""

_FARTHEST = 12.0
"""E-folds that a parameter may move along an axis where the chain is solved."""

_MOST_KEPT = 4
"""Models whose curves are kept for the next question about them."""

_kept: list[tuple[Model, Any, Curves]] = []


def is_costly(edges: Edges, solves: int) -> bool:
    """Whether so many solves of chains on these edges take longer than curves."""
    return solves * _seconds(edges) > _MOST_SECONDS


@lru_cache(maxsize=64)
def _seconds(edges: Edges) -> float:
    """Seconds that one chain takes, about."""
    if edges.birth_death is not None:
        return 1e-6 + 5e-9 * edges.n
    return 2e-6 + edges.n**3 / 3 / _DENSE


class Curves:
    """Measures of a model over load at the centre of some draws, and to the sides of it.

    Parameters
    ----------
    model : Model
        The chain, at the centre.
    names : tuple of str
        Measures.
    scale : Scale
        Coordinates of the parameters.
    theta : Tensor [B, P]
        The draws.
    """

    def __init__(self, model: Model, names: tuple[str, ...], scale: Scale, theta: Tensor) -> None:
        self.names, self.scale = names, scale
        self.z = scale.free(model.theta.detach())
        self.unit = _unit_of_time(model, scale)
        self.measures = [model.measure(name) for name in names]
        self.centre = _Curve(model, self.measures, model.theta.detach(), scale)
        self.dimension = self._dimensions(model)
        if np.isnan(self.dimension).any():  # a measure that mixes units knows no common factor
            self.unit = np.zeros_like(self.unit)
            self.dimension = np.zeros(len(self.measures))
        _, rest = self._split(scale.free(theta) - self.z)
        _, size, axes = np.linalg.svd(rest, full_matrices=False)
        self.spread, self.axes = size / math.sqrt(len(rest)), axes
        self.sides = [self._to_the_sides(model, k) for k in range(len(axes))]
        self.bent = [False] * len(axes)

    @classmethod
    def of(cls, model: Model, names: tuple[str, ...], scale: Scale, theta: Tensor) -> Curves:
        """Return curves that hold these measures, with what was solved of them before.

        Other draws of the same model are read off the same curves.
        """
        state = (model.theta, scale.log, scale.unit)
        key = tuple(part.detach().numpy().tobytes() for part in state)
        same = [curves for other, its, curves in _kept if other is model and its == key]
        for found in same:
            if set(names) <= set(found.names):
                return found
        # A solve costs far more than all measures of it.
        held = [name for found in same for name in found.names]
        every = tuple(dict.fromkeys((*held, *names, *model.measures)))
        found = cls(model, every, scale, theta)
        _kept.append((model, key, found))
        del _kept[:-_MOST_KEPT]
        return found

    def values(self, x: Tensor, theta: Tensor, names: Sequence[str]) -> Array:
        """Measures ``[B, G, K]`` at inputs ``[1 or B, G, d]``, parameters ``[B, 1 or G, P]``."""
        which = [self.names.index(name) for name in names]
        batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
        common, rest = self._split(self.scale.free(theta) - self.z)
        along = (rest @ self.axes.T) / np.where(self.spread > 0, self.spread, 1.0)
        common = np.broadcast_to(common, batch).ravel()
        along = np.broadcast_to(along, (*batch, len(self.axes))).reshape(len(common), -1)
        inputs = x.expand(*batch, -1).reshape(len(common), -1).numpy()
        found = np.empty((len(common), len(self.measures)))
        others, where = np.unique(inputs[:, 1:], axis=0, return_inverse=True)
        for k, other in enumerate(others):
            mine = where.ravel() == k
            place = np.log(inputs[mine, 0]) - common[mine]
            found[mine] = self._levels(place, along[mine], other)
        for k, measure in enumerate(self.measures):
            with np.errstate(over="ignore"):
                value = Link(measure).back(found[:, k]) * np.exp(common * self.dimension[k])
            found[:, k] = np.clip(value, measure.low, measure.high)
        return found.reshape(*batch, len(self.measures))[..., which]

    def _levels(self, place: Array, along: Array, other: Array) -> Array:
        """Measures on their links ``[N, K]`` at log loads, some way along the axes."""
        level, slope = self.centre.read(place, other)
        moved = level.copy()
        # The logarithm of a loss that nobody will ever see moves a lot, and matters to nobody.
        share = np.array([(m.low, m.high) == (0.0, 1.0) for m in self.measures])
        matters = ~share | (level > math.log(_NEVER))
        for k, (axis, spread) in enumerate(zip(self.axes, self.spread, strict=True)):
            u = along[:, k : k + 1]
            first = spread * (slope @ axis)  # [N, K]: by one standard deviation
            # Once felt, it stays bent: answers must not depend on what is asked beside.
            felt = np.where(matters, np.abs(first), 0.0)
            self.bent[k] |= bool(np.nanmax(felt, initial=0.0) >= _FELT)
            if not self.bent[k]:
                moved += first * u
                continue
            for sign, (side, far) in zip((-1.0, 1.0), self.sides[k], strict=True):
                bend = side.read(place, other)[0] - level - first * far * sign
                # Through the slope at the centre and the value at the side; beyond it, a line.
                t = np.maximum(sign * u, 0.0) / far
                curved = np.where(t <= 1, t**2, 2 * t - 1)
                moved += np.where(sign * u > 0, first * u + bend * curved, 0.0)
        return moved

    def _split(self, moved: Tensor) -> tuple[Array, Array]:
        """The common factor of all rates, as a logarithm, and the rest of a displacement."""
        step = moved.detach().numpy()
        length = float(self.unit @ self.unit)
        common = step @ self.unit / length if length else np.zeros(step.shape[:-1])
        return common, step - common[..., None] * self.unit

    def _to_the_sides(self, model: Model, k: int) -> list[tuple[_Curve, float]]:
        """Curves to either side along an axis, and how many standard deviations away they are."""
        step = _SIDE * self.spread[k] * self.axes[k]
        shorter = min(1.0, _FARTHEST / max(float(np.abs(step).max()), 1e-300))
        found = []
        for sign in (-1, 1):
            z = self.z + torch.from_numpy(sign * shorter * step)
            theta = within(model, self.scale, self.scale.natural(z))
            found.append((_Curve(model, self.measures, theta, None), _SIDE * shorter))
        return found

    @torch.no_grad()
    def _dimensions(self, model: Model) -> Array:
        """Power of the unit of time that each measure has: 1 for a rate, -1 for a time."""
        if not self.unit.any():
            return np.zeros(len(self.measures))
        x = torch.ones(1, len(model.inputs), dtype=torch.float64)
        # A load at which the system does something: that of the first rate.
        x[0, 0] = model.theta[0].abs()
        first = torch.eye(x.shape[1], dtype=torch.float64)[0]
        double = torch.from_numpy(math.log(2.0) * self.unit)
        one = Point(model, x, self.scale.natural(self.z))
        two = Point(model, x * 2**first, self.scale.natural(self.z + double))
        two = two.with_pi(one.pi)  # which is the same
        ratio = torch.stack([m(two) / m(one) for m in self.measures]).ravel()
        power = ratio.log2().round()
        # What has no size at this load, such as a loss that underflows, has no unit either.
        power = torch.where(ratio.isnan() & _is_share(self.measures), 0.0, power)
        return torch.where((ratio - 2**power).abs() < 1e-6 * ratio.abs(), power, torch.nan).numpy()


def _is_share(measures: Sequence[Measure]) -> Tensor:
    return torch.tensor([(m.low, m.high) == (0.0, 1.0) for m in measures])


class _Curve:
    """Measures on their links over log load, at one set of parameters; solved when asked for.

    With a scale, slopes in the parameters' coordinates are taken, too.
    """

    def __init__(
        self, model: Model, measures: list[Measure], theta: Tensor, scale: Scale | None
    ) -> None:
        self.model, self.measures, self.theta, self.scale = model, measures, theta, scale
        self.links = [Link(measure) for measure in measures]
        self.known: dict[Any, tuple[Array, Array]] = {}

    def read(self, place: Array, other: Array) -> tuple[Array, Array]:
        """Levels ``[N, K]`` and slopes ``[N, K, P]`` at log loads ``[N]`` and other inputs."""
        left = np.floor(place / _STEP).astype(int)
        points = np.unique([left, left + 1])
        self._solve([int(k) for k in points], other)
        table = [self.known[int(k), tuple(other)] for k in points]
        level, slope = (np.stack(column) for column in zip(*table, strict=True))
        a = np.searchsorted(points, left)
        t = (place / _STEP - left)[:, None]
        in_load = slope[..., -1] * _STEP
        found = (
            (1 + 2 * t) * (1 - t) ** 2 * level[a]
            + t * (1 - t) ** 2 * in_load[a]
            + t**2 * (3 - 2 * t) * level[a + 1]
            + t**2 * (t - 1) * in_load[a + 1]
        )
        t = t[..., None]
        return found, (1 - t) * slope[a, :, :-1] + t * slope[a + 1, :, :-1]

    def _solve(self, points: list[int], other: Array) -> None:
        """Solve the grid points that are not known yet."""
        new = [k for k in points if (k, tuple(other)) not in self.known]
        if not new:
            return
        x = torch.tensor([[math.exp(_STEP * k), *other] for k in new], dtype=torch.float64)
        try:
            found = self._levels(x)
        except (RateError, ReducibleError, SolverError, InputError):
            found = self._one_by_one(x)
        for k, level, slope in zip(new, *found, strict=True):
            self.known[k, tuple(other)] = level, slope

    def _levels(self, x: Tensor) -> tuple[Array, Array]:
        first = torch.eye(x.shape[1], dtype=torch.float64)[0]

        def levels(free: Tensor, x: Tensor) -> Tensor:
            # The last coordinate is a shift of the log load.
            theta = self.theta if self.scale is None else self.scale.natural(free[:-1])
            point = Point(self.model, x * (free[-1] * first).exp(), theta)
            pairs = zip(self.measures, self.links, strict=True)
            return torch.stack([link.level(measure(point)) for measure, link in pairs], -1)

        z = np.empty(0) if self.scale is None else self.scale.free(self.theta).numpy()
        return by_input(levels, np.append(z, 0.0), x, self.model.edges)

    def _one_by_one(self, x: Tensor) -> tuple[Array, Array]:
        found = []
        for row in x:
            try:
                found.append(self._levels(row[None]))
            except (RateError, ReducibleError, SolverError, InputError):
                size = 1, len(self.measures)
                coordinates = 1 + (0 if self.scale is None else len(self.theta))
                found.append((np.full(size, np.nan), np.full((*size, coordinates), np.nan)))
        levels, slopes = zip(*found, strict=True)
        return np.concatenate(levels), np.concatenate(slopes)


def within(model: Model, scale: Scale, theta: Tensor) -> Tensor:
    """Keep positive parameters within a huge factor of their estimates."""
    centre = model.theta.detach()
    size = torch.where(scale.log, centre, scale.unit)
    return torch.where(model.positive, theta.clamp(size / FAR, size * FAR), theta)


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
