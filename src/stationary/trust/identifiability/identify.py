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

from stationary import words
from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import Estimate
from stationary.learning.inference import FLAT, KNOWN, OPEN, finite_hessian
from stationary.learning.likelihood import Likelihood
from stationary.models import Model
from stationary.models.inputs import grid
from stationary.models.measures import Measure
from stationary.terms.findings import Check, Finding, Verdict
from stationary.trust.identifiability.directions import (
    Direction,
    bounded,
    common_factor,
    groups_of,
    open_directions,
)
from stationary.trust.identifiability.profiles import at_zero, corners, explore
from stationary.trust.identifiability.region import REACH, Region, Row

_AHEAD = (1.0, 1.25, 1.5, 2.0)
"""Loads to ask about, as multiples of the heaviest observed."""

_USUAL = ("loss", "response_time")
"""Measures of a queue that stand for the others."""

_COLUMNS = ("measure", "value", "low", "high", "determined")
"""Of the table of ranges, after the inputs."""


@dataclass(frozen=True, eq=False)
class Identifiability:
    """What the data determine.

    Attributes
    ----------
    parameters : int
        Number of parameters.
    rank : int
        Directions of the free scale that the likelihood determines. A rate estimated at zero does
        not count, because the data bound it from above only.
    condition : float
        Largest over smallest determined curvature; NaN where nothing is determined.
    directions : tuple of Direction
        A basis of what is flat, the most readable ones first, then what is nearly flat.
    ranges : DataFrame
        Inputs by name, ``measure``, ``value`` at the estimates, and ``low`` and ``high``, the
        profile range. It is ``determined`` where it is narrower than a factor of ten each way.
    nats, dispersion : float
        How far the fit may get worse in these ranges, and what a nat is divided by.
    converged : bool
        Whether the fit converged; otherwise nothing here can be trusted.
    """

    parameters: int
    rank: int
    condition: float
    directions: tuple[Direction, ...]
    ranges: pd.DataFrame
    nats: float
    dispersion: float
    converged: bool

    @property
    def determined(self) -> bool:
        """Whether the data determine everything that was asked for."""
        return bool(self.ranges["determined"].all())

    def rows(self) -> list[dict[str, Any]]:
        """Ranges as plain records: ``inputs`` by name, then as in `ranges`; an open end is None."""
        inputs = list(self.ranges)[: -len(_COLUMNS)]
        found = []
        for row in self.ranges.to_dict("records"):
            ends = {end: row[end] if math.isfinite(row[end]) else None for end in ("low", "high")}
            at = {name: row[name] for name in inputs}
            found.append({"inputs": at} | {name: row[name] for name in _COLUMNS} | ends)
        return found

    def findings(self) -> list[Finding]:
        """One on the parameters, one per measure, and one on convergence if that failed."""
        good, bad = Verdict.OK, Verdict.WARNING
        if not self.converged:
            good = bad = Verdict.UNKNOWN
        known = {
            "rank": self.rank,
            "parameters": self.parameters,
            "barely": sum(d.nearly for d in self.directions),
        }
        code = "undetermined"
        if self.determined:
            code = "determined" if self.rank == self.parameters else "answers_determined"
        verdict = good if self.determined else bad
        found = [Finding(Check.PARAMETERS, verdict, code, known)]
        by_measure: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows():
            by_measure.setdefault(row["measure"], []).append(row)
        for rows in by_measure.values():
            open_ = [row for row in rows if not row["determined"]]
            # The first range that is open, or else the last one: the farthest ahead.
            facts = (open_[0] if open_ else rows[-1]) | {"nats": self.nats}
            code, verdict = ("undetermined", bad) if open_ else ("determined", good)
            found.append(Finding(Check.MEASURE, verdict, code, facts))
        if not self.converged:
            found.append(Finding(Check.CONVERGENCE, Verdict.WARNING, "not_converged"))
        return found

    def __str__(self) -> str:
        return words.identifiability(self)


def identify(
    estimate: Estimate,
    windows: Windows,
    x: Any = None,
    nats: float = 2.0,
    measures: Sequence[str] | None = None,
    dispersion: float | None = None,
) -> Identifiability:
    """Say what the data determine.

    Parameters
    ----------
    estimate : Estimate
        A fitted model.
    windows : Windows
        What it was fitted to.
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
    """
    if dispersion is None:
        dispersion = max(estimate.covariance.inflation, 1.0)
    for name, value in (("nats", nats), ("dispersion", dispersion)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} must be positive and finite; got {value!r}")
    model, bound = estimate.model, nats * dispersion
    likelihood = Likelihood(model, windows)
    z = likelihood.scale.free(estimate.theta).numpy()
    if not estimate.converged:
        z = _settled(likelihood, z)
    region = Region(likelihood, z, bound)
    small = at_zero(region, estimate.covariance.scale)
    asked = _rows(model, _inputs(model, windows, x), _measures(model, measures))
    first = corners(region, small, asked[0].x)
    region.ask([*first, *asked])
    kept = ~np.isin(np.arange(len(z)), list(small))
    hessian = finite_hessian(likelihood, z) / dispersion
    curvature = np.linalg.eigvalsh(hessian[np.ix_(kept, kept)])
    steep = curvature[curvature >= FLAT]
    groups = groups_of(likelihood, z, kept)
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
        converged=estimate.converged,
    )


def _settled(likelihood: Likelihood, z: Array) -> Array:
    """Return the nearest minimum, which a stochastic fit may have missed."""
    value, _ = likelihood.value_and_gradient(z)
    result = minimize(
        Region(likelihood, z, max(abs(value), 1.0)).cost,
        z,
        jac=True,
        method="L-BFGS-B",
        bounds=[(a - REACH, a + REACH) for a in z],
    )
    return np.asarray(result.x)


def _inputs(model: Model, windows: Windows, x: Any) -> Tensor:
    if x is not None:
        return grid(model, x)
    heaviest = windows.x[windows.loads.argmax()]
    ahead = heaviest.repeat(len(_AHEAD), 1)
    # By a factor, or where loads may be negative by steps of their own size.
    ahead[:, 0] += heaviest[0].abs() * (torch.tensor(_AHEAD, dtype=ahead.dtype) - 1)
    return model.as_inputs(ahead)


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
    inputs = dict(zip(region.model.inputs, row.x[0].tolist(), strict=True))
    rest = (row.name, row.value, low, high, known or narrow)
    return inputs | dict(zip(_COLUMNS, rest, strict=True))
