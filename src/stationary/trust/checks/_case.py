"""What a check is given, and what it returns: a finding, which `diagnose` names after the check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.terms.findings import Finding, Untrusted, Verdict
from stationary.trust.checks._residuals import Residuals

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
