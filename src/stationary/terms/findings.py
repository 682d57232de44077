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
    """The data does not say enough for the check."""


class Check(StrEnum):
    """What was checked, by the name that people read."""

    LACK_OF_FIT = "lack of fit"
    DRIFT = "drift"
    SERIAL_CORRELATION = "serial correlation"
    HYSTERESIS = "hysteresis"
    STEADY_STATE = "steady state"
    BURSTS = "bursts"
    SERVICE_RATE = "service rate"
    PARAMETERS = "parameters"
    MEASURE = "measure"
    CONVERGENCE = "convergence"


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes
    ----------
    check : Check
        What was checked.
    verdict : Verdict
        How it ended.
    code : str
        What was found, one of a few outcomes of the check.
    facts : mapping
        The numbers and names that its sentence needs.
    p_value : float
        Of the test behind it; NaN where there is none.
    """

    check: Check
    verdict: Verdict
    code: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    p_value: float = math.nan

    def __str__(self) -> str:
        return words.finding(self)
