r"""Measures of chains too large to solve for every draw.

At a load the chain is factored once, at its estimates, and `expansion` has the rest from that
factor: slopes of every measure in the parameters, and, along each axis of the draws whose effect
may not be linear, the measures two standard deviations to either side, where the ends of intervals
are made. Where the bottleneck moves to another server, the curve bends, and a straight line would
miss a bad draw. Where a series does not settle, the chain is solved at both sides. The first axis
is the direction in which the measures change most; of two axes together, the second-order term is
added.

A limit asks each draw at a load of its own, and a long forecast asks for many loads. There the
measures are curves over load, from a grid of log loads: those of the estimates by Hermite
interpolation, and how draws differ from them by lines between the loads.

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
from stationary.learning.expansion import Expansion
from stationary.learning.inference import Link
from stationary.learning.solvable import UNSOLVABLE, each_solvable, within
from stationary.models import Model, Point
from stationary.models.chunks import in_chunks
from stationary.models.scales import Scale
from stationary.solvers import Accuracy

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
    """Measures of a model at the centre of some draws ``[B, P]``, to the sides of it, over load."""

    def __init__(self, model: Model, names: tuple[str, ...], scale: Scale, theta: Tensor) -> None:
        self.model, self.names, self.scale = model, names, scale
        self.z = scale.free(model.theta.detach()).numpy()
        self.measures = [model.measure(name) for name in names]
        self.pairs = [(measure, Link(measure)) for measure in self.measures]
        self.is_share = np.array([(m.low, m.high) == (0.0, 1.0) for m in self.measures])
        # Axes are chosen by the same measures, whatever else is asked for.
        self.leading = [names.index(name) for name in model.measures or names]
        self.accuracy: Accuracy | None = None
        """Of a chain that was solved, if any was."""
        self.moved = scale.free(theta).numpy() - self.z
        self._known: dict[bytes, _Surroundings] = {}

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
        moved = self.scale.free(theta).numpy() - self.z
        batch = np.broadcast_shapes(x.shape[:-1], moved.shape[:-1])
        moved = np.broadcast_to(moved, (*batch, len(self.z)))
        with np.errstate(divide="ignore"):
            left = np.floor(np.log(x[0, :, 0].numpy()) / _STEP)
        if len(x) > 1 or batch[1] > len(np.unique([left, left + 1])):
            levels = self._on_grid(x.expand(*batch, -1).numpy(), moved)
        else:
            around = self._around(x[0].numpy())
            levels = np.stack([each.levels(moved[:, g]) for g, each in enumerate(around)], 1)
        each = [(*self.pairs[k], k) for k in map(self.names.index, names)]
        found = [
            np.clip(link.back(levels[..., k]), measure.low, measure.high)
            for measure, link, k in each
        ]
        return np.stack(found, -1)

    def _on_grid(self, x: Array, moved: Array) -> Array:
        """Levels ``[B, G, K]`` at inputs ``[B, G, d]`` from curves over load."""
        levels = np.empty((*x.shape[:-1], len(self.measures)))
        others, where = np.unique(x.reshape(-1, x.shape[-1])[:, 1:], axis=0, return_inverse=True)
        for k, other in enumerate(others):
            mine = where.reshape(x.shape[:-1]) == k
            levels[mine] = self._between(np.log(x[mine][:, 0]) / _STEP, moved[mine], other)
        return levels

    def _between(self, place: Array, moved: Array, other: Array) -> Array:
        """Levels ``[N, K]`` at places ``[N]`` on the grid, some way from the estimates."""
        left = np.floor(place).astype(int)
        points = np.unique([left, left + 1])
        x = np.array([[math.exp(_STEP * k), *other] for k in points])
        t, found = (place - left)[:, None], np.zeros((len(place), len(self.measures)))
        for point, around in zip(points, self._around(x), strict=True):
            for end, share in ((left, 1 - t), (left + 1, t)):
                which = end == point
                s = share[which]  # one at the point itself, zero at the next
                in_load = around.in_load * (_STEP if end is left else -_STEP)
                found[which] += s**2 * ((3 - 2 * s) * around.level + (1 - s) * in_load)
                found[which] += s * (around.levels(moved[which]) - around.level)
        return found

    def _around(self, x: Array) -> list[_Surroundings]:
        """What is known around inputs ``[G, d]``, each solved once."""
        keys = [row.tobytes() for row in x]
        new = {key: row for key, row in zip(keys, x, strict=True) if key not in self._known}

        def of_part(part: Tensor) -> list[_Surroundings]:
            return [_Surroundings(self, row[None]) for row in part]

        if new:
            made = in_chunks(of_part, self.model.edges, torch.from_numpy(np.stack([*new.values()])))
            self._known |= zip(new, (each for part in made for each in part), strict=True)
        return [self._known[key] for key in keys]


class _Surroundings:
    """Measures on their links around the estimates at one input ``[1, d]``.

    Along axes in which the draws are spread, the most felt first.
    """

    def __init__(self, curves: Curves, x: Tensor) -> None:
        moved = curves.moved
        self.sides: list[tuple[int, float, Array, Array]] = []
        self.pairs: list[tuple[int, int, Array]] = []
        count = len(curves.measures)
        try:
            chain = Expansion(curves.model, curves.pairs, curves.scale, x, curves.z)
        except UNSOLVABLE:
            self.level = self.in_load = np.full(count, np.nan)
            self.to_axes, self.first = np.zeros((moved.shape[1], 0)), np.zeros((count, 0))
            return
        curves.accuracy = chain.accuracy
        self.level, self.in_load = chain.level, chain.in_load
        # The logarithm of a tiny loss moves a lot, and nobody will ever see it.
        seen = ~curves.is_share | (chain.level > math.log(_NEVER))
        leading = [k for k in curves.leading if seen[k]]
        _, size, basis = np.linalg.svd(moved, full_matrices=False)
        spread = size / math.sqrt(len(moved))
        known = np.nan_to_num(chain.slope[leading])
        _, _, turn = np.linalg.svd(known @ (spread[:, None] * basis).T)
        steps = turn @ (spread[:, None] * basis)  # by one standard deviation along each axis
        self.to_axes = basis.T / np.where(spread > 0, spread, 1.0) @ turn.T
        self.first = chain.slope @ steps.T
        # Without signs: where the effects of two parameters cancel, their bends need not.
        felt = (np.abs(known) @ np.abs(steps.T)).max(0, initial=0.0)
        bends = []
        for r in map(int, np.flatnonzero(felt >= _FELT)):
            side = min(_SIDE, _FARTHEST / max(float(np.abs(steps[r]).max()), 1e-300))
            step, first = side * steps[r], side * self.first[:, r]
            second, below, above, settled = chain.along(step, leading)
            if not settled:
                below, above = self._solved(curves, x, np.stack([-step, step]))
            self.sides.append((r, side, below - chain.level + first, above - chain.level - first))
            bends.append((r, side, step, second))
        for (a, first_side, one, bend), (b, side, two, other) in combinations(bends, 2):
            both = (chain.second(one + two) - bend - other) / (first_side * side)
            self.pairs.append((a, b, both))

    @staticmethod
    def _solved(curves: Curves, x: Tensor, moved: Array) -> Array:
        """Levels ``[N, K]`` some way from the estimates, each solved; NaN where that fails."""
        theta = curves.scale.natural(torch.from_numpy(curves.z + moved))

        def solve(theta: Tensor) -> Array:
            with torch.no_grad():  # which does not reach into threads
                point = Point(curves.model, x.expand(len(theta), -1), theta)
                found = [link.level(measure(point)) for measure, link in curves.pairs]
                return torch.stack(found, -1).numpy()

        theta = within(curves.model, curves.scale, theta)
        return np.concatenate(
            [each_solvable(solve, len(curves.pairs), row) for row in theta[:, None]]
        )

    def levels(self, moved: Array) -> Array:
        """Levels ``[B, K]`` where coordinates are displaced by ``[B, P]``."""
        u = moved @ self.to_axes
        levels: Array = self.level + u @ self.first.T
        for r, side, below, above in self.sides:
            t = u[:, r : r + 1] / side
            levels += _bent(-t) * below + _bent(t) * above
        u = u.clip(-_FARTHEST_PAIR, _FARTHEST_PAIR)
        for a, b, both in self.pairs:
            levels += both * u[:, [a]] * u[:, [b]]
        return levels


def _bent(t: Array) -> Array:
    """Share of the bend at a side that is felt on the way to it: a parabola, and beyond a line."""
    t = np.maximum(t, 0.0)
    return np.where(t <= 1, t**2, 2 * t - 1)
