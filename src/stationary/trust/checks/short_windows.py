"""Check that a window lasts long enough to be one steady state."""

from __future__ import annotations

import numpy as np
import torch

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.models import Queue
from stationary.spectrum import spectral_gap
from stationary.terms.findings import Check, Finding, Verdict
from stationary.trust.checks._residuals import Residuals, durations

_ENOUGH = 10.0
"""Relaxation times in a window from which its counts are an average over a steady state."""

_LARGEST = 1000
"""States above which the eigenvalues of a dense chain take too long for a check."""

_WORK = 1e9
"""Multiplications, about, that eigenvalues at several loads may take."""


def short_windows(
    estimate: Estimate, windows: Windows, residuals: Residuals | None = None
) -> Finding:
    """Check that a window lasts many times what the fitted chain takes to forget its state."""
    lasts = duration(estimate, windows, residuals)
    states = len(estimate.model.states)
    if lasts is None:
        return Finding(Check.STEADY_STATE, Verdict.UNKNOWN, "duration_unknown")
    if states > _LARGEST:
        size = {"states": states, "most": _LARGEST}
        return Finding(Check.STEADY_STATE, Verdict.UNKNOWN, "too_many_states", size)
    load, relaxation = slowest(estimate, windows)
    if not 0 < relaxation < np.inf:
        return Finding(Check.STEADY_STATE, Verdict.UNKNOWN, "relaxation_unknown")
    facts = {
        "times": lasts / relaxation,
        "duration": lasts,
        "estimated": windows.duration is None,
        "relaxation": relaxation,
        "load": load,
        "enough": _ENOUGH * relaxation,
        # Intervals by the spread between windows hold for windows that are too short.
        "intervals_allow": estimate.covariance.kind == "sandwich",
    }
    if lasts >= _ENOUGH * relaxation:
        return Finding(Check.STEADY_STATE, Verdict.OK, "long_enough", facts)
    return Finding(Check.STEADY_STATE, Verdict.WARNING, "too_short", facts)


def duration(estimate: Estimate, windows: Windows, residuals: Residuals | None) -> float | None:
    """Length of a window, the median if they differ; None if it is not known.

    It is what was recorded, or else what Poisson arrivals at the load imply.
    """
    recorded = durations(windows)
    if recorded is not None:
        return float(np.median(recorded))
    by_arrivals = windows.by_arrivals and isinstance(estimate.model, Queue)
    if residuals is None or not by_arrivals:
        return None
    return float(np.median(residuals.totals / (residuals.loads * residuals.seen)))


def slowest(estimate: Estimate, windows: Windows) -> tuple[float, float]:
    """Load at which the fitted chain forgets most slowly, and its relaxation time there."""
    model = estimate.model
    inputs = torch.unique(windows.x, dim=0)  # in order of load
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
