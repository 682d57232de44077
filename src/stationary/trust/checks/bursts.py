"""Check for arrivals burstier than the model's: totals that vary, queues at light load."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.special import chdtr, chdtrc, stdtr

from stationary.models import Queue
from stationary.terms.findings import Finding, Untrusted, Verdict
from stationary.trust.checks._case import LEVEL, Case, passed, unknown, warning

_DISPERSED = 1.2
"""Index of dispersion from which totals vary more than Poisson ones to a degree that matters."""

_COUNTED = 0.5  # index below which totals are too regular: the load was measured by counting them
_FEWEST_LIGHT = 6  # windows at light load that the shape of their counts needs
_RARE = 0.05  # share of the counts at light load that deep queues make, by the model, at most
_TIMES_MORE, _MORE = 1.5, 0.001
"""Ratio and difference of shares from which more deep queues than expected matter."""


def check(case: Case) -> Finding:
    """Test whether totals vary more than Poisson ones, and whether light load builds queues.

    Its facts hold the ``parts`` that speak, each with a code and facts of its own; its code is that
    of the first.
    """
    if not isinstance(case.estimate.model, Queue):
        return unknown("not_a_queue")
    parts = [part for part in (_totals(case), _light_load(case)) if part is not None]
    known = [part for part in parts if part.verdict is not Verdict.UNKNOWN]
    if not known:
        return _joined(parts, unknown)
    # Two tests, one level between them.
    p_value = min(1.0, len(known) * min(part.p_value for part in known))
    alarms = [part for part in known if part.verdict is Verdict.WARNING]
    if alarms and p_value < LEVEL:
        return _joined(alarms, partial(warning, p_value=p_value, untrusted=Untrusted.UNSEEN_LOADS))
    calm = [part for part in parts if part.verdict is not Verdict.WARNING]
    return _joined(calm, partial(passed, p_value=p_value))


def _joined(parts: list[Finding], outcome: Callable[..., Finding]) -> Finding:
    if not parts:  # an alarm of one test that the level for two does not bear out
        return outcome("no_bursts")
    return outcome(parts[0].code, parts=[{"code": part.code, **part.facts} for part in parts])


def _totals(case: Case) -> Finding | None:
    """Index of dispersion of the requests in a window; None where it does not apply."""
    windows, residuals = case.windows, case.residuals
    if not windows.by_arrivals or residuals.duration is None:
        return None
    if not bool(windows.observation(case.estimate.model).observed.all()):
        return None
    # A load that is off by a factor, such as another unit of time, is no burst.
    offered = residuals.loads * residuals.duration
    mean = offered * residuals.totals.sum() / offered.sum()
    freedom = len(residuals) - 1
    distance = float(((residuals.totals - mean) ** 2 / mean).sum())
    dispersion = distance / freedom
    if dispersion < _COUNTED and chdtr(freedom, distance) < LEVEL:
        return unknown("load_counted", dispersion=dispersion)
    p_value = float(chdtrc(freedom, distance))
    if p_value < LEVEL and dispersion > _DISPERSED:
        return warning("totals_vary", p_value, dispersion=dispersion)
    return passed("totals_poisson", p_value, dispersion=dispersion)


def _light_load(case: Case) -> Finding:
    """Test the lightest third of the windows for more long queues than the model has there."""
    residuals = case.residuals
    places = int(residuals.depth.max()) + 1
    if places < 3:
        return unknown("two_categories")
    cut = float(np.quantile(residuals.loads, 1 / 3))
    light = residuals.loads <= cut
    count = int(light.sum())
    if count < _FEWEST_LIGHT:
        return unknown("few_light_windows", windows=count, fewest=_FEWEST_LIGHT)
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
    p_value = float(stdtr(count - 1, -more / error)) if error > 0 else 1.0
    ratio = 1 + more / expected if expected > 0 else math.inf
    large = ratio > _TIMES_MORE and more > _MORE * totals.sum()
    facts: dict[str, Any] = {
        "load": cut,
        "category": residuals.labels[int(np.flatnonzero(residuals.depth == start)[0])],
        "or_more": start < places - 1,
        "times": getattr(case.windows.counted, "kind", "") == "latencies",
        "observed": (expected + more) / float(totals.sum()),
        "expected": expected / float(totals.sum()),
    }
    if p_value < LEVEL and large:
        facts["sampling"] = "arrival" if case.windows.by_arrivals else "time"
        facts["arrives_alone"] = case.estimate.model.arrives_alone
        return warning("long_queues", p_value, **facts)
    return passed("usual_queues", p_value, **facts, slightly=p_value < LEVEL)
