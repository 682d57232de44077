"""What a check found, in a form that people and programs can read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """The data does not say enough for the check."""


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        What was checked, such as ``drift``.
    verdict : Verdict
        How it ended.
    sentence : str
        The outcome for people, as one or two plain sentences.
    p_value : float
        Of the test behind it; NaN where there is none.
    """

    name: str
    verdict: Verdict
    sentence: str
    p_value: float = math.nan
