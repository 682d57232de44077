r"""Rank tests of a residual against a regressor, with the inputs' own influence taken out of both.

Residuals ``r`` lose a smooth function of the inputs and are replaced by their ranks ``u``; the
regressor loses the same and becomes ``d``. The slope ``d.u / d.d`` has the variance

    s^2  d' R d / (d.d)^2,    R_ij = rho^|i - j|,

where rho is the lag-1 autocorrelation of what is left: windows cut from one run resemble their
neighbours, and a test that took them as independent would see trends everywhere.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.polynomial.chebyshev import chebvander
from scipy.special import stdtr

from stationary._support.types import Array
from stationary.trust.checks._residuals import Residuals

_LEAST_OWN = 0.1
"""Share of a regressor that the inputs must leave unexplained for a test to make sense."""


class Association(NamedTuple):
    """Slope of the ranks on the regressor, and the two-sided p-value of the test against none."""

    slope: float
    p_value: float


class Shift(NamedTuple):
    """How the mean depth of windows goes with a regressor, at equal inputs."""

    p_value: float
    more: bool
    slope: float
    unit: str

    def facts(self, step: float) -> dict[str, Any]:
        """Return what a step of the regressor does to the mean depth, for a sentence."""
        # The sign goes by the ranks, which decided that there is a shift at all.
        return {"size": abs(self.slope * step), "more": self.more, "unit": self.unit}


def shift_along(residuals: Residuals, regressor: Array) -> Shift | None:
    """Test the depth of the last windows, as many as the regressor has, against it.

    None where the inputs explain the regressor.
    """
    rows = slice(len(residuals) - len(regressor), None)
    basis = smooth(residuals.x[rows])
    test = association(residuals.standardised_shift[rows], regressor, basis)
    if test is None:
        return None
    own = without(regressor, basis)
    slope = float(own @ residuals.shift[rows] / (own @ own))
    return Shift(test.p_value, test.slope > 0, slope, residuals.unit)


def smooth(x: Array) -> Array:
    """Orthonormal smooth functions of the inputs ``[M, k]``, a constant among them.

    A cubic of the first input, the load, straight lines of the others; fewer with few windows.
    """
    windows = len(x)
    columns = [np.ones((windows, 1))]
    for k, values in enumerate(x.T):
        values = np.log(values) if (values > 0).all() else values
        low, high = values.min(), values.max()
        if low == high:
            continue
        distinct = len(np.unique(values))
        degree = min(3 if k == 0 else 1, distinct - 1, max(1, windows // 10))
        columns.append(chebvander(2 * (values - low) / (high - low) - 1, degree)[:, 1:])
    return orthonormal(np.hstack(columns))


def orthonormal(columns: Array) -> Array:
    """Orthonormal basis of what the columns span; those that depend on others add nothing."""
    basis, size, _ = np.linalg.svd(columns, full_matrices=False)
    return basis[:, size > 1e-9 * size[0]]


def without(values: Array, basis: Array) -> Array:
    """What an orthonormal basis leaves unexplained."""
    left: Array = values - basis @ (basis.T @ values)
    return left


def ranks_without(values: Array, basis: Array) -> Array:
    """Ranks, about zero, of what a basis leaves unexplained."""
    ranks = pd.Series(without(values, basis)).rank().to_numpy()
    return ranks - ranks.mean()


def autocorrelation(values: Array) -> float:
    """Lag-1 autocorrelation of values about zero."""
    return float(values[1:] @ values[:-1] / max(values @ values, 1e-290))


def association(residual: Array, regressor: Array, basis: Array) -> Association | None:
    """Test a residual against a regressor; None where the inputs explain the regressor."""
    own = without(regressor, basis)
    about_mean = regressor - regressor.mean()
    freedom = len(residual) - basis.shape[1] - 1
    if freedom < 1 or own @ own <= _LEAST_OWN * (about_mean @ about_mean):
        return None
    ranks = ranks_without(residual, basis)
    slope = own @ ranks / (own @ own)
    left = ranks - slope * own
    rho = min(max(autocorrelation(left), 0.0), 0.95)
    # d' R d of the module's docstring, in linear time: a recursive filter sums over the past.
    filtered = np.array(list(accumulate(own, lambda past, now: rho * past + now)))
    spread = 2 * own @ filtered - own @ own
    error = np.sqrt(max(left @ left, 1e-290) / freedom * spread) / (own @ own)
    return Association(float(slope), float(2 * stdtr(freedom, -abs(slope) / error)))
