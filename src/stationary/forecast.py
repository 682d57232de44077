"""Measures over load, each with an interval and a trust flag; and the load that meets a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import brentq
from torch import Tensor

from stationary.errors import InputError
from stationary.generator import Generator
from stationary.inference import Array, Covariance, check_level, interval, jacobian
from stationary.models import Model
from stationary.scales import Scale
from stationary.steady import steady_state

OPEN = math.log(10)
"""Half-width, in e-folds, from which a forecast counts as open: a factor of ten each way."""

KNOWN = 0.1
"""Half-width, relative to the value, up to which it counts as known on any scale.

The odds of a utilisation of 0.9999 may be open by a factor of ten; the utilisation is not.
"""

FARTHEST = 1e6
"""How many times the heaviest observed load the search for a limit goes before it gives up."""


@dataclass(frozen=True)
class Horizon:
    """The heaviest load for which the data speaks.

    Attributes
    ----------
    load : float
        The load; zero for a model that does not even fit the loads it saw.
    sentence : str
        Why it is this one.
    """

    load: float
    sentence: str

    @property
    def reason(self) -> str:
        """Why what lies beyond it is not trusted."""
        return f"no data tests the model at this load: {self.sentence}" if self.load else str(self)

    def __str__(self) -> str:
        if not self.load:
            return self.sentence
        return f"forecasts are trusted up to a load of {self.load:.4g}: {self.sentence}"


def grid(model: Model, x: Any) -> Tensor:
    """Inputs of a forecast: a sequence, an array ``[G, d]``, or columns by name."""
    if isinstance(x, (pd.DataFrame, Mapping)):
        missing = [name for name in model.inputs if name not in x]
        if missing:
            raise InputError(f"the forecast needs a column {missing[0]!r}; got {list(x)}")
        x = np.column_stack([np.asarray(x[name], dtype=float) for name in model.inputs])
    elif not isinstance(x, Tensor):
        x = np.asarray(list(x) if isinstance(x, range) else x, dtype=float)
    if len(np.atleast_1d(x)) == 0:
        raise InputError("there is nothing to forecast: x is empty")
    return model.as_inputs(x)


def forecast(
    model: Model,
    cov: Covariance,
    x: Any,
    level: float = 0.95,
    doubt: str = "",
    horizon: Horizon | None = None,
) -> pd.DataFrame:
    """Every measure of the model at every input, with intervals.

    Parameters
    ----------
    model : Model
        A fitted model.
    cov : Covariance
        Of its free parameters.
    x : sequence, array [G, d], mapping or DataFrame
        Inputs.
    level : float
        Coverage of the intervals.
    doubt : str
        A reason not to trust any row, such as a fit that did not converge.
    horizon : Horizon, optional
        Beyond it no row is trusted.

    Returns
    -------
    DataFrame
        The inputs (``x`` for a model of one input), each measure with its ``_low`` and ``_high``,
        ``trusted`` and the ``reason`` if not. A row is not trusted beyond the horizon, nor where
        the data leaves one of its measures open by more than a factor of ten each way.
    """
    check_level(level)
    inputs = grid(model, x)
    names = list(model.measures)
    values, slopes = evaluate(model, inputs, cov.scale)
    columns: dict[str, Array] = {
        "x" if len(model.inputs) == 1 else name: inputs[:, k].numpy()
        for k, name in enumerate(model.inputs)
    }
    reasons = [doubt] * len(inputs)
    for k, name in enumerate(names):
        measure = model.measures[name]
        value = np.clip(values[:, k], measure.low, measure.high)  # probabilities round above 1
        low, high, spread = interval(value, slopes[:, k], cov, measure, level)
        columns |= {name: value, f"{name}_low": low, f"{name}_high": high}
        for row in np.flatnonzero(is_open(spread, value, low, high)):
            reasons[row] = (
                reasons[row] or f"the data leaves {name} open by more than a factor of 10"
            )
    return judged(pd.DataFrame(columns), inputs, reasons, horizon)


def judged(
    frame: pd.DataFrame, inputs: Tensor, reasons: list[str], horizon: Horizon | None
) -> pd.DataFrame:
    """Add to a forecast whether each row is trusted, and why not: beyond the horizon none is."""
    if horizon is not None:
        loads = inputs[:, 0].tolist()
        beyond = [horizon.reason if load > horizon.load else "" for load in loads]
        reasons = [given or why for given, why in zip(reasons, beyond, strict=True)]
    trusted = np.array([not reason for reason in reasons])
    return frame.assign(trusted=trusted, reason=np.array(reasons, dtype=object))


def is_open(half: Array, value: Array, low: Array, high: Array) -> Array:
    """Where an interval of this half-width, in e-folds, says too little to be trusted."""
    known = np.maximum(high - value, value - low) <= KNOWN * np.abs(value)
    result: Array = (half > OPEN) & ~known
    return result


def evaluate(model: Model, inputs: Tensor, scale: Scale) -> tuple[Array, Array]:
    """Values ``[G, K]`` of every measure and their slopes ``[G, K, P]`` on a scale."""
    z = scale.free(model.theta.detach()).numpy()

    def measures(free: Tensor) -> Tensor:
        theta = scale.natural(free)
        pi = steady_state(model.generator(inputs, theta)).pi
        return torch.stack([measure(inputs, pi, theta) for measure in model.measures.values()], -1)

    with torch.no_grad():
        values = measures(torch.tensor(z)).numpy()
    return values, jacobian(measures, z)


@torch.no_grad()
def values_at(model: Model, inputs: Tensor, thetas: Tensor) -> Array:
    """Values ``[B, G, K]`` of every measure at inputs ``[B, G, d]`` for parameters ``[B, P]``."""
    rates = _for_each(model.rates, inputs, thetas)
    pi = steady_state(Generator(model.edges, rates)).pi
    found = [_for_each(measure, inputs, pi, thetas) for measure in model.measures.values()]
    return torch.stack(found, -1).numpy()


def _for_each(function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """Return a function of the rows of its arguments, all at once where it can be batched."""
    try:
        return torch.func.vmap(function)(*arguments)
    except RuntimeError:  # a user's function that branches on values
        return torch.stack([function(*row) for row in zip(*arguments, strict=True)])


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
    """

    measure: str
    bound: float
    load: float
    low: float
    high: float
    level: float
    present: float = math.nan
    reason: str = ""

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

        A limit that is not trusted still vouches for the loads below its whole interval.
        """
        return load <= self.load and (self.trusted or load <= self.low)

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
    if measure not in model.measures:
        raise InputError(
            f"the model has no measure {measure!r}; it has {', '.join(model.measures)}"
        )


def check_bound(model: Model, measure: str, bound: float) -> None:
    """Raise unless the model has this measure, of one input, and the bound is in its range."""
    check_measure(model, measure)
    about = model.measures[measure]
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
    reason = _limit_reason(limit, doubt, horizon)
    return replace(limit, level=level, present=present, reason=reason)


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


def _limit_reason(limit: Limit, doubt: str, horizon: Horizon | None) -> str:
    """Why a limit is not to be trusted; empty if it is."""
    low, high = limit.low, limit.high
    # The load may be well known where the measure itself is not: the latter rises steeply there.
    known = low == high or (low > 0 and high < math.inf and high / low <= math.exp(2 * OPEN))
    if doubt or not known:
        return doubt or "the data leaves this load open by more than a factor of 10"
    if horizon is not None and limit.load > horizon.load:
        return horizon.reason
    return ""


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
