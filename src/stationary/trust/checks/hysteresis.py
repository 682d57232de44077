"""Check that windows do not depend on the load of the window before."""

from __future__ import annotations

import numpy as np

from stationary.terms.findings import Finding
from stationary.trust.checks._case import LEVEL, Case, passed, unknown, warning
from stationary.trust.checks._rank_tests import shift_along

_FEWEST_MOVES = 5  # windows after a rise of load, and after a fall, that the test needs


def check(case: Case) -> Finding:
    """Test whether windows just after a rise of load differ from those just after a fall.

    At equal load the regressor is, with its sign changed, the load of the window before: a large
    rise has left more behind than a small one.
    """
    loads = case.residuals.loads
    change = np.diff(np.log(loads) if (loads > 0).all() else loads)
    rises, falls = change > 0, change < 0
    moves = {"rises": int(rises.sum()), "falls": int(falls.sum())}
    if min(moves.values()) < _FEWEST_MOVES:
        return unknown("few_moves", **moves, fewest=_FEWEST_MOVES)
    shift = shift_along(case.residuals, change)
    if shift is None:
        return unknown("same_change")
    if shift.p_value >= LEVEL:
        return passed("no_memory", shift.p_value)
    facts = shift.facts(change[rises].mean() - change[falls].mean())
    return warning("remembers", shift.p_value, **facts)
