r"""Check that the model fits the loads it saw.

Windows go into a few groups by load. In each, the excess of a category is summed and compared with
its spread from window to window, which includes the correlation inside windows. Deep queues come in
rare long runs, so a group that happens to miss them shows too small a spread: it is taken as no
smaller than the binomial one times the group's overall overdispersion. The smallest p-value over
groups and categories is multiplied by their number (Bonferroni), which needs no inverse of a
covariance and so works with more categories than windows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import stdtr

from stationary._support.types import Array
from stationary.data import Latencies
from stationary.terms.findings import Finding, Untrusted
from stationary.trust.checks._case import LEVEL, Case, passed, unknown, warning
from stationary.trust.checks._residuals import FEWEST, Residuals

_MOST_GROUPS = 5

_RELATIVE, _ABSOLUTE = 0.1, 0.01
"""Differences of a share, relative and absolute, that matter when both are exceeded."""

_OF_TIMES = 0.03
"""The absolute one for a bucket of response times: no shape of a service is quite that of a model,
and a forecast rests on how times grow with the load."""


def check(case: Case) -> Finding:
    """Test whether at some load a category is more or less frequent than the model says."""
    table = shares_by_load(case.residuals)
    table = table[table[["observed", "predicted"]].max(axis=1) > _ABSOLUTE]
    if table.empty:
        return unknown("rare_categories", least=_ABSOLUTE)
    least = _OF_TIMES if isinstance(case.windows.counted, Latencies) else _ABSOLUTE
    off = (table["observed"] - table["predicted"]).abs()
    score = off / np.maximum(table["stderr"], 1e-290)
    single = 2 * stdtr(table["windows"] - 1, -score)
    p_values = np.minimum(1.0, single * len(table))  # Bonferroni
    smaller = np.minimum(table["observed"], table["predicted"])
    # With enough data a test finds differences that no planner would mind.
    matters = (off > least) & (off > _RELATIVE * smaller)
    alarms = table[matters & (p_values < LEVEL)]
    p_value = float(p_values.min())
    if alarms.empty:
        return passed("fits", p_value, windows=len(case.residuals))
    worst = alarms.loc[off[alarms.index].idxmax()]
    facts = {name: float(worst[name]) for name in ("low", "high", "observed", "predicted")}
    return warning("misfit", p_value, Untrusted.ALL, category=str(worst["category"]), **facts)


def shares_by_load(residuals: Residuals) -> pd.DataFrame:
    """Observed and predicted shares of windows pooled into a few groups by load.

    One row per group and category; ``stderr`` is that of the difference of the shares, by the
    spread between windows, NaN for a single one.
    """
    parts = []
    for number, rows in enumerate(load_groups(residuals.loads)):
        totals, predicted = residuals.totals[rows], residuals.predicted[rows]
        counted = totals.sum()
        excess = residuals.excess[rows]
        bias = excess.sum(0) / counted
        parts.append(
            pd.DataFrame(
                {
                    "group": number,
                    "low": residuals.loads[rows].min(),
                    "high": residuals.loads[rows].max(),
                    "windows": len(rows),
                    "category": np.array(residuals.labels, dtype=object),
                    "observed": residuals.counts[rows].sum(0) / counted,
                    "predicted": totals @ predicted / counted,
                    "stderr": _spread(excess - totals[:, None] * bias, totals, predicted) / counted,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def load_groups(loads: Array) -> list[Array]:
    """Positions of windows in a few groups by load, about equal in size, equal loads together."""
    order = np.argsort(loads, kind="stable")
    groups = max(1, min(_MOST_GROUPS, len(loads) // FEWEST))
    cuts = loads[order][[len(loads) * k // groups for k in range(1, groups)]]
    which = np.searchsorted(np.unique(cuts), loads, side="right")
    found: list[Array] = []
    for k in np.unique(which):
        rows = np.flatnonzero(which == k)
        # Ties may leave a group too small to have a spread: it joins the lighter one.
        if found and min(len(rows), len(found[-1])) < FEWEST:
            found[-1] = np.sort(np.append(found[-1], rows))
        else:
            found.append(rows)
    return found


def _spread(left: Array, totals: Array, predicted: Array) -> Array:
    """Standard error ``[C]`` of the summed excess of a group."""
    windows = len(left)
    if windows < 2:
        return np.full(left.shape[1], np.nan)
    binomial = (totals[:, None] * predicted * (1 - predicted)).sum(0)
    squares = (left**2).sum(0) * windows / (windows - 1)
    overdispersion = squares.sum() / max(binomial.sum(), 1e-290)
    return np.sqrt(np.maximum(squares, overdispersion * binomial))
