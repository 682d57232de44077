"""The load at which each draw breaks an SLO: roots of all draws at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch

from stationary._support.types import Array
from stationary.errors import RateError, ReducibleError, SolverError
from stationary.learning.draws import Part
from stationary.learning.inference import Link
from stationary.models import Model
from stationary.models.latency import slower_than
from stationary.terms.slo import Slo

_ROUNDING = 1e-9  # what sums of logarithms of loads may be off by

FARTHEST = 1e6
"""How many times the heaviest observed load the search for a limit goes before it gives up."""

_FAR = 100.0
"""The same for a chain that cannot be solved farther out, and for draws where the centre has none.

A queue so overloaded is full at all times, so that still more load hardly changes response times.
"""

_FIRST_STEP = 0.25
"""E-folds of load from the start of the search to the next load tried; steps double."""

_NEXT_STEP = 0.05  # the same from the root of the centre to those of the draws
_TOLERANCE = 1e-9  # how precisely a root is found, in e-folds of load
_MOST_STEPS = 60


class Excess:
    """How far each draw is above the tightest of its SLOs, as a function of the log load.

    Each SLO counts on the scale of its measure's intervals, on which measures are nearly linear in
    the log load. Row 0 is the centre, and the others are the draws.
    """

    def __init__(self, part: Part, slos: Sequence[Slo]) -> None:
        tested = [_tested(part.model, slo) for slo in slos]
        self.part, self.slos, self.names = part, slos, [slo.measure for slo in tested]
        self.links = [Link(part.model.measure(name)) for name in self.names]
        pairs = zip(self.links, tested, strict=True)
        self.bounds = [float(link.to(np.array(slo.bound))) for link, slo in pairs]

    def of(self, values: Array) -> Array:
        """Excess ``[..., K]`` of measures ``[..., K]`` over each bound."""
        pairs = enumerate(zip(self.links, self.bounds, strict=True))
        each = [link.to(values[..., k]) - bound for k, (link, bound) in pairs]
        return np.stack(each, -1)

    def at(self, log_load: Array, rows: Array) -> tuple[Array, Array]:
        """Excess ``[R]`` of some rows at log loads ``[R]``, and the SLO that it belongs to."""
        loads = torch.from_numpy(np.exp(log_load))[:, None, None]
        each = np.full((len(rows), len(self.names)), np.nan)
        if (rows == 0).any():
            with suppress(RateError, ReducibleError, SolverError):
                each[rows == 0] = self.of(self.part.centre(loads[rows == 0], self.names)[:, 0])
        drawn = rows[rows > 0] - 1
        if len(drawn):
            each[rows > 0] = self.of(self.part.drawn(loads[rows > 0], self.names, drawn)[:, 0])
        return each.max(-1), each.argmax(-1)

    def roots(self, start: float) -> tuple[Array, Array]:
        """Log loads at which each row crosses zero, and the SLO that binds there.

        The search of the centre begins at the log load ``start``, and those of the draws at its
        root, moved by how much faster or slower their servers are.

        Infinite where no load within `FARTHEST` breaks an SLO, and minus infinity where none meets
        all; NaN where the chain could not be solved.
        """
        centre = self.roots_of(np.zeros(1, int), np.array([start]), _FIRST_STEP)
        near: float | Array = start
        step, farthest = _FIRST_STEP, _FAR
        if np.isfinite(centre[0][0]):
            near, step, farthest = centre[0] + self._faster(), _NEXT_STEP, FARTHEST
        rows = np.arange(1, 1 + len(self.part.theta))
        draws = self.roots_of(rows, np.broadcast_to(near, rows.shape), step, farthest)
        root, which = (np.concatenate(pair) for pair in zip(centre, draws, strict=True))
        return root, which

    def _faster(self) -> Array:
        """Logarithm of how many times as fast the servers of each draw are as at the centre."""
        mask, model = self.part.model.speed_mask, self.part.model
        ratio = (self.part.theta / model.theta.detach())[:, mask].clamp_min(1e-300).log().numpy()
        return np.nan_to_num(ratio.mean(-1)) if mask.any() else np.zeros(len(ratio))

    def roots_of(
        self, rows: Array, start: Array, step: float, farthest: float = FARTHEST
    ) -> tuple[Array, Array]:
        """The same for some rows, each from a log load, with a first step and a longest way."""
        near, reach = start, math.log(farthest)
        f_near, which = self.at(near, rows)
        up = f_near <= 0
        steps = np.where(up, step, -step)
        far, f_far = near + steps, np.full(len(rows), np.nan)
        left = np.flatnonzero(~np.isnan(f_near))
        while len(left):
            f_far[left], which[left] = self.at(far[left], rows[left])
            left = left[((f_far > 0) != up)[left]]
            # A load at the end of the reach may be short of it by a rounding error.
            short = np.abs(far - start) < reach - _ROUNDING
            left = left[short[left] & ~np.isnan(f_far[left])]
            # The root lies beyond the last load, so the search goes on from there.
            near, f_near = near.copy(), f_near.copy()
            near[left], f_near[left] = far[left], f_far[left]
            steps[left] *= 2
            far[left] = np.clip(far[left] + steps[left], start[left] - reach, start[left] + reach)
        unsolved = np.isnan(f_far) & ~(np.abs(near - start) >= min(reach, math.log(_FAR)))
        crossed = ((f_far > 0) == up) & ~np.isnan(f_far)
        root = np.where(unsolved, np.nan, np.where(up, np.inf, -np.inf))
        found = np.flatnonzero(crossed)
        a, fa, b, fb = (part[found] for part in (near, f_near, far, f_far))
        root[found], which[found] = self._illinois(rows[found], a, fa, b, fb, which[found])
        return root, which

    def _illinois(
        self, rows: Array, a: Array, fa: Array, b: Array, fb: Array, which: Array
    ) -> tuple[Array, Array]:
        """False position with the Illinois rule, for all rows at once.

        Where one end stays for two steps in a row, its value is halved, which keeps the ends from
        closing in from one side only.
        """
        root, left = b.copy(), np.arange(len(b))
        for _ in range(_MOST_STEPS):
            some = (fb != 0) & (np.abs(b - a) >= _TOLERANCE) & ~np.isnan(fb)
            root[left] = np.where(np.isnan(fb), np.nan, b)
            left, rows, a, fa, b, fb = (part[some] for part in (left, rows, a, fa, b, fb))
            if not len(left):
                return root, which
            c = (a * fb - b * fa) / (fb - fa)
            c = np.where(np.isfinite(c), c, (a + b) / 2)
            fc, which[left] = self.at(c, rows)
            swap = (fc > 0) != (fb > 0)
            a, fa = np.where(swap, b, a), np.where(swap, fb, fa / 2)
            b, fb = c, fc
        root[left] = np.nan
        return root, which


def _tested(model: Model, slo: Slo) -> Slo:
    """Return what is tested for an SLO: of a bound on p99, that 1 % are slower.

    To find a percentile is to solve an equation. Its solution inside the search for a load would
    cost far more, and say the same.
    """
    share = model.measure(slo.measure).share
    return slo if share is None else Slo(slower_than(slo.measure, slo.bound), 1 - share)
