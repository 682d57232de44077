"""The largest load that meets all SLOs: the roots of all draws together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from numbers import Real

import numpy as np
import torch

from stationary import words
from stationary._support.types import Array
from stationary.errors import InputError, SolverError
from stationary.learning.draws import Draws, Part
from stationary.learning.inference import OPEN, Link, check_level
from stationary.models import Model
from stationary.planning.forecast import MOST_LOST, quantiles
from stationary.terms.slo import Slo
from stationary.terms.trust import Doubt, Horizon, Reason

FARTHEST = 1e6
"""How many times the heaviest observed load the search for a limit goes before it gives up."""

_FIRST_STEP = 0.25
"""E-folds of load from where the search starts to where it looks next; steps double."""

_TOLERANCE = 1e-9
"""How well a limit is found, in e-folds of load."""

_MOST_STEPS = 60


class Status(StrEnum):
    """Whether there is a limit."""

    FOUND = "found"
    ANY_LOAD = "any load"
    """No load breaks an SLO."""
    NO_LOAD = "no load"
    """No load meets all of them."""


@dataclass(frozen=True)
class Limit:
    """The largest load that meets all SLOs.

    Attributes
    ----------
    slos : tuple of Slo
        What must hold.
    binding : Slo
        The one that breaks first beyond this load.
    load, low, high : float
        The load, and its interval; infinite where no load breaks an SLO, zero where none meets all.
    level : float
        Coverage of the interval.
    present : float
        The load to compare it with, such as today's peak; NaN if there is none.
    present_given : bool
        Whether somebody named the present load; otherwise it is the heaviest of the data.
    doubt : Doubt, optional
        Why the answer is not to be trusted; None if it is.
    tested : float
        The heaviest load at which the data speaks for the model; zero where it speaks against it.
    failed : int
        Draws whose chain could not be solved. They widen both ends.
    """

    slos: tuple[Slo, ...]
    binding: Slo
    load: float
    low: float
    high: float
    level: float = 0.95
    present: float = math.nan
    present_given: bool = False
    doubt: Doubt | None = None
    tested: float = math.inf
    failed: int = 0

    @property
    def status(self) -> Status:
        """Whether there is a limit."""
        if self.load == math.inf:
            return Status.ANY_LOAD
        return Status.FOUND if self.load > 0 else Status.NO_LOAD

    @property
    def trusted(self) -> bool:
        """Whether the data supports this answer."""
        return self.doubt is None

    @property
    def headroom(self) -> float:
        """How much more than the present load meets all SLOs, as a share of it."""
        return self.load / self.present - 1

    def __str__(self) -> str:
        return words.limit(self)

    def met_at(self, load: float) -> bool:
        """Whether this load meets all SLOs, as far as the data can tell.

        A limit that is not trusted, because it lies far out or is open, still vouches for loads
        below its whole interval that the data speaks for.
        """
        return load <= self.load and (self.trusted or load <= min(self.low, self.tested))


def check_present(present: float) -> float:
    """Return the present load, or raise unless it is one."""
    number = isinstance(present, Real) and not isinstance(present, bool)
    if not number or not 0 < present < math.inf:
        raise InputError(f"the present load must be positive and finite; got {present!r}")
    return float(present)


def check_slos(models: Sequence[Model], slos: Sequence[Slo]) -> None:
    """Raise unless every model has these measures, of one input, and bounds are in their range."""
    if not slos:
        raise InputError("name what must hold, as in loss=0.001")
    inputs = models[0].inputs
    if len(inputs) != 1:
        raise InputError(
            f"a limit on the load needs a model of one input; this one has "
            f"{', '.join(inputs)}: use forecast"
        )
    for slo in slos:
        for model in models:
            about = model.measure(slo.measure)
            share = (about.low, about.high) == (0.0, 1.0)
            if slo.unit == "time" and not (about.time or about.high == math.inf):
                raise InputError(f"{slo.measure} is not a time: give its bound as a number")
            if slo.unit == "share" and not share:
                raise InputError(f"{slo.measure} is not a share: give its bound as a number")
            if not about.low < slo.bound < about.high:
                raise InputError(
                    f"a bound on {slo.measure} must lie between {about.low:g} and "
                    f"{about.high:g}; got {slo.bound!r}"
                )


def limit(
    draws: Draws,
    slos: Sequence[Slo],
    near: float,
    level: float = 0.95,
    doubt: Doubt | None = None,
    horizon: Horizon | None = None,
) -> Limit:
    """Find the largest load that meets all SLOs.

    Parameters
    ----------
    draws : Draws
        Models and their parameters.
    slos : sequence of Slo
        What must hold.
    near : float
        A load to search from, such as the heaviest observed.
    level : float
        Coverage of the interval.
    doubt : Doubt, optional
        A reason not to trust the answer, such as a fit that did not converge.
    horizon : Horizon, optional
        A limit beyond it is not trusted.
    """
    check_level(level)
    check_slos([part.model for part in draws.parts], slos)
    names = [slo.measure for slo in slos]
    if not near > 0:
        raise InputError(f"a limit is searched among positive loads; the data have {near:g}")
    _check_grows(draws, names, near)
    centres, roots, binds, weights = [], [], [], draws.weights
    for part in draws.parts:
        excess = _Excess(part, slos)
        found, which = excess.roots(math.log(near))
        centres.append((found[0], which[0]))
        roots.append(found[1:])
        binds.append(which[1:])
    loads, which = np.exp(np.concatenate(roots)), np.concatenate(binds)
    lost = np.isnan(loads)
    if lost.all() or np.isnan([root for root, _ in centres]).any():
        raise SolverError(
            f"the chain cannot be solved on the way to a load that breaks {slos[0]}: forecast "
            f"lighter loads, or take a smaller model"
        )
    ends = (0.5 - level / 2, 0.5, 0.5 + level / 2)
    low, middle, high = quantiles(
        loads[:, None, None], weights, ends, np.zeros(1), np.full(1, math.inf)
    ).ravel()
    if len(draws.parts) == 1:
        load, bind = math.exp(centres[0][0]), int(centres[0][1])
    else:
        share = np.bincount(which, weights, minlength=len(slos))
        load, bind = float(middle), int(share.argmax())
    found_limit = Limit(
        tuple(slos),
        slos[bind],
        load,
        min(float(low), load),
        max(float(high), load),
        level,
        tested=0.0 if doubt else math.inf if horizon is None else horizon.load,
        failed=int(lost.sum()),
    )
    if doubt is None and float(weights[lost].sum()) > MOST_LOST:
        doubt = Doubt(Reason.UNSOLVED)
    return _judged(found_limit, doubt, horizon)


def _judged(found: Limit, doubt: Doubt | None, horizon: Horizon | None) -> Limit:
    """Return a limit with why it is not to be trusted, if it is not."""
    low, high = found.low, found.high
    # The load may be well known where a measure itself is not: the latter rises steeply there.
    known = low == high or (low > 0 and high < math.inf and high / low <= math.exp(2 * OPEN))
    if doubt is None and horizon is not None and not horizon.load:
        doubt = Doubt(Reason.HORIZON, horizon=horizon)
    if doubt is None and not known:
        doubt = Doubt(Reason.OPEN)
    if doubt is None and horizon is not None and found.load > horizon.load:
        doubt = Doubt(Reason.HORIZON, horizon=horizon)
    return replace(found, doubt=doubt)


def _check_grows(draws: Draws, names: Sequence[str], near: float) -> None:
    """Raise if a measure falls as the load grows: then there is no largest load below a bound."""
    x = torch.tensor([[near], [2 * near]], dtype=torch.float64)
    for part in draws.parts:
        model = part.model
        point = model.at(x, model.theta.detach())
        for name in names:
            here, there = model.measure(name)(point).tolist()
            if there < here:
                raise InputError(
                    f"{name} falls as the load grows, so there is no largest load below a bound; "
                    f"look at the forecast instead"
                )


class _Excess:
    """How far each draw is above the tightest of its SLOs, as a function of the log load.

    Each SLO counts on the scale of its measure's intervals, on which measures are nearly linear in
    the log load. The first row is that of the centre.
    """

    def __init__(self, part: Part, slos: Sequence[Slo]) -> None:
        self.part, self.names = part, [slo.measure for slo in slos]
        self.links = [Link(part.model.measure(name)) for name in self.names]
        pairs = zip(self.links, slos, strict=True)
        self.bounds = [float(link.to(np.array(slo.bound))) for link, slo in pairs]
        self.known: dict[float, Array] = {}

    def at(self, log_load: Array) -> tuple[Array, Array]:
        """Excess ``[1 + B]`` at log loads ``[1 + B]``, and which SLO it is of."""
        loads = torch.from_numpy(np.exp(log_load))[:, None, None]
        if float(loads[0]) not in self.known:  # a root that is found is not solved again
            self.known[float(loads[0])] = self.part.centre(loads[:1], self.names)
        centre = self.known[float(loads[0])]
        values = np.concatenate([centre[:, 0], self.part.drawn(loads[1:], self.names)[:, 0]])
        each = np.stack(
            [
                link.to(link.inside(values[:, k])) - bound
                for k, (link, bound) in enumerate(zip(self.links, self.bounds, strict=True))
            ],
            -1,
        )
        return each.max(-1), each.argmax(-1)

    def roots(self, start: float) -> tuple[Array, Array]:
        """Log loads at which each row crosses zero, and the SLO that binds there.

        Infinite where no load within `FARTHEST` breaks an SLO, and minus infinity where none meets
        all; NaN where the chain could not be solved.
        """
        rows = 1 + len(self.part.theta)
        inside = np.full(rows, start)
        f, which = self.at(inside)
        up = f <= 0
        step = np.where(up, _FIRST_STEP, -_FIRST_STEP)
        fa, outside, fb = f, inside + step, f.copy()
        open_ = ~np.isnan(f)
        while open_.any():
            value, found = self.at(outside)
            crossed = (value > 0) == up
            fb, which = np.where(open_, value, fb), np.where(open_, found, which)
            open_ &= ~np.isnan(value) & ~crossed
            far = np.abs(outside - start) > math.log(FARTHEST)
            # A root lies between the last two points, so the search goes on from the nearer one.
            inside = np.where(open_ & ~far, outside, inside)
            fa = np.where(open_ & ~far, value, fa)
            step = np.where(open_, 2 * step, step)
            outside = np.where(open_ & ~far, outside + step, outside)
            open_ &= ~far
        root, which = self._illinois(inside, fa, outside, fb, which)
        none = ~np.isnan(fb) & ((fb > 0) != up)
        root = np.where(none, np.where(up, np.inf, -np.inf), root)
        return np.where(np.isnan(f) | np.isnan(fb), np.nan, root), which

    def _illinois(
        self, a: Array, fa: Array, b: Array, fb: Array, which: Array
    ) -> tuple[Array, Array]:
        """False position with the Illinois rule, for all rows together."""
        a, fa, b, fb = a.copy(), fa.copy(), b.copy(), fb.copy()
        for _ in range(_MOST_STEPS):
            with np.errstate(invalid="ignore", divide="ignore"):
                c = (a * fb - b * fa) / (fb - fa)
            c = np.where(np.isfinite(c), c, (a + b) / 2)
            done = (np.abs(b - a) < _TOLERANCE) | (fb == 0) | ((fa > 0) == (fb > 0))
            done |= np.isnan(fa) | np.isnan(fb)
            if done.all():
                break
            fc, found = self.at(np.where(done, b, c))
            swap = ~done & ((fc > 0) != (fb > 0))
            a, fa = np.where(swap, b, a), np.where(swap, fb, np.where(done, fa, fa / 2))
            near = np.abs(c - b) < _TOLERANCE
            b, fb = np.where(done, b, c), np.where(done, fb, fc)
            which = np.where(done, which, found)
            a = np.where(near & ~done, b, a)
        else:
            b = np.where(done, b, np.nan)
        return np.where(np.isnan(fb), np.nan, b), which
