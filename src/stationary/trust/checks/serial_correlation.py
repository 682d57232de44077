"""Check that successive windows tell as much as independent ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from stationary.terms.findings import Finding
from stationary.trust.checks._case import LEVEL, Case, passed, warning
from stationary.trust.checks._rank_tests import (
    autocorrelation,
    orthonormal,
    ranks_without,
    smooth,
)


def check(case: Case) -> Finding:
    """Test whether successive windows resemble one another more than windows far apart."""
    residuals, windows = case.residuals, len(case.residuals)
    # A trend is drift, which has its own check.
    position = np.linspace(-1, 1, windows)[:, None]
    basis = orthonormal(np.hstack([smooth(residuals.x), position]))
    rho = autocorrelation(ranks_without(residuals.standardised_shift, basis))
    # Without correlation, rho has mean 0 and variance 1 / windows.
    p_value = float(ndtr(-rho * math.sqrt(windows)))
    facts: dict[str, Any] = {"autocorrelation": rho, "windows": windows}
    if p_value >= LEVEL:
        return passed("uncorrelated", p_value, **facts)
    return warning("correlated", p_value, **facts, block=block_length(rho, windows))


def block_length(rho: float, windows: int) -> int:
    """Return the length of blocks of a bootstrap for a series of this autocorrelation.

    The length for the variance of a mean (Politis and White, 2004), of a series whose correlation
    falls as ``rho ** lag``; at least 2 and at most a quarter of the windows.
    """
    best = (6 * rho**2 / (1 - rho**2) ** 2 * windows) ** (1 / 3) if abs(rho) < 1 else math.inf
    return int(max(2, math.ceil(min(best, windows / 4))))
