"""Check that the system stayed the same from the first window to the last."""

from __future__ import annotations

from stationary.terms.findings import Finding, Untrusted
from stationary.trust.checks._case import LEVEL, Case, passed, unknown, warning
from stationary.trust.checks._rank_tests import shift_along


def check(case: Case) -> Finding:
    """Test whether residuals at equal load go up or down in the order of recording."""
    position = case.residuals.position.astype(float)
    shift = shift_along(case.residuals, position)
    if shift is None:
        return unknown("ordered_by_load")
    if shift.p_value >= LEVEL:
        return passed("no_drift", shift.p_value, windows=len(case.residuals))
    facts = shift.facts(position[-1] - position[0])
    return warning("drifted", shift.p_value, Untrusted.ALL, **facts)
