"""Check that a window lasts long enough to be one steady state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from stationary.data.states import Sampling
from stationary.diagnostics._residuals import Residuals
from stationary.findings import Finding, Verdict
from stationary.models import Queue
from stationary.spectrum import spectral_gap

if TYPE_CHECKING:
    from stationary.result import Fit

_ENOUGH = 10.0
"""Relaxation times in a window from which its counts are an average over a steady state."""

_LARGEST = 1000
"""States above which the eigenvalues of a dense chain take too long for a check."""

_WORK = 1e9
"""Multiplications, about, that eigenvalues at several loads may take."""


def short_windows(fit: Fit, residuals: Residuals) -> Finding:
    """Check that a window lasts many times what the fitted chain takes to forget its state."""
    lasts = duration(fit, residuals)
    if lasts is None:
        return _unknown(
            "How long a window lasts is not known, so whether it holds a steady state is not "
            "either: pass --duration (Windows(duration=...)), in the unit of time of the loads."
        )
    if len(fit.model.states) > _LARGEST:
        return _unknown(
            f"How fast a chain of {len(fit.model.states)} states forgets is too costly to compute."
        )
    load, relaxation = slowest(fit)
    if not 0 < relaxation < np.inf:
        return _unknown("The fitted chain moves so slowly that how fast it forgets is not known.")
    about = "" if fit.windows.duration is not None else "about "
    times = lasts / relaxation
    compared = (
        f"A window lasts {times:.3g} times as long as the system takes to forget its state "
        f"({about}{lasts:.3g} against {relaxation:.2g}, at load {load:.4g})"
    )
    if times >= _ENOUGH:
        return Finding("steady state", Verdict.OK, f"{compared}, which is long enough.")
    return Finding(
        "steady state",
        Verdict.WARNING,
        f"{compared}, too short to be a steady state of its own. {_counted(fit)}uccessive windows "
        f"of one run resemble one another; windows of {_ENOUGH * relaxation:.2g} or more would "
        f"help.",
    )


def _counted(fit: Fit) -> str:
    """Begin the sentence on successive windows: intervals by their spread have counted this."""
    if fit.covariance.supposes:
        return "S"
    return "The intervals go by the spread between windows and so count that, but s"


def duration(fit: Fit, residuals: Residuals) -> float | None:
    """Length of a window: as recorded, or as Poisson arrivals at the load tell; None if neither."""
    windows = fit.windows
    if windows.duration is not None:
        return windows.duration
    if windows.sampling is not Sampling.ARRIVAL or not isinstance(fit.model, Queue):
        return None
    return float(np.median(residuals.totals / (residuals.loads * residuals.seen)))


def slowest(fit: Fit) -> tuple[float, float]:
    """Load at which the fitted chain forgets most slowly, and its relaxation time there."""
    inputs = torch.unique(fit.windows.x, dim=0)  # in order of load
    most = int(max(1, min(16, _WORK // len(fit.model.states) ** 3)))
    # From the heaviest down, which for a queue below saturation is the slowest.
    places = np.unique(np.linspace(len(inputs) - 1, 0, most).round().astype(int))
    inputs = inputs[places]
    with torch.no_grad():
        generator = fit.model(inputs)
        # At twice the largest exit rate no eigenvalue is negative, so the one of second largest
        # modulus is the slowest, and not the one that oscillates.
        gamma = 2 * generator.exit_rates().amax(-1)
        times = 1 / (spectral_gap(generator, gamma) * gamma)
    worst = int(times.argmax())
    return float(inputs[worst, 0]), float(times[worst])


def _unknown(sentence: str) -> Finding:
    return Finding("steady state", Verdict.UNKNOWN, sentence)
