"""Check for arrivals burstier than the model's: totals that vary, queues at light load."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.stats

from stationary.data.states import Sampling
from stationary.diagnostics._residuals import LEVEL, Residuals
from stationary.findings import Finding, Verdict
from stationary.models import Queue

if TYPE_CHECKING:
    from stationary.result import Fit

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


def bursts(fit: Fit, residuals: Residuals) -> Finding:
    """Check that totals vary no more than Poisson ones, and that light load builds no queues."""
    if not isinstance(fit.model, Queue):
        return _unknown("The model is not a queue, so it says nothing about arrivals.")
    parts = [part for part in (_totals(fit, residuals), _light_load(fit, residuals)) if part]
    known = [part for part in parts if part.verdict is not Verdict.UNKNOWN]
    if not known:
        return _unknown(" ".join(part.sentence for part in parts))
    # Two tests, one level between them.
    p_value = min(1.0, len(known) * min(part.p_value for part in known))
    alarms = [part for part in known if part.verdict is Verdict.WARNING]
    if alarms and p_value < LEVEL:
        sentence = " ".join(part.sentence for part in alarms)
        return Finding("bursts", Verdict.WARNING, sentence, p_value)
    calm = [part.sentence for part in parts if part.verdict is not Verdict.WARNING]
    return Finding("bursts", Verdict.OK, " ".join(calm) or "No bursts to speak of.", p_value)


def _totals(fit: Fit, residuals: Residuals) -> Finding | None:
    """Index of dispersion of the requests a window; None where it does not apply."""
    windows = fit.windows
    complete = bool(windows.observation(fit.model).observed.all())
    if windows.sampling is not Sampling.ARRIVAL or windows.duration is None or not complete:
        return None
    # A load that is off by a factor, such as another unit of time, is no burst.
    mean = residuals.loads * residuals.totals.sum() / residuals.loads.sum()
    freedom = len(residuals) - 1
    distance = float(((residuals.totals - mean) ** 2 / mean).sum())
    index = distance / freedom
    if index < _COUNTED and scipy.stats.chi2.cdf(distance, freedom) < LEVEL:
        return _unknown(
            f"How much the totals vary does not tell: they follow the load more closely (index of "
            f"dispersion {index:.2g}) than Poisson arrivals do, so the load was counted."
        )
    p_value = float(scipy.stats.chi2.sf(distance, freedom))
    if p_value < LEVEL and index > _DISPERSED:
        return Finding(
            "bursts",
            Verdict.WARNING,
            f"The requests in a window vary {index:.1f} times as much as Poisson arrivals at the "
            f"load would: arrivals come in bursts, or the load changes inside windows.",
            p_value,
        )
    return Finding(
        "bursts",
        Verdict.OK,
        f"The requests in a window vary as Poisson arrivals do (index of dispersion {index:.2g}).",
        p_value,
    )


def _light_load(fit: Fit, residuals: Residuals) -> Finding:
    """Check the lightest third of the windows for more long queues than the model has there."""
    places = int(residuals.depth.max()) + 1
    if places < 3:
        return _unknown(
            "Two observed categories say how busy the system is, but not how queues build up: "
            "observe three or more to see bursts."
        )
    cut = float(np.quantile(residuals.loads, 1 / 3))
    light = residuals.loads <= cut
    windows = int(light.sum())
    if windows < _FEWEST_LIGHT:
        return _unknown(
            f"{windows} windows at light load are too few to see bursts; {_FEWEST_LIGHT} would do."
        )
    totals, predicted = residuals.totals[light], residuals.predicted[light]
    share = totals @ predicted / totals.sum()
    tail = np.array([share[residuals.depth >= k].sum() for k in range(places)])
    rare = int(np.argmax(np.append(tail, 0.0) <= _RARE))
    # Not the first two, whose ratio the service rate fits, and not a few counts at the very end.
    start = min(max(rare, 2), max(2, math.ceil(places / 2)))
    deep = residuals.depth >= start
    excess = residuals.excess[light][:, deep].sum(1)
    error = math.sqrt(windows) * float(excess.std(ddof=1))
    more, expected = float(excess.sum()), float(totals @ predicted[:, deep].sum(1))
    p_value = float(scipy.stats.t.sf(more / error, windows - 1)) if error > 0 else 1.0
    ratio = 1 + more / expected if expected > 0 else math.inf
    large = ratio > _TIMES_MORE and more > _MORE * totals.sum()
    name = residuals.labels[int(np.flatnonzero(residuals.depth == start)[0])]
    found = name if start == places - 1 else f"{name} or more"
    if p_value < LEVEL and large:
        model = "single Poisson arrivals" if fit.model.arrives_alone else "the model's arrivals"
        seen = (
            f"{_times(ratio)} as many requests as {model} would give found {found} others"
            if fit.windows.sampling is Sampling.ARRIVAL
            else f"the system held {found} requests {_times(ratio)} as often as {model} would give"
        )
        return Finding(
            "bursts",
            Verdict.WARNING,
            f"At light load (up to {cut:.4g}) {seen}: arrivals come in bursts, or service is "
            f"erratic.",
            p_value,
        )
    return Finding(
        "bursts",
        Verdict.OK,
        f"At light load (up to {cut:.4g}) queues of {found} are "
        f"{'hardly' if p_value < LEVEL else 'no'} more frequent than the model says.",
        p_value,
    )


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 1000 else "over 1000 times"


def _unknown(sentence: str) -> Finding:
    return Finding("bursts", Verdict.UNKNOWN, sentence)
