"""The largest load at which a measure stays within a bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from scipy.optimize import brentq

from stationary.errors import InputError
from stationary.forecast import OPEN, Horizon, forecast
from stationary.inference import Covariance
from stationary.models import Model

FARTHEST = 1e6
"""How many times the heaviest observed load the search for a limit goes before it gives up."""


@dataclass(frozen=True)
class Limit:
    """The largest load at which a measure stays at or below a bound.

    Attributes
    ----------
    measure, bound
        What must hold: ``measure <= bound``.
    load, low, high : float
        The largest load that meets it, and its interval; infinite where no load breaks it.
    level : float
        Coverage of the interval.
    present : float
        The load to compare it with, such as today's peak; NaN if there is none.
    reason : str
        Why the answer is not to be trusted; empty if it is.
    tested : float
        The heaviest load at which the data speaks for the model; zero where it speaks against it.
    """

    measure: str
    bound: float
    load: float
    low: float
    high: float
    level: float
    present: float = math.nan
    reason: str = ""
    tested: float = math.inf

    @property
    def trusted(self) -> bool:
        """Whether the data can carry this answer."""
        return not self.reason

    @property
    def headroom(self) -> float:
        """How much more than the present load meets the bound, as a share of it."""
        return self.load / self.present - 1

    def met_at(self, load: float) -> bool:
        """Whether this load meets the bound, as far as the data can tell.

        A limit that is not trusted, because it lies far out or is open, still vouches for loads
        below its whole interval that the data speaks for.
        """
        return load <= self.load and (self.trusted or load <= min(self.low, self.tested))

    def __str__(self) -> str:
        name, level = self.measure.replace("_", " "), f"{100 * self.level:g}%"
        if self.load == 0:
            text = f"{name} stays at or below {self.bound:g} at no load"
        elif self.load == math.inf:
            text = f"{name} stays at or below {self.bound:g} at any load"
        else:
            text = f"{name} stays at or below {self.bound:g} up to a load of {self.load:.4g}"
        if self.low != self.high:
            high = "any" if self.high == math.inf else f"{self.high:.4g}"
            text += f" ({level} interval {self.low:.4g} to {high})"
        if math.isfinite(self.headroom) and self.load > 0:
            side = "above" if self.headroom >= 0 else "below"
            text += f", {_percent(self.headroom)} {side} the present {self.present:g}"
        return f"{text}; not to be trusted: {self.reason}" if self.reason else text


def _percent(share: float) -> str:
    """Write the size of a share in percent, to two digits or to the percent."""
    size = 100 * abs(share)
    return f"{size:.0f} %" if size >= 9.5 else f"{size:.2g} %"


def one_bound(bound: Mapping[str, float]) -> tuple[str, float]:
    """Return the one measure that was bounded, and its bound."""
    if len(bound) != 1:
        raise InputError(
            f"max_load takes one bound, as in max_load(loss=0.001); got {sorted(bound)}"
        )
    return next(iter(bound.items()))


def check_present(present: float) -> None:
    """Raise unless this is a load."""
    if not 0 < present < math.inf:
        raise InputError(f"the present load must be positive and finite; got {present!r}")


def check_measure(model: Model, measure: str) -> None:
    """Raise unless the model has this measure, of one input."""
    if len(model.inputs) != 1:
        raise InputError(
            f"a limit on the load needs a model of one input; this one has "
            f"{', '.join(model.inputs)}: use forecast"
        )
    model.measure(measure)


def check_bound(model: Model, measure: str, bound: float) -> None:
    """Raise unless the model has this measure, of one input, and the bound is in its range."""
    check_measure(model, measure)
    about = model.measure(measure)
    if not about.low < bound < about.high:
        raise InputError(
            f"a bound on {measure} must lie between {about.low:g} and {about.high:g}; got {bound!r}"
        )


def max_load(
    model: Model,
    cov: Covariance,
    measure: str,
    bound: float,
    near: float,
    *,
    level: float = 0.95,
    doubt: str = "",
    present: float = math.nan,
    horizon: Horizon | None = None,
) -> Limit:
    """Invert a measure that grows with load.

    Parameters
    ----------
    model, cov, level, doubt, horizon
        As for `forecast`.
    measure : str
        Name of a measure.
    bound : float
        Its largest admissible value.
    near : float
        A load to search from, such as the heaviest observed.
    present : float
        The load to compare the limit with.
    """
    check_bound(model, measure, bound)
    limit = invert(lambda load: forecast(model, cov, [load], level), measure, bound, near)
    return judged(replace(limit, level=level, present=present), doubt, horizon)


def invert(
    ahead: Callable[[float], pd.DataFrame], measure: str, bound: float, near: float
) -> Limit:
    """Largest load, and its interval, at which a forecast of one load stays within a bound.

    Parameters
    ----------
    ahead : callable
        The forecast at a load, one row.
    measure, bound, near
        As for `max_load`.
    """
    here, there = (float(ahead(load)[measure].iloc[0]) for load in (near, 2 * near))
    if there < here:
        raise InputError(
            f"{measure} falls as the load grows, so there is no largest load below a bound; look "
            f"at the forecast instead"
        )

    def crossing(column: str) -> float:
        def excess(log_load: float) -> float:
            return float(ahead(math.exp(log_load))[column].iloc[0]) - bound

        return _largest_below(excess, math.log(near))

    load, low, high = (crossing(f"{measure}{end}") for end in ("", "_high", "_low"))
    return Limit(measure, bound, load, low, high, level=math.nan)


def judged(limit: Limit, doubt: str, horizon: Horizon | None) -> Limit:
    """Return a limit with why it is not to be trusted, if it is not."""
    low, high = limit.low, limit.high
    tested = 0.0 if doubt else math.inf if horizon is None else horizon.load
    # The load may be well known where the measure itself is not: the latter rises steeply there.
    known = low == high or (low > 0 and high < math.inf and high / low <= math.exp(2 * OPEN))
    reason = doubt
    if horizon is not None and not horizon.load:
        reason = reason or horizon.reason
    if not known:
        reason = reason or "the data leaves this load open by more than a factor of 10"
    if horizon is not None and limit.load > horizon.load:
        reason = reason or horizon.reason
    return replace(limit, reason=reason, tested=tested)


def _largest_below(excess: Any, start: float) -> float:
    """Load at which a growing function of its logarithm crosses zero, within a millionth part."""
    farthest = math.log(FARTHEST)
    step = 0.25 if excess(start) <= 0 else -0.25
    inside, edge = start, start + step
    while (excess(edge) <= 0) == (step > 0):
        inside, edge = edge, edge + step
        if abs(edge - start) > farthest:
            return math.inf if step > 0 else 0.0
    return math.exp(brentq(excess, min(inside, edge), max(inside, edge), xtol=1e-9, rtol=1e-9))
