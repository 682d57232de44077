"""Measures over load, each with an interval and a trust flag; and the load that meets a limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from stationary.chunks import in_parts
from stationary.derivatives import by_input
from stationary.errors import InputError
from stationary.inference import Array, Covariance, check_level, interval
from stationary.models import Model, Point
from stationary.scales import Scale

OPEN = math.log(10)
"""Half-width, in e-folds, from which a forecast counts as open: a factor of ten each way."""

KNOWN = 0.1
"""Half-width, relative to the value, up to which it counts as known on any scale.

The odds of a utilisation of 0.9999 may be open by a factor of ten; the utilisation is not.
"""


@dataclass(frozen=True)
class Horizon:
    """The heaviest load for which the data speaks.

    Attributes
    ----------
    load : float
        The load; zero for a model that does not even fit the loads it saw.
    sentence : str
        Why it is this one.
    seen : float
        The heaviest load of the data.
    """

    load: float
    sentence: str
    seen: float = 0.0

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
        measure = model.measure(name)
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

    measures = [model.measure(name) for name in model.measures]

    def values(free: Tensor, x: Tensor) -> Tensor:
        point = Point(model, x, scale.natural(free))
        return torch.stack([measure(point) for measure in measures], -1)

    return by_input(values, z, inputs, model.edges)


def values_at(model: Model, inputs: Tensor, thetas: Tensor) -> Array:
    """Values ``[B, G, K]`` of every measure at inputs ``[B, G, d]`` for parameters ``[B, P]``."""
    count, grid_size = inputs.shape[:2]
    flat, each = inputs.flatten(0, 1), thetas.repeat_interleave(grid_size, 0)

    measures = [model.measure(name) for name in model.measures]

    def of_part(x: Tensor, theta: Tensor) -> Tensor:
        with torch.no_grad():
            point = Point(model, x, theta)
            return torch.stack([measure(point) for measure in measures], -1)

    parts = in_parts(of_part, model.edges, flat, each)
    return torch.cat(parts).unflatten(0, (count, grid_size)).numpy()
