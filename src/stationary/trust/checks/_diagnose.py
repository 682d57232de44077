"""All checks of a fitted model and its data."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.terms.findings import Finding
from stationary.trust.checks._case import Case, unknown
from stationary.trust.checks._residuals import FEWEST, has_counts


@cache
def _checks() -> dict[str, tuple[Callable[[Case], Finding], bool]]:
    """Every check by name, and whether it needs several windows with counts of states."""
    found = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            loaded = importlib.import_module(f"{__package__}.{module.name}")
            needs_counts = getattr(loaded, "NEEDS_COUNTS", True)
            found[module.name.replace("_", " ")] = loaded.check, needs_counts
    return found


def diagnose(estimate: Estimate, windows: Windows) -> list[Finding]:
    """Check whether the data is what the method assumes, and whether the model fits it.

    Windows are taken in recorded order; pooled ones have none, so nothing can be said about them.
    Every test has a level of 0.01 and goes by the spread between windows, because counts inside a
    window are not independent. There is one finding for each check, by name;
    `stationary.words.finding` puts it into words.
    """
    if windows.is_pooled:
        pooled = unknown("pooled", recorded=windows.recorded)
        return [replace(pooled, check=name) for name in _checks()]
    counted = int(has_counts(windows).sum())
    too_little = None
    if not counted:
        too_little = unknown("no_states")
    elif counted < FEWEST:
        too_little = unknown("few_windows", windows=counted, fewest=FEWEST)
    case = Case(estimate, windows)
    return [
        replace((needs_counts and too_little) or check(case), check=name)
        for name, (check, needs_counts) in _checks().items()
    ]
