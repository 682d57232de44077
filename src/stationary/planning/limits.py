"""The largest load that meets all SLOs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from stationary import words
from stationary._support.arguments import explained
from stationary._support.types import Array
from stationary.errors import InputError, SolverError, StationaryError
from stationary.learning.draws import Draws, Part
from stationary.learning.inference import OPEN, Link
from stationary.models import Model
from stationary.planning.forecast import MOST_LOST, is_rounding, quantiles, three
from stationary.planning.roots import Excess
from stationary.terms.slo import Slo, check_level
from stationary.terms.trust import Doubt, Horizon, Reason

_SCANNED = 64  # loads at which a limit is checked to be the first crossing of its bound
_SAMPLED = 32
"""Draws that are scanned first; all of them only where one of these has an earlier crossing."""

_BELOW, _ABOVE = math.log(1000), math.log(4)
"""How far below and above a limit they reach, in e-folds of load."""


class Status(StrEnum):
    """Whether there is a limit."""

    FOUND = "found"
    ANY_LOAD = "any load"
    """No load breaks an SLO."""
    NO_LOAD = "no load"
    """No load meets all of them."""


@explained
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
        Whether the user gave the present load; otherwise it is the heaviest of the data.
    doubt : Doubt, optional
        Why the answer is not to be trusted; None if it is.
    tested : float
        The heaviest load at which the data support the model; zero where they contradict it.
    failed : int
        Draws whose chain could not be solved. They widen both ends.
    met_again : bool
        Whether some heavier loads meet all SLOs again, because a measure rises and falls.
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
    met_again: bool = False

    @property
    def status(self) -> Status:
        """Whether there is a limit."""
        if self.load == math.inf:
            return Status.ANY_LOAD
        return Status.FOUND if self.load > 0 else Status.NO_LOAD

    @property
    def trusted(self) -> bool:
        """Whether the data support this answer."""
        return self.doubt is None

    @property
    def headroom(self) -> float:
        """How much more than the present load meets all SLOs, as a share of it."""
        return self.load / self.present - 1

    def __str__(self) -> str:
        return words.limit(self)

    def __repr__(self) -> str:
        load, low, high = (f"{each:.4g}" for each in (self.load, self.low, self.high))
        return f"Limit({load}, {low} to {high}; binding: {self.binding})"

    def _repr_html_(self) -> str:
        return words.as_html(words.plan_answer(self), words.limit_facts(self))

    def met_at(self, load: float) -> bool:
        """Whether this load meets all SLOs, as far as the data can tell.

        A limit may be untrusted because it lies far beyond the data or because they leave it open.
        Loads below its whole interval, at which the model was tested, still meet the SLOs.
        """
        return load <= self.load and (self.trusted or load <= min(self.low, self.tested))

    @property
    def holds(self) -> bool:
        """Whether the present load meets all SLOs, and the answer is to be trusted: exit code 0."""
        return self.trusted and self.met_at(self.present)


def check_slos(models: Sequence[Model], slos: Sequence[Slo]) -> None:
    """Raise unless the models that answer have these measures, and bounds are in their range.

    A model that has the others as special cases answers alone, so it alone needs the measures.
    """
    models = [model for model in models if model.encompassing] or models
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
            measure = model.measure(slo.measure)
            units = {"time"} if measure.time or measure.high == math.inf else set()
            units |= {"share"} if (measure.low, measure.high) == (0.0, 1.0) else set()
            slo.check(units, measure.low, measure.high)


def limit(
    draws: Draws,
    slos: Sequence[Slo],
    near: float,
    level: float = 0.95,
    doubt: Doubt | None = None,
    horizon: Horizon | None = None,
) -> Limit:
    """Find the largest load that meets all SLOs, from a load ``near`` it.

    Each draw has its own root; the interval is made of their quantiles. The load is that of the
    estimates for one model, and the median of the draws for several. Where a measure rises and
    falls, it is the first load beyond which an SLO is broken. The answer is not trusted where there
    is a ``doubt``, such as a fit that did not converge, nor beyond the ``horizon``.
    """
    check_level(level)
    check_slos([part.model for part in draws.parts], slos)
    if not near > 0:
        raise InputError(f"a limit is searched among positive loads; the data have {near:g}")
    roots, binds, met_again = [], [], False
    for part in draws.parts:
        excess = Excess(part, slos)
        found, which = excess.roots(math.log(near))
        earlier = _earlier_crossings(excess, math.log(near), float(found[0]))
        if earlier is not None:
            starts, step, of_estimates = earlier
            met_again |= of_estimates
            found, which = excess.roots_of(np.arange(len(starts)), starts, step)
        roots.append(np.exp(found))
        binds.append(which)
    centres = np.array([found[0] for found in roots])
    loads = np.concatenate([found[1:] for found in roots])
    unsolved, weights = np.isnan(loads), draws.weights
    alone = len(draws.parts) == 1
    if np.isnan(centres).any() if alone else unsolved.all():
        names = " and ".join(slo.measure for slo in slos)
        raise SolverError(
            f"{names} cannot be computed on the way to a load that breaks {slos[0]}: forecast "
            f"lighter loads, or take a smaller model"
        )
    low, middle, high = quantiles(
        loads[:, None, None], weights, three(level), np.zeros(1), np.full(1, math.inf)
    ).ravel()
    if alone:
        load, bind = float(centres[0]), int(binds[0][0])
    else:
        which = np.concatenate([each[1:] for each in binds])
        load = float(middle)
        bind = int(np.bincount(which, weights, minlength=len(slos)).argmax())
    low, high = min(float(low), load), max(float(high), load)
    tested = 0.0 if doubt else math.inf if horizon is None else horizon.load
    if doubt is None and float(weights[unsolved].sum()) > MOST_LOST:
        doubt = Doubt(Reason.UNSOLVED)
    # A bound on a probability that solvers of large chains do not resolve.
    links = [Link(draws.first.measure(slo.measure)) for slo in slos]
    pairs = zip(slos, links, strict=True)
    tiny = [slo.measure for slo, link in pairs if is_rounding(link, np.array(slo.bound))]
    if doubt is None and tiny and not draws.is_entrywise(draws.first.as_inputs([near])):
        doubt = Doubt(Reason.ROUNDING, tiny[0])
    return Limit(
        tuple(slos),
        slos[bind],
        load,
        low,
        high,
        level,
        doubt=doubt or _doubt(load, low, high, horizon),
        tested=tested,
        failed=int(unsolved.sum()),
        met_again=met_again,
    )


def _doubt(load: float, low: float, high: float, horizon: Horizon | None) -> Doubt | None:
    """Why a limit is not to be trusted; None if it is."""
    if horizon is not None and not horizon.load:
        return Doubt(Reason.HORIZON, horizon=horizon)
    # The width of the limit itself decides, not that of the measure: where a measure rises
    # steeply, it may be hardly known at a load that is known well.
    if low != high and not (low > 0 and max(load / low, high / load) <= math.exp(OPEN)):
        return Doubt(Reason.OPEN)
    beyond = horizon is not None and load > horizon.load
    return Doubt(Reason.HORIZON, horizon=horizon) if beyond else None


def _earlier_crossings(
    excess: Excess, start: float, root: float
) -> tuple[Array, float, bool] | None:
    """Return where to search again, if lighter loads break an SLO at the estimates or in draws.

    That is the log load of each row, the step, and whether the estimates are among them.

    Raise if a measure only falls as the load grows, so that light loads break an SLO and heavier
    ones do not: then there is no largest load that meets it.
    """
    ends = [start, root] if math.isfinite(root) else [start]
    log_loads = np.linspace(min(ends) - _BELOW, max(ends) + _ABOVE, _SCANNED)
    if excess.part.costly:  # a long scan of a large chain would take longer than the answer
        log_loads = np.array([start, start + math.log(2)])
    loads = torch.from_numpy(np.exp(log_loads))[None, :, None]
    try:
        each = excess.of(excess.part.centre(loads, excess.names)[0])
    except StationaryError:  # such as loads at which the model is not defined
        return None
    known = np.flatnonzero(~np.isnan(each).any(-1))
    if not len(known):
        return None
    each, log_loads = each[known], log_loads[known]
    broken = each.max(-1) > 0
    falls = excess.part.costly and len(each) > 1 and bool((each[1] < each[0]).any())
    if falls or (broken[0] and not broken.all() and math.isinf(root)):
        name = excess.slos[int((each[0] - each[-1]).argmax())].measure
        raise InputError(
            f"{name} falls as the load grows, so there is no largest load below a bound; "
            f"look at the forecast instead"
        )
    if broken[0]:  # such as a server that wakes up slowly: only heavier loads matter then
        heavier = log_loads >= min(ends)
        log_loads, broken = log_loads[heavier], broken[heavier]
    if len(broken) < 2 or broken[0]:
        return None
    rows, loads = broken[None], torch.from_numpy(np.exp(log_loads))[None, :, None]
    if not excess.part.costly:
        sample = excess.part.first(_SAMPLED)
        if _recovers(broken) or _recovers(_broken(excess, sample, loads)).any():
            rows = np.concatenate([rows, _broken(excess, excess.part, loads)])
    again = _recovers(rows) & ~rows[:, 0]
    if not again.any():
        return None
    last_met = log_loads[np.maximum(rows.argmax(-1) - 1, 0)]
    starts = np.where(again, last_met, start)
    if len(rows) == 1:
        starts = np.full(1 + len(excess.part.theta), starts[0])
    return starts, float(log_loads[1] - log_loads[0]), bool(again[0])


def _broken(excess: Excess, part: Part, loads: Tensor) -> Array:
    """Whether each draw, ``[B, G]``, breaks an SLO at each of the loads."""
    with np.errstate(invalid="ignore"):
        return np.asarray(excess.of(part.drawn(loads, excess.names)).max(-1) > 0)


def _recovers(broken: Array) -> Array:
    """Whether a load that meets all SLOs comes after one that breaks some."""
    return np.asarray((broken[..., :-1] & ~broken[..., 1:]).any(-1))
