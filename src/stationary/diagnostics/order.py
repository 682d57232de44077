"""Checks of the order in which windows were recorded: drift, serial correlation, hysteresis."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats

from stationary.diagnostics._rank_tests import (
    Association,
    association,
    autocorrelation,
    orthonormal,
    ranks_without,
    smooth,
    without,
)
from stationary.diagnostics._residuals import LEVEL, Residuals
from stationary.findings import Finding, Verdict
from stationary.inference import Array

_FEWEST_MOVES = 5
"""Windows after a rise of load, and after a fall, that hysteresis needs."""


def drift(residuals: Residuals) -> Finding:
    """Check that residuals at equal load do not go up or down from the first window to the last."""
    basis, position = smooth(residuals.x), np.arange(len(residuals), dtype=float)
    test = association(residuals.standardised_shift, position, basis)
    if test is None:
        return Finding(
            "drift",
            Verdict.UNKNOWN,
            "The load itself goes one way in the course of the windows, so a drift of the system "
            "cannot be told from what the load does: record loads in mixed order.",
        )
    if test.p_value >= LEVEL:
        return Finding(
            "drift",
            Verdict.OK,
            f"Nothing drifts from the first to the last of {len(residuals)} windows.",
            test.p_value,
        )
    size = abs(_slope(residuals.shift, position, basis) * (len(residuals) - 1))
    return Finding(
        "drift",
        Verdict.WARNING,
        f"At equal load the last windows saw {size:.2g} {residuals.unit} {_more(test)} on average "
        f"than the first: the system changed while it was recorded. Fit its latest part alone, or "
        f"find out what changed.",
        test.p_value,
    )


def serial_correlation(residuals: Residuals) -> Finding:
    """Check that successive windows do not resemble one another more than windows far apart."""
    windows = len(residuals)
    # A trend is drift, which has its own check.
    position = np.linspace(-1, 1, windows)[:, None]
    basis = orthonormal(np.hstack([smooth(residuals.x), position]))
    rho = autocorrelation(ranks_without(residuals.standardised_shift, basis))
    p_value = float(scipy.stats.norm.sf(rho * math.sqrt(windows)))
    if p_value >= LEVEL:
        return Finding(
            "serial correlation",
            Verdict.OK,
            f"Successive windows resemble one another no more than others "
            f"(autocorrelation {rho:.2f}).",
            p_value,
        )
    return Finding(
        "serial correlation",
        Verdict.WARNING,
        f"Successive windows resemble one another (autocorrelation {rho:.2f}), so that "
        f"{windows} of them tell less than {windows} independent ones and the intervals are too "
        f"narrow: bootstrap blocks of about {block_length(rho, windows)} windows, or record longer "
        f"ones.",
        p_value,
    )


def block_length(rho: float, windows: int) -> int:
    """Blocks of a bootstrap for a series of this autocorrelation.

    The length for the variance of a mean (Politis and White, 2004), of a series whose correlation
    falls as ``rho ** lag``; at least 2 and at most a quarter of the windows.
    """
    best = (6 * rho**2 / (1 - rho**2) ** 2 * windows) ** (1 / 3) if abs(rho) < 1 else math.inf
    return int(max(2, math.ceil(min(best, windows / 4))))


def hysteresis(residuals: Residuals) -> Finding:
    """Check that windows just after a rise of load look like those just after a fall.

    At equal load the regressor is, turned round, the load of the window before: a rise by much has
    left more behind than one by little.
    """
    loads = np.log(residuals.loads) if (residuals.loads > 0).all() else residuals.loads
    change = np.diff(loads)
    rises, falls = change > 0, change < 0
    if min(rises.sum(), falls.sum()) < _FEWEST_MOVES:
        return _cannot_tell_hysteresis(
            f"The load rises {rises.sum()} and falls {falls.sum()} times from one window to the "
            f"next"
        )
    basis = smooth(residuals.x[1:])
    test = association(residuals.standardised_shift[1:], change, basis)
    if test is None:
        return _cannot_tell_hysteresis("Every load comes after the same change of load")
    if test.p_value >= LEVEL:
        return Finding(
            "hysteresis",
            Verdict.OK,
            "Windows just after a rise of load look like those just after a fall.",
            test.p_value,
        )
    apart = change[rises].mean() - change[falls].mean()
    size = abs(_slope(residuals.shift[1:], change, basis) * apart)
    return Finding(
        "hysteresis",
        Verdict.WARNING,
        f"At equal load, windows just after a rise of load saw {size:.2g} {residuals.unit} "
        f"{_more(test)} on average than those just after a fall: the system remembers the window "
        f"before, or the load of a window is measured with errors. Lengthen the windows, or leave "
        f"out the time after a change of load.",
        test.p_value,
    )


def _cannot_tell_hysteresis(why: str) -> Finding:
    return Finding(
        "hysteresis",
        Verdict.UNKNOWN,
        f"{why}, so the past cannot be told from the load: record loads in mixed order.",
    )


def _slope(values: Array, regressor: Array, basis: Array) -> float:
    own = without(regressor, basis)
    return float(own @ values / (own @ own))


def _more(test: Association) -> str:
    return "more" if test.slope > 0 else "fewer"
