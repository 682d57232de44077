r"""Measures of chains too large to solve for every draw.

At a few loads that all draws share, the chain is factored at its estimates, once per load, and
`expansion` has the rest from that factor: slopes of every measure in the parameters, and, along
each axis of the draws whose effect may not be linear, the measures two standard deviations to
either side, where the ends of intervals are made. Where the bottleneck moves to another server, the
curve bends, and a straight line would miss a bad draw. Where a series does not settle, the chain is
solved at both sides. The first axis is the direction in which the measures change most; of two axes
together, the second-order term is added.

A limit asks each draw at a load of its own, and a long forecast asks for many loads. There the
measures are curves over load, solved on a grid of log loads. A change of the unit of time is exact:
if all rates of a chain are multiplied by ``c``, its steady state is that of the load ``load / c``.
So a draw is split into a common factor ``c`` of all rates and a rest; it reads the curve at
``load / c`` (by Hermite interpolation) and adds the rest, along the axes of the draws, as above.

All of this happens on the link of each measure, the scale on which its interval is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.learning.inference import Link
from stationary.learning.solved_points import SolvedPoints
from stationary.models import Model, Point
from stationary.models.chunks import in_chunks
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
"""Effect of one standard deviation, on the link, from which an axis is taken to be bent."""

_FARTHEST_PAIR = 3.0
"""Standard deviations up to which the effect of two axes together is taken to grow."""

_FARTHEST = 12.0
"""E-folds that a parameter may move along an axis where the chain is solved."""

_MOST_KEPT = 4
"""Models whose curves are kept for the next question about them."""

_kept: list[tuple[Model, Any, Curves]] = []


def is_costly(model: Model, solves: int) -> bool:
    """Whether so many solves of a model's chain take longer than curves."""
    one = _seconds(model.edges) + model.seconds_per_state * model.edges.n
    return solves * one > _MOST_SECONDS


@lru_cache(maxsize=64)
def _seconds(edges: Edges) -> float:
    """Seconds that one chain takes, about."""
    if edges.birth_death is not None:
        return 1e-6 + 5e-9 * edges.n
    return 2e-6 + edges.n**3 / 3 / _DENSE


class Curves:
    """Measures of a model at the centre of some draws, to the sides of it, and over load.

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
        self.z = scale.free(model.theta.detach()).numpy()
        self.measures = [model.measure(name) for name in names]
        self.is_share = np.array([(m.low, m.high) == (0.0, 1.0) for m in self.measures])
        # Axes are chosen by the same measures, whatever else is asked for.
        self.leading = [names.index(name) for name in model.measures or names]
        self.points = SolvedPoints(model, self.measures, scale)
        self._centre: dict[bytes, Array] = {}
        self.unit = _unit_of_time(model, scale)
        self.dimension = self._dimensions(model)
        if np.isnan(self.dimension).any():  # a measure that mixes units knows no common factor
            self.unit = np.zeros_like(self.unit)
            self.dimension = np.zeros(len(self.measures))
        _, rest = self._split(self._moved(theta))
        _, size, axes = np.linalg.svd(rest, full_matrices=False)
        self.spread, self.axes = size / math.sqrt(len(rest)), axes
        self.bent = [False] * len(axes)

    @classmethod
    def of(cls, model: Model, names: tuple[str, ...], scale: Scale, theta: Tensor) -> Curves:
        """Return curves that hold these measures, with what was solved of them before.

        Other draws of the same model are read off the same curves.
        """
        state = (model.theta, scale.log, scale.unit)
        key = tuple(part.detach().numpy().tobytes() for part in state)
        same = [curves for other, its, curves in _kept if other is model and its == key]
        for curves in same:
            if set(names) <= set(curves.names):
                return curves
        # A solve costs far more than all measures of it.
        held = [name for curves in same for name in curves.names]
        every = tuple(dict.fromkeys((*held, *names, *model.measures)))
        curves = cls(model, every, scale, theta)
        _kept.append((model, key, curves))
        del _kept[:-_MOST_KEPT]
        return curves

    def values(self, x: Tensor, theta: Tensor, names: Sequence[str]) -> Array:
        """Measures ``[B, G, K]`` at inputs ``[1 or B, G, d]``, parameters ``[B, 1 or G, P]``."""
        moved = self._moved(theta)
        common, rest = self._split(moved)
        batch = np.broadcast_shapes(x.shape[:-1], common.shape)
        common, rest = np.broadcast_to(common, batch), np.broadcast_to(rest, (*batch, len(self.z)))
        on_grid = len(x) > 1 or batch[1] > self._grid_points(x[0].numpy(), common)
        if on_grid:
            levels = self._on_grid(x.expand(*batch, -1).numpy(), common, rest)
        else:
            levels = self._around_loads(x[0].numpy(), np.broadcast_to(moved, rest.shape))
        found = []
        for k in map(self.names.index, names):
            measure = self.measures[k]
            factor = np.exp(common * self.dimension[k]) if on_grid else 1.0
            with np.errstate(over="ignore"):
                value = Link(measure).back(levels[..., k]) * factor
            found.append(np.clip(value, measure.low, measure.high))
        return np.stack(found, -1)

    def at_centre(self, x: Tensor, names: Sequence[str]) -> Array | None:
        """Measures ``[G, K]`` of the estimates at inputs ``[G, d]``, if they were solved."""
        rows = [self._centre.get(row.tobytes()) for row in x.numpy()]
        levels = [row for row in rows if row is not None and not np.isnan(row).any()]
        if len(levels) < len(rows):
            return None
        each = [(Link(self.measures[k]), k) for k in map(self.names.index, names)]
        return np.stack([link.back(np.stack(levels)[:, k]) for link, k in each], -1)

    @staticmethod
    def _grid_points(x: Array, common: Array) -> int:
        """Points of the grid that draws at these inputs would be read from."""
        with np.errstate(divide="ignore"):
            left = np.floor((np.log(x[:, 0]) - common) / _STEP)
        return len(np.unique([left, left + 1]))

    def _around_loads(self, x: Array, moved: Array) -> Array:
        """Levels ``[B, G, K]`` at loads that all draws share; NaN where there is no solution."""

        def of_part(rows: Tensor) -> list[Array]:
            return [self._around_load(x[g], moved[:, g]) for g in rows.tolist()]

        parts = in_chunks(of_part, self.points.model.edges, torch.arange(len(x)))
        return np.stack([level for part in parts for level in part], 1)

    def _around_load(self, x: Array, moved: Array) -> Array:
        """Levels ``[B, K]`` at one load."""
        chain = self.points.expansion(x, self.z)
        if chain is None:
            return np.full((len(moved), len(self.measures)), np.nan)
        self._centre[x.tobytes()] = chain.level
        # The logarithm of a tiny loss moves a lot, and nobody will ever see it.
        seen = ~self.is_share | (chain.level > math.log(_NEVER))
        leading = [k for k in self.leading if seen[k]]
        axes = _Axes(moved, chain.slope, leading)
        levels = chain.level + axes.linear
        series = {r: chain.along(_SIDE * axes.step[r], leading) for r in axes.bent}
        for r, (_, below, above, settled) in series.items():
            step, t = _SIDE * axes.step[r], axes.u[:, r : r + 1] / _SIDE
            if not settled:
                below, above = self.points.levels(np.stack([x, x]), [self.z - step, self.z + step])
            first = _SIDE * axes.first[:, r]
            levels += _bent(-t) * (below - chain.level + first)
            levels += _bent(t) * (above - chain.level - first)
        u = axes.u.clip(-_FARTHEST_PAIR, _FARTHEST_PAIR) / _SIDE
        for a, b in combinations(axes.bent, 2):
            both = chain.second(_SIDE * (axes.step[a] + axes.step[b]))
            both -= series[a].second + series[b].second
            levels += both * u[:, [a]] * u[:, [b]]
        return levels

    def _on_grid(self, x: Array, common: Array, rest: Array) -> Array:
        """Levels ``[B, G, K]`` at inputs ``[B, G, d]`` from curves over load."""
        along = (rest @ self.axes.T) / np.where(self.spread > 0, self.spread, 1.0)
        levels = np.empty((*common.shape, len(self.measures)))
        others, where = np.unique(x.reshape(-1, x.shape[-1])[:, 1:], axis=0, return_inverse=True)
        for k, other in enumerate(others):
            mine = where.reshape(common.shape) == k
            place = np.log(x[mine][:, 0]) - common[mine]
            levels[mine] = self._read_draws(place, along[mine], other)
        return levels

    def _read_draws(self, place: Array, along: Array, other: Array) -> Array:
        """Levels ``[N, K]`` at log loads, some way along the axes."""
        level, slope = self._read(place, other, self.z, parameters=True)
        moved = level.copy()
        matters = ~self.is_share | (level > math.log(_NEVER))
        for k, (axis, spread) in enumerate(zip(self.axes, self.spread, strict=True)):
            u = along[:, k : k + 1]
            first = spread * (slope @ axis)  # [N, K]: by one standard deviation
            # Once felt, it stays bent: answers must not depend on what is asked beside.
            felt = np.where(matters, np.abs(first), 0.0)
            self.bent[k] |= bool(np.nanmax(felt, initial=0.0) >= _FELT)
            moved += first * u
            if not self.bent[k]:
                continue
            step = _SIDE * spread * axis
            shorter = min(1.0, _FARTHEST / max(float(np.abs(step).max()), 1e-300))
            far = _SIDE * shorter
            for sign in (-1, 1):
                side, _ = self._read(place, other, self.z + sign * shorter * step)
                moved += _bent(sign * u / far) * (side - level - sign * far * first)
        return moved

    def _read(
        self, place: Array, other: Array, z: Array, parameters: bool = False
    ) -> tuple[Array, Array]:
        """Levels ``[N, K]`` and slopes ``[N, K, P]`` at log loads ``[N]``, between grid points."""
        left = np.floor(place / _STEP).astype(int)
        points = np.unique([left, left + 1])
        x = np.array([[math.exp(_STEP * k), *other] for k in points])
        level, slope = self.points.with_slopes(x, z, parameters)
        a = np.searchsorted(points, left)
        t = (place / _STEP - left)[:, None]
        in_load = slope[..., -1] * _STEP
        between = (
            (1 + 2 * t) * (1 - t) ** 2 * level[a]
            + t * (1 - t) ** 2 * in_load[a]
            + t**2 * (3 - 2 * t) * level[a + 1]
            + t**2 * (t - 1) * in_load[a + 1]
        )
        t = t[..., None]
        return between, (1 - t) * slope[a, :, :-1] + t * slope[a + 1, :, :-1]

    def _moved(self, theta: Tensor) -> Array:
        """How far the coordinates of draws lie from those of the centre."""
        return self.scale.free(theta).numpy() - self.z

    def _split(self, step: Array) -> tuple[Array, Array]:
        """The common factor of all rates, as a logarithm, and the rest of a displacement."""
        length = float(self.unit @ self.unit)
        common = step @ self.unit / length if length else np.zeros(step.shape[:-1])
        return common, step - common[..., None] * self.unit

    @torch.no_grad()
    def _dimensions(self, model: Model) -> Array:
        """Power of the unit of time that each measure has: 1 for a rate, -1 for a time."""
        if not self.unit.any():
            return np.zeros(len(self.measures))
        x = torch.ones(1, len(model.inputs), dtype=torch.float64)
        # A load at which the system does something: that of the first rate.
        x[0, 0] = model.theta[0].abs()
        first = torch.eye(x.shape[1], dtype=torch.float64)[0]
        z, double = torch.from_numpy(self.z), torch.from_numpy(math.log(2.0) * self.unit)
        # Any distribution tells the unit, and this one need not be solved.
        pi = torch.full((1, model.edges.n), 1.0 / model.edges.n, dtype=torch.float64)
        one = Point(model, x, self.scale.natural(z)).with_pi(pi)
        two = Point(model, x * 2**first, self.scale.natural(z + double)).with_pi(pi)
        ratio = torch.stack([m(two) / m(one) for m in self.measures]).ravel()
        power = ratio.log2().round()
        # What has no size at this load, such as a loss that underflows, has no unit either.
        power = torch.where(ratio.isnan() & torch.from_numpy(self.is_share), 0.0, power)
        return torch.where((ratio - 2**power).abs() < 1e-6 * ratio.abs(), power, torch.nan).numpy()


class _Axes:
    """Directions in which draws lie around one load, the most felt first.

    Attributes
    ----------
    step : ndarray [R, P]
        Displacement by one standard deviation along each axis.
    u : ndarray [B, R]
        Draws, in standard deviations along the axes.
    first : ndarray [K, R]
        Effect of one standard deviation on each measure.
    linear : ndarray [B, K]
        Effect of each draw, as far as it is linear.
    bent : list of int
        Axes whose effect may not be linear.
    """

    def __init__(self, moved: Array, slope: Array, leading: list[int]) -> None:
        _, size, basis = np.linalg.svd(moved, full_matrices=False)
        spread = size / math.sqrt(len(moved))
        step = spread[:, None] * basis
        known = np.nan_to_num(slope[leading])
        _, _, turn = np.linalg.svd(known @ step.T)
        self.step = turn @ step
        self.u = moved @ basis.T / np.where(spread > 0, spread, 1.0) @ turn.T
        self.first = slope @ self.step.T
        self.linear = self.u @ self.first.T
        # Without signs: where the effects of two parameters cancel, their bends need not.
        felt = (np.abs(known) @ np.abs(self.step.T)).max(0, initial=0.0)
        self.bent = [int(r) for r in np.flatnonzero(felt >= _FELT)]


def _bent(t: Array) -> Array:
    """Share of the bend at a side that is felt on the way to it: a parabola, and beyond a line."""
    t = np.maximum(t, 0.0)
    return np.where(t <= 1, t**2, 2 * t - 1)


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
