"""What the data determine: directions that they leave open, and how far an answer can move.

A forecast may depend on something that the data never showed. The likelihood says which directions
of the parameters are flat. It also says between which ends a measure at a given load lies, among
all parameters that explain the data almost as well as the best ones.
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
from stationary.models.measures import Measure
from stationary.terms.findings import Finding, Verdict
from stationary.terms.measures import as_names
from stationary.terms.slo import check_positive
from stationary.trust.identifiability.directions import (
    Direction,
    common_factor,
    groups_of,
    open_directions,
    rate_at_zero,
)
from stationary.trust.identifiability.profiles import (
    ends_of_parameters,
    explore,
    rates_at_zero,
)
from stationary.trust.identifiability.region import REACH, Question, Region

_MULTIPLES = (1.0, 1.25, 1.5, 2.0)  # loads to ask about, as multiples of the heaviest observed
_COLUMNS = ("measure", "value", "low", "high", "determined", "searched")
"""Columns of the table of ranges, after the inputs."""


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
        profile range. It is ``determined`` where it is narrower than a factor of ten each way. It
        is not ``searched`` where the search reached its limit of work before the range was wider
        than that; then it does not count as determined.
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
        verdicts = {"undetermined": bad, "not_searched": Verdict.UNKNOWN}
        facts: dict[str, Any] = {
            "rank": self.rank,
            "parameters": self.parameters,
            "barely": sum(d.nearly for d in self.directions),
        }
        code, _ = _outcome(self.rows())
        if code == "determined" and self.rank < self.parameters:
            code = "answers_determined"
        found = [Finding("parameters", verdicts.get(code, good), code, facts)]
        by_measure: dict[str, list[dict[str, Any]]] = {}
        for row in self.rows():
            by_measure.setdefault(row["measure"], []).append(row)
        for rows in by_measure.values():
            code, row = _outcome(rows)
            facts = row | {"nats": self.nats}
            found.append(Finding("measure", verdicts.get(code, good), code, facts))
        if not self.converged:
            found.append(Finding("convergence", Verdict.WARNING, "not_converged"))
        return found

    def __str__(self) -> str:
        return words.identifiability(self)


def _outcome(rows: Sequence[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Whether all of some ranges are determined, and the range that shows it."""
    for row in sorted(rows, key=lambda row: not row["searched"]):  # what is certain first
        if not row["determined"]:
            return ("undetermined" if row["searched"] else "not_searched"), row
    return "determined", rows[-1]  # the farthest ahead


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
        Names of the measures to ask about; by default loss and mean response time of a queue, or
        p99 where response times were fitted, all measures of another model, the probability of
        every state of one without measures.
    dispersion : float, optional
        How many times more the counts vary than independent ones would; a nat is divided by it.
        Counts inside a window are autocorrelated, so that 1 overstates what is known. By default
        what the covariance of the fit says, at least 1.

    Returns
    -------
    Identifiability
    """
    if estimate.model.weights:
        raise InputError(
            "what the data determine is asked of parameters with a meaning of their own, and these "
            "are weights of a network: compare forecasts of fits from several first weights"
        )
    if dispersion is None:
        dispersion = max(estimate.covariance.inflation, 1.0)
    for name, value in (("nats", nats), ("dispersion", dispersion)):
        check_positive(value, name)
    model, bound = estimate.model, nats * dispersion
    likelihood = Likelihood(model, windows, estimate.solver)
    z = likelihood.scale.free(estimate.theta).numpy()
    if not estimate.converged:
        z = _settled(likelihood, z)
    region = Region(likelihood, z, bound)
    small = rates_at_zero(region, estimate.covariance.scale)
    asked = _rows(model, _inputs(model, windows, x), _measures(model, windows, measures))
    first = ends_of_parameters(region, small, asked[0].x)
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
    zero = [
        rate_at_zero(model.param_names[k], region.range(k)[1] if first else math.nan) for k in small
    ]
    return Identifiability(
        parameters=len(z),
        rank=len(steep),
        condition=float(steep[-1] / steep[0]) if len(steep) else math.nan,
        directions=tuple(sorted([*directions, *zero], key=lambda d: max(d.curvature, FLAT))),
        ranges=pd.DataFrame([_line(region, k) for k in range(len(first), len(region.questions))]),
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
        options={"maxfun": 1000},  # the work is bounded here, too
    )
    return np.asarray(result.x)


def _inputs(model: Model, windows: Windows, x: Any) -> Tensor:
    if x is not None:
        return model.as_inputs(x, least=1)
    heaviest = windows.x[windows.loads.argmax()]
    ahead = heaviest.repeat(len(_MULTIPLES), 1)
    # By a factor, or where loads may be negative by steps of their own size.
    ahead[:, 0] += heaviest[0].abs() * (torch.tensor(_MULTIPLES, dtype=ahead.dtype) - 1)
    return model.as_inputs(ahead)


def _measures(model: Model, windows: Windows, names: Sequence[str] | None) -> dict[str, Measure]:
    if names is None:
        timed = any(kind.kind == "latencies" for kind in windows.observations)
        usual = ("loss", "p99" if timed and "p99" in model.measures else "response_time")
        names = [name for name in usual if name in model.measures] or model.measures
    return {name: model.measure(name) for name in as_names(names, "measures", "loss")}


@torch.no_grad()
def _rows(model: Model, inputs: Tensor, measures: dict[str, Measure]) -> list[Question]:
    point = model.at(inputs)
    return [
        Question(inputs[k : k + 1], name, measure, float(value.clamp(measure.low, measure.high)))
        for name, measure in measures.items()
        for k, value in enumerate(measure(point))
    ]


def _line(region: Region, k: int) -> dict[str, Any]:
    """One line of the table: a question and its range."""
    asked, (low, high) = region.questions[k], region.range(k)
    # The way to the scale and back rounds, and a fit that stopped early may lie outside.
    low, high = min(low, asked.value), max(high, asked.value)
    known = max(high - asked.value, asked.value - low) <= KNOWN * abs(asked.value)
    narrow = known or max(region.moved(k, 0), region.moved(k, 1)) <= OPEN
    # A range that is wide already is open, however much wider it may be.
    searched = not narrow or bool(region.searched[k].all())
    inputs = dict(zip(region.model.inputs, asked.x[0].tolist(), strict=True))
    rest = (asked.name, asked.value, low, high, narrow and searched, searched)
    return inputs | dict(zip(_COLUMNS, rest, strict=True))
