"""What a check is given, what it returns, and all checks of a fitted model and its data."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.terms.findings import Finding, Untrusted, Verdict
from stationary.trust.checks._residuals import FEWEST, Residuals, has_counts

LEVEL = 0.01
"""Level of every test: strict, because several are made and a false alarm costs trust."""


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model and the windows it was fitted to, in recorded order."""

    estimate: Estimate
    windows: Windows

    @cached_property
    def residuals(self) -> Residuals:
        """Counts and predictions of the windows that counted states."""
        return Residuals.of(self.estimate, self.windows)


def unknown(code: str, **facts: Any) -> Finding:
    """Return that the data do not say enough."""
    return Finding("", Verdict.UNKNOWN, code, facts)


def passed(code: str, p_value: float = math.nan, **facts: Any) -> Finding:
    """Return that nothing speaks against the data."""
    return Finding("", Verdict.OK, code, facts, p_value)


def warning(
    code: str,
    p_value: float = math.nan,
    untrusted: Untrusted = Untrusted.NONE,
    **facts: Any,
) -> Finding:
    """Return that something does, and which forecasts it speaks against."""
    return Finding("", Verdict.WARNING, code, facts, p_value, untrusted)


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
