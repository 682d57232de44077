"""The load at which each draw breaks an SLO: roots of all draws at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import RateError, ReducibleError, SolverError
from stationary.learning.draws import Part
from stationary.learning.inference import Link
from stationary.models import Model
from stationary.models.latency import slower_than
from stationary.terms.slo import Slo

FARTHEST = 1e6
"""How many times the heaviest observed load the search for a limit goes before it gives up."""

_FIRST_STEP = 0.25
"""E-folds of load from the start of the search to the next load tried; steps double."""

_TOLERANCE = 1e-9
"""How precisely a root is found, in e-folds of load."""

_MOST_STEPS = 60


class Excess:
    """How far each draw is above the tightest of its SLOs, as a function of the log load.

    Each SLO counts on the scale of its measure's intervals, on which measures are nearly linear in
    the log load. The first row is that of the centre.

    Parameters
    ----------
    part : Part
        Draws of one model.
    slos : sequence of Slo
        What must hold.
    """

    def __init__(self, part: Part, slos: Sequence[Slo]) -> None:
        tested = [_tested(part.model, slo) for slo in slos]
        self.part, self.slos, self.names = part, slos, [slo.measure for slo in tested]
        self.links = [Link(part.model.measure(name)) for name in self.names]
        pairs = zip(self.links, tested, strict=True)
        self.bounds = [float(link.to(np.array(slo.bound))) for link, slo in pairs]
        self.known: dict[float, Array] = {}

    def of(self, values: Array) -> Array:
        """Excess ``[..., K]`` of measures ``[..., K]`` over each bound."""
        pairs = enumerate(zip(self.links, self.bounds, strict=True))
        each = [link.to(link.inside(values[..., k])) - bound for k, (link, bound) in pairs]
        return np.stack(each, -1)

    def at(self, log_load: Array) -> tuple[Array, Array]:
        """Excess ``[1 + B]`` at log loads ``[1 + B]``, and the SLO that it belongs to."""
        loads = torch.from_numpy(np.exp(log_load))[:, None, None]
        first = float(loads[0])
        if first not in self.known:  # once the centre's root is found, it is not solved again
            self.known[first] = self._centre(loads[:1])
        drawn = self.part.drawn(loads[1:], self.names)
        each = self.of(np.concatenate([self.known[first], drawn])[:, 0])
        return each.max(-1), each.argmax(-1)

    def _centre(self, loads: Tensor) -> Array:
        """Measures of the estimates; NaN where their chain cannot be solved."""
        try:
            return self.part.centre(loads, self.names)
        except (RateError, ReducibleError, SolverError):
            return np.full((1, 1, len(self.names)), np.nan)

    def roots(self, start: float | Array, step: float = _FIRST_STEP) -> tuple[Array, Array]:
        """Log loads at which each row crosses zero, and the SLO that binds there.

        The search of each row begins at the log load ``start``.

        Infinite where no load within `FARTHEST` breaks an SLO, and minus infinity where none meets
        all; NaN where the chain could not be solved.
        """
        rows = 1 + len(self.part.theta)
        near = np.full(rows, start)
        f_near, which = self.at(near)
        start_solved, up = ~np.isnan(f_near), f_near <= 0
        steps = np.where(up, step, -step)
        far, f_far = near + steps, f_near
        searching = start_solved.copy()
        while searching.any():
            value, binding = self.at(far)
            f_far = np.where(searching, value, f_far)
            which = np.where(searching, binding, which)
            searching &= ~np.isnan(value) & ((value > 0) != up)
            searching &= np.abs(far - start) <= math.log(FARTHEST)
            # The root lies beyond the last load, so the search goes on from there.
            near, f_near = np.where(searching, far, near), np.where(searching, value, f_near)
            steps = np.where(searching, 2 * steps, steps)
            far = np.where(searching, far + steps, far)
        root, which = self._illinois(near, f_near, far, f_far, which)
        no_root = start_solved & ~np.isnan(f_far) & ((f_far > 0) != up)
        root = np.where(no_root, np.where(up, np.inf, -np.inf), root)
        return np.where(start_solved & ~np.isnan(f_far), root, np.nan), which

    def _illinois(
        self, a: Array, fa: Array, b: Array, fb: Array, which: Array
    ) -> tuple[Array, Array]:
        """False position with the Illinois rule, for all rows at once.

        Where one end stays for two steps in a row, its value is halved, which keeps the ends from
        closing in from one side only.
        """
        for _ in range(_MOST_STEPS):
            with np.errstate(invalid="ignore", divide="ignore"):
                c = (a * fb - b * fa) / (fb - fa)
            c = np.where(np.isfinite(c), c, (a + b) / 2)
            done = (np.abs(b - a) < _TOLERANCE) | (fb == 0) | ((fa > 0) == (fb > 0))
            done |= np.isnan(fa) | np.isnan(fb)
            if done.all():
                break
            fc, binding = self.at(np.where(done, b, c))
            swap = ~done & ((fc > 0) != (fb > 0))
            a, fa = np.where(swap, b, a), np.where(swap, fb, np.where(done, fa, fa / 2))
            close = ~done & (np.abs(c - b) < _TOLERANCE)
            b, fb = np.where(done, b, c), np.where(done, fb, fc)
            which = np.where(done, which, binding)
            a = np.where(close, b, a)
        else:
            b = np.where(done, b, np.nan)
        return np.where(np.isnan(fb), np.nan, b), which


def _tested(model: Model, slo: Slo) -> Slo:
    """Return what is tested for an SLO: of a bound on p99, that 1 % are slower.

    To find a percentile is to solve an equation. Its solution inside the search for a load would
    cost far more, and say the same.
    """
    share = model.measure(slo.measure).share
    return slo if share is None else Slo(slower_than(slo.measure, slo.bound), 1 - share)
