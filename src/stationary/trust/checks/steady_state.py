"""Check that a window lasts long enough to be one steady state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from stationary.models import Queue
from stationary.spectrum import spectral_gap
from stationary.terms.findings import Finding
from stationary.trust.checks._case import Case, passed, unknown, warning
from stationary.trust.checks._residuals import has_counts

NEEDS_COUNTS = False
"""The length of windows may be known without them."""

_ENOUGH = 10.0
"""Relaxation times in a window from which its counts are an average over a steady state."""

_LARGEST = 1000  # states above which the eigenvalues of a dense chain take too long for a check
_WORK = 1e9  # multiplications, about, that eigenvalues at several loads may take


def check(case: Case) -> Finding:
    """Compare the length of a window with the time the fitted chain takes to forget its state."""
    lasts, states = duration(case), len(case.estimate.model.states)
    if lasts is None:
        return unknown("duration_unknown")
    if states > _LARGEST:
        return unknown("too_many_states", states=states, most=_LARGEST)
    load, relaxation = slowest(case)
    if not 0 < relaxation < np.inf:
        return unknown("relaxation_unknown")
    facts: dict[str, Any] = {
        "times": lasts / relaxation,
        "duration": lasts,
        "estimated": case.windows.duration is None,
        "relaxation": relaxation,
        "load": load,
        "enough": _ENOUGH * relaxation,
        # Intervals by the spread between windows hold for windows that are too short.
        "intervals_allow": case.estimate.covariance.kind == "sandwich",
    }
    if lasts >= _ENOUGH * relaxation:
        return passed("long_enough", **facts)
    return warning("too_short", **facts)


def duration(case: Case) -> float | None:
    """Length of a window, the median if they differ; None if it is not known.

    It is what was recorded, or else what Poisson arrivals at the load imply.
    """
    windows = case.windows
    if windows.duration is not None:
        return float(np.median(windows.duration.numpy()))
    by_arrivals = windows.by_arrivals and isinstance(case.estimate.model, Queue)
    if not by_arrivals or not bool(has_counts(windows).any()):
        return None
    residuals = case.residuals
    return float(np.median(residuals.totals / (residuals.loads * residuals.seen)))


def slowest(case: Case) -> tuple[float, float]:
    """Load at which the fitted chain forgets most slowly, and its relaxation time there."""
    model = case.estimate.model
    inputs = torch.unique(case.windows.x, dim=0)  # in order of load
    most = int(max(1, min(16, _WORK // len(model.states) ** 3)))
    # From the heaviest down, which for a queue below saturation is the slowest.
    places = np.unique(np.linspace(len(inputs) - 1, 0, most).round().astype(int))
    inputs = inputs[places]
    with torch.no_grad():
        generator = model(inputs)
        # At twice the largest exit rate no eigenvalue is negative, so the one of second largest
        # modulus is the slowest, and not the one that oscillates.
        gamma = 2 * generator.exit_rates().amax(-1)
        times = 1 / (spectral_gap(generator, gamma) * gamma)
    worst = int(times.argmax())
    return float(inputs[worst, 0]), float(times[worst])
