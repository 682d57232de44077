"""Checks of the order in which windows were recorded: drift, serial correlation, hysteresis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.stats

from stationary._support.types import Array
from stationary.terms.findings import Check, Finding, Verdict
from stationary.trust.checks._rank_tests import (
    association,
    autocorrelation,
    orthonormal,
    ranks_without,
    smooth,
    without,
)
from stationary.trust.checks._residuals import LEVEL, Residuals

_FEWEST_MOVES = 5
"""Windows after a rise of load, and after a fall, that hysteresis needs."""


def drift(residuals: Residuals) -> Finding:
    """Check that residuals at equal load do not go up or down from the first window to the last."""
    basis, position = smooth(residuals.x), residuals.position.astype(float)
    test = association(residuals.standardised_shift, position, basis)
    if test is None:
        return Finding(Check.DRIFT, Verdict.UNKNOWN, "ordered_by_load")
    if test.p_value >= LEVEL:
        seen = {"windows": len(residuals)}
        return Finding(Check.DRIFT, Verdict.OK, "no_drift", seen, test.p_value)
    size = _slope(residuals.shift, position, basis) * (position[-1] - position[0])
    facts = _shift(size, test.slope > 0, residuals)
    return Finding(Check.DRIFT, Verdict.WARNING, "drifted", facts, test.p_value)


def serial_correlation(residuals: Residuals) -> Finding:
    """Check that successive windows do not resemble one another more than windows far apart."""
    windows = len(residuals)
    # A trend is drift, which has its own check.
    position = np.linspace(-1, 1, windows)[:, None]
    basis = orthonormal(np.hstack([smooth(residuals.x), position]))
    rho = autocorrelation(ranks_without(residuals.standardised_shift, basis))
    p_value = float(scipy.stats.norm.sf(rho * math.sqrt(windows)))
    facts: dict[str, Any] = {"autocorrelation": rho, "windows": windows}
    if p_value >= LEVEL:
        return Finding(Check.SERIAL_CORRELATION, Verdict.OK, "uncorrelated", facts, p_value)
    facts["block"] = block_length(rho, windows)
    return Finding(Check.SERIAL_CORRELATION, Verdict.WARNING, "correlated", facts, p_value)


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
        moves = {"rises": int(rises.sum()), "falls": int(falls.sum()), "fewest": _FEWEST_MOVES}
        return Finding(Check.HYSTERESIS, Verdict.UNKNOWN, "few_moves", moves)
    basis = smooth(residuals.x[1:])
    test = association(residuals.standardised_shift[1:], change, basis)
    if test is None:
        return Finding(Check.HYSTERESIS, Verdict.UNKNOWN, "same_change")
    if test.p_value >= LEVEL:
        return Finding(Check.HYSTERESIS, Verdict.OK, "no_memory", {}, test.p_value)
    apart = change[rises].mean() - change[falls].mean()
    size = _slope(residuals.shift[1:], change, basis) * apart
    facts = _shift(size, test.slope > 0, residuals)
    return Finding(Check.HYSTERESIS, Verdict.WARNING, "remembers", facts, test.p_value)


def _slope(values: Array, regressor: Array, basis: Array) -> float:
    own = without(regressor, basis)
    return float(own @ values / (own @ own))


def _shift(size: float, more: bool, residuals: Residuals) -> dict[str, Any]:
    # The sign goes by the ranks, which decided that there is a shift at all.
    return {"size": abs(float(size)), "more": more, "unit": residuals.unit}
