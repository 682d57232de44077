"""What a check found, as data: a code and its numbers. `stationary.words` makes the sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stationary import words


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """The data do not say enough for the check."""


class Untrusted(StrEnum):
    """Which forecasts are not to be trusted after a warning."""

    NONE = "none"
    UNSEEN_LOADS = "unseen loads"
    """Those beyond the heaviest load of the data."""
    ALL = "all"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check, which is named as its file in `stationary.trust.checks`.

    ``code`` is one of a few outcomes of the check, and ``facts`` are what its sentence needs; a
    warning speaks against the forecasts that are ``untrusted``.
    """

    check: str
    verdict: Verdict
    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    p_value: float = math.nan
    untrusted: Untrusted = Untrusted.NONE

    def __str__(self) -> str:
        return words.finding(self)
