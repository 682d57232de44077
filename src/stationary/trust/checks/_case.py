"""What a check is given, and what it returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.terms.findings import Untrusted, Verdict
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


class Outcome(NamedTuple):
    """How a check ended: a `Finding` without the name of the check."""

    verdict: Verdict
    code: str
    facts: dict[str, Any]
    p_value: float = math.nan
    untrusted: Untrusted = Untrusted.NONE


def unknown(code: str, **facts: Any) -> Outcome:
    """Return that the data do not say enough."""
    return Outcome(Verdict.UNKNOWN, code, facts)


def passed(code: str, p_value: float = math.nan, **facts: Any) -> Outcome:
    """Return that nothing speaks against the data."""
    return Outcome(Verdict.OK, code, facts, p_value)


def warning(
    code: str,
    p_value: float = math.nan,
    untrusted: Untrusted = Untrusted.NONE,
    **facts: Any,
) -> Outcome:
    """Return that something does, and which forecasts it speaks against."""
    return Outcome(Verdict.WARNING, code, facts, p_value, untrusted)
