"""What the data at hand determine: directions they leave open, and how far an answer can move.

A forecast may hang on something the data never showed. Here the likelihood is asked directly: which
directions of the parameters are flat, and between which ends does a measure at a given load lie
among all parameters that explain the data almost as well as the best ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from torch import Tensor

from stationary.errors import InputError
from stationary.findings import Finding, Verdict
from stationary.forecast import KNOWN, OPEN, grid
from stationary.identifiability.directions import (
    Direction,
    bounded,
    common_factor,
    described,
    groups_of,
    open_directions,
)
from stationary.identifiability.profiles import at_zero, corners, explore
from stationary.identifiability.region import REACH, Region, Row
from stationary.inference import FLAT, Array, finite_hessian
from stationary.measures import Measure
from stationary.models import Model
from stationary.objective import Objective
from stationary.result import Fit

_AHEAD = (1.0, 1.25, 1.5, 2.0)
"""Loads to ask about, as multiples of the heaviest observed."""

_USUAL = ("loss", "response_time")
"""Measures of a queue that stand for the others."""

_MOST_SHOWN = 5
"""Directions that a summary describes before it only counts them."""


@dataclass(frozen=True, eq=False)
class Identifiability:
    """What the data determine.

    Attributes
    ----------
    parameters : int
        Number of parameters.
    rank : int
        Directions of the free scale that the likelihood determines. A rate estimated at zero is
        none: the data bound it from above only.
    condition : float
        Largest over smallest determined curvature; NaN where nothing is determined.
    directions : tuple of Direction
        A basis of what is flat, the most readable ones first, then what is nearly flat.
    ranges : DataFrame
        Input, ``measure``, ``value`` at the estimates, and ``low`` and ``high``: the profile range.
        It is ``determined`` where it is narrower than a factor of ten each way.
    nats, dispersion : float
        How far the fit may get worse in these ranges, and what a nat is divided by.
    doubt : str
        Why nothing here is to be trusted; empty if there is no such reason.
    """

    parameters: int
    rank: int
    condition: float
    directions: tuple[Direction, ...]
    ranges: pd.DataFrame
    nats: float
    dispersion: float
    doubt: str

    @property
    def determined(self) -> bool:
        """Whether the data determine everything that was asked for."""
        return bool(self.ranges["determined"].all())

    def findings(self) -> list[Finding]:
        """One on the parameters, then one a measure."""
        good, bad = Verdict.OK, Verdict.WARNING
        if self.doubt:
            good = bad = Verdict.UNKNOWN
        text = self._rank
        if self.rank < self.parameters and self.determined:
            text += " What was asked for is determined all the same."
        found = [Finding("parameters", good if self.determined else bad, text)]
        for name, rows in self.ranges.groupby("measure", sort=False):
            fine = bool(rows["determined"].all())
            row = rows.iloc[-1] if fine else rows[~rows["determined"]].iloc[0]
            text = f"Within {self._nats}, {self._range(row)}."
            text += "" if fine else " The data do not determine it."
            found.append(Finding(str(name), good if fine else bad, text))
        if self.doubt:
            found.append(Finding("convergence", Verdict.WARNING, f"{self.doubt.capitalize()}."))
        return found

    @property
    def _rank(self) -> str:
        of = f"{self.parameters} direction{'s' * (self.parameters != 1)} of the parameters"
        barely = sum(d.curvature >= FLAT for d in self.directions)
        rest = f", {barely} of them barely" if barely else ""
        return f"The data determine {self.rank} of {of}{rest}."

    @property
    def _nats(self) -> str:
        return f"{self.nats:g} {'nat' if self.nats == 1 else 'nats'} of the best fit"

    def _range(self, row: pd.Series) -> str:
        inputs = self.ranges.columns[: -len(_COLUMNS)]
        where = ", ".join(f"{'load' if name == 'x' else name} {row[name]:g}" for name in inputs)
        name = str(row["measure"])
        name = name if name.startswith("p_") else name.replace("_", " ")  # p_0 is not p 0
        ends = f"between {row['low']:.3g} and {row['high']:.3g}"
        if math.isinf(row["high"]) and not math.isinf(row["low"]):
            ends = f"anywhere above {row['low']:.3g}"
        return f"{name} at {where} lies {ends}"

    def summary(self) -> str:
        """What is open and what is known, as text for people."""
        lines = [self._rank, *(f"  {line}" for line in described(self.directions, _MOST_SHOWN))]
        spread = "" if self.dispersion == 1 else f" (a nat divided by {self.dispersion:.3g})"
        lines += ["", f"Within {self._nats}{spread},"]
        lines += [
            f"  {self._range(row)}{'' if row['determined'] else ': NOT determined'}"
            for _, row in self.ranges.iterrows()
        ]
        end = "The data determine all of this, as wide as it is, if the model is right."
        if not self.determined:
            end = (
                "The data do not determine all of this, whatever a forecast says: observe more "
                "states or heavier loads, or take a model with fewer parameters."
            )
        lines += ["", end]
        return "\n".join([*lines, f"WARNING: {self.doubt}."] if self.doubt else lines)

    def __str__(self) -> str:
        return self.summary()


_COLUMNS = ("measure", "value", "low", "high", "determined")


def identify(
    fit: Fit,
    x: Any = None,
    nats: float = 2.0,
    measures: Sequence[str] | None = None,
    dispersion: float | None = None,
) -> Identifiability:
    """Say what the data of a fit determine.

    Parameters
    ----------
    fit : Fit
        A fitted model, with its windows.
    x : sequence, array [G, d], mapping or DataFrame, optional
        Inputs to ask about; by default the heaviest observed load, and 1.25, 1.5 and 2 times it.
    nats : float
        How much worse than the best fit parameters may be that still count as possible. 2 nats are
        a 95 % interval of one number, where counts are independent.
    measures : sequence of str, optional
        Names of the measures to ask about; by default loss and response time of a queue, all
        measures of another model, the probability of every state of one without measures.
    dispersion : float, optional
        How many times more the counts vary than independent ones would; a nat is divided by it.
        Counts inside a window are autocorrelated, so that 1 overstates what is known. By default
        what the covariance of the fit says, at least 1.

    Returns
    -------
    Identifiability

    Examples
    --------
    >>> import stationary as st
    >>> windows = st.Windows([10.0, 20.0], [[500, 250], [330, 330]], observe=[0, 1])
    >>> fit = st.fit(st.models.MMmK(servers=1, capacity=4), windows)
    >>> print(identify(fit, x=[40.0], measures=["loss"]))
    The data determine 1 of 1 direction of the parameters.
    <BLANKLINE>
    Within 2 nats of the best fit,
      loss at load 40 lies between ... and ...
    <BLANKLINE>
    The data determine all of this, as wide as it is, if the model is right.
    """
    if dispersion is None:
        dispersion = max(fit.covariance.inflation, 1.0)
    for name, value in (("nats", nats), ("dispersion", dispersion)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} must be positive and finite; got {value!r}")
    model, bound = fit.model, nats * dispersion
    objective = Objective(model, fit.windows)
    z = objective.scale.free(model.theta.detach()).numpy()
    if not fit.converged:
        z = _settled(objective, z)
    region = Region(objective, z, bound)
    small = at_zero(region, fit.covariance.scale)
    asked = _rows(model, _inputs(fit, x), _measures(model, measures))
    first = corners(region, small, asked[0].x)
    region.ask([*first, *asked])
    kept = ~np.isin(np.arange(len(z)), list(small))
    hessian = finite_hessian(objective, z) / dispersion
    curvature = np.linalg.eigvalsh(hessian[np.ix_(kept, kept)])
    steep = curvature[curvature >= FLAT]
    groups = groups_of(objective, z, kept)
    directions = open_directions(hessian, model, groups, FLAT, 2 * nats / OPEN**2)
    lines = [common_factor(group, len(z)) for group in groups if len(group) > 1]
    lines += [d.vector(model.param_names) for d in directions]
    centre = z.copy()
    for k, (_, felt) in small.items():
        centre[k] = felt
    explore(region, centre, [line / np.abs(line).max() for line in lines])
    zero = [bounded(model.param_names[k], region.range(k)[1] if first else math.nan) for k in small]
    return Identifiability(
        parameters=len(z),
        rank=len(steep),
        condition=float(steep[-1] / steep[0]) if len(steep) else math.nan,
        directions=tuple(sorted([*directions, *zero], key=lambda d: max(d.curvature, FLAT))),
        ranges=pd.DataFrame([_line(region, k) for k in range(len(first), len(region.rows))]),
        nats=nats,
        dispersion=dispersion,
        doubt=fit.doubt,
    )


def _settled(objective: Objective, z: Array) -> Array:
    """Return the nearest minimum, which a stochastic fit may have missed."""
    result = minimize(
        Region(objective, z, objective.total).cost,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=[(a - REACH, a + REACH) for a in z],
    )
    return np.asarray(result.x)


def _inputs(fit: Fit, x: Any) -> Tensor:
    if x is not None:
        return grid(fit.model, x)
    heaviest = fit.windows.x[fit.windows.loads.argmax()]
    ahead = heaviest.repeat(len(_AHEAD), 1)
    # By a factor, or where loads may be negative by steps of their own size.
    ahead[:, 0] += heaviest[0].abs() * (torch.tensor(_AHEAD, dtype=ahead.dtype) - 1)
    return fit.model.as_inputs(ahead)


def _measures(model: Model, names: Sequence[str] | None) -> dict[str, Measure]:
    if names is None:
        names = [name for name in _USUAL if name in model.measures] or model.measures
    if not names:
        raise InputError(f"measures must name some of {', '.join(model.measures)}; got none")
    return {name: model.measure(name) for name in names}


@torch.no_grad()
def _rows(model: Model, inputs: Tensor, measures: dict[str, Measure]) -> list[Row]:
    point = model.at(inputs)
    return [
        Row(inputs[k : k + 1], name, measure, float(value.clamp(measure.low, measure.high)))
        for name, measure in measures.items()
        for k, value in enumerate(measure(point))
    ]


def _line(region: Region, k: int) -> dict[str, Any]:
    """One line of the table: a question and its range."""
    row, (low, high) = region.rows[k], region.range(k)
    # The way to the scale and back rounds, and a fit that stopped early may lie outside.
    low, high = min(low, row.value), max(high, row.value)
    known = max(high - row.value, row.value - low) <= KNOWN * abs(row.value)
    narrow = max(region.moved(k, 0), region.moved(k, 1)) <= OPEN
    names = region.model.inputs if len(region.model.inputs) > 1 else ("x",)
    inputs = dict(zip(names, row.x[0].tolist(), strict=True))
    rest = (row.name, row.value, low, high, known or narrow)
    return inputs | dict(zip(_COLUMNS, rest, strict=True))
