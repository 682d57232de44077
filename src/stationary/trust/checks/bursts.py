"""Check for arrivals burstier than the model's: totals that vary, queues at light load."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.stats

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.models import Queue
from stationary.terms.findings import Check, Finding, Verdict
from stationary.trust.checks._residuals import LEVEL, Residuals

_DISPERSED = 1.2
"""Index of dispersion from which totals vary more than Poisson ones to a degree that matters."""

_COUNTED = 0.5
"""Index below which totals are too regular: the load was measured by counting them."""

_FEWEST_LIGHT = 6
"""Windows at light load that the shape of their counts needs."""

_RARE = 0.05
"""Share of the counts at light load that deep queues make, by the model, at most."""

_TIMES_MORE, _MORE = 1.5, 0.001
"""Ratio and difference of shares from which more deep queues than expected matter."""


def bursts(estimate: Estimate, windows: Windows, residuals: Residuals) -> Finding:
    """Check that totals vary no more than Poisson ones, and that light load builds no queues.

    Its facts hold the ``parts`` that speak, each with a code and facts of its own; its code is that
    of the first.
    """
    if not isinstance(estimate.model, Queue):
        return _found(Verdict.UNKNOWN, "not_a_queue")
    light = _light_load(estimate, windows, residuals)
    totals = _totals(estimate, windows, residuals)
    parts = [light] if totals is None else [totals, light]
    known = [part for part in parts if part.verdict is not Verdict.UNKNOWN]
    if not known:
        return _joined(Verdict.UNKNOWN, parts)
    # Two tests, one level between them.
    p_value = min(1.0, len(known) * min(part.p_value for part in known))
    alarms = [part for part in known if part.verdict is Verdict.WARNING]
    if alarms and p_value < LEVEL:
        return _joined(Verdict.WARNING, alarms, p_value)
    calm = [part for part in parts if part.verdict is not Verdict.WARNING]
    return _joined(Verdict.OK, calm, p_value)


def _totals(estimate: Estimate, windows: Windows, residuals: Residuals) -> Finding | None:
    """Index of dispersion of the requests in a window; None where it does not apply."""
    if not windows.by_arrivals or residuals.duration is None:
        return None
    if not bool(windows.observation(estimate.model).observed.all()):
        return None
    # A load that is off by a factor, such as another unit of time, is no burst.
    offered = residuals.loads * residuals.duration
    mean = offered * residuals.totals.sum() / offered.sum()
    freedom = len(residuals) - 1
    distance = float(((residuals.totals - mean) ** 2 / mean).sum())
    facts = {"dispersion": distance / freedom}
    if facts["dispersion"] < _COUNTED and scipy.stats.chi2.cdf(distance, freedom) < LEVEL:
        return _found(Verdict.UNKNOWN, "load_counted", facts)
    p_value = float(scipy.stats.chi2.sf(distance, freedom))
    if p_value < LEVEL and facts["dispersion"] > _DISPERSED:
        return _found(Verdict.WARNING, "totals_vary", facts, p_value)
    return _found(Verdict.OK, "totals_poisson", facts, p_value)


def _light_load(estimate: Estimate, windows: Windows, residuals: Residuals) -> Finding:
    """Check the lightest third of the windows for more long queues than the model has there."""
    places = int(residuals.depth.max()) + 1
    if places < 3:
        return _found(Verdict.UNKNOWN, "two_categories")
    cut = float(np.quantile(residuals.loads, 1 / 3))
    light = residuals.loads <= cut
    count = int(light.sum())
    if count < _FEWEST_LIGHT:
        few = {"windows": count, "fewest": _FEWEST_LIGHT}
        return _found(Verdict.UNKNOWN, "few_light_windows", few)
    totals, predicted = residuals.totals[light], residuals.predicted[light]
    share = totals @ predicted / totals.sum()
    tail = np.array([share[residuals.depth >= k].sum() for k in range(places)])
    rare = int(np.argmax(np.append(tail, 0.0) <= _RARE))
    # Not the first two, whose ratio the service rate fits, and not a few counts at the very end.
    start = min(max(rare, 2), max(2, math.ceil(places / 2)))
    deep = residuals.depth >= start
    excess = residuals.excess[light][:, deep].sum(1)
    error = math.sqrt(count) * float(excess.std(ddof=1))
    more, expected = float(excess.sum()), float(totals @ predicted[:, deep].sum(1))
    p_value = float(scipy.stats.t.sf(more / error, count - 1)) if error > 0 else 1.0
    ratio = 1 + more / expected if expected > 0 else math.inf
    large = ratio > _TIMES_MORE and more > _MORE * totals.sum()
    facts = {
        "load": cut,
        "category": residuals.labels[int(np.flatnonzero(residuals.depth == start)[0])],
        "or_more": start < places - 1,
        "observed": (expected + more) / float(totals.sum()),
        "expected": expected / float(totals.sum()),
    }
    if p_value < LEVEL and large:
        facts["sampling"] = "arrival" if windows.by_arrivals else "time"
        facts["arrives_alone"] = estimate.model.arrives_alone
        return _found(Verdict.WARNING, "long_queues", facts, p_value)
    facts["slightly"] = p_value < LEVEL
    return _found(Verdict.OK, "usual_queues", facts, p_value)


def _found(
    verdict: Verdict, code: str, facts: dict[str, Any] | None = None, p_value: float = math.nan
) -> Finding:
    return Finding(Check.BURSTS, verdict, code, facts or {}, p_value)


def _joined(verdict: Verdict, parts: list[Finding], p_value: float = math.nan) -> Finding:
    if not parts:  # an alarm of one test that the level for two does not bear out
        return _found(verdict, "no_bursts", {}, p_value)
    each = [{"code": part.code, **part.facts} for part in parts]
    return _found(verdict, parts[0].code, {"parts": each}, p_value)
