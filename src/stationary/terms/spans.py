"""Lengths of time as people write them: ``10ms``, ``1s``, ``5m``."""

from __future__ import annotations

import math
import re
from enum import StrEnum

from stationary.errors import InputError

_NUMBER = r"([0-9.]+(?:[eE][+-]?[0-9]+)?)"
_PART = re.compile(rf"{_NUMBER}\s*(us|ms|s|m|h|d|w|y)")
_SPAN = re.compile(rf"\s*(?:{_NUMBER}|(?:{_PART.pattern})+)\s*")
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 7 * 86400.0,
    "y": 365 * 86400.0,
}
"""As Prometheus has them, and microseconds."""


class Unit(StrEnum):
    """Unit of the numbers in a column of times."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"

    @property
    def per_second(self) -> int:
        """How many of them are a second."""
        return {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[self.value]

    @property
    def word(self) -> str:
        """Its name in a sentence."""
        prefix = {"s": "", "ms": "milli", "us": "micro", "ns": "nano"}[self.value]
        return f"{prefix}seconds"


def parse_span(text: str, what: str) -> float:
    """Return the seconds in a text such as ``10ms`` or ``1h30m``; a bare number is seconds.

    >>> parse_span("1.5m", "--window"), parse_span("1h30m", "--window")
    (90.0, 5400.0)
    """
    match = _SPAN.fullmatch(text)
    try:
        seconds = math.nan
        if match:
            parts = [(match[1], "s")] if match[1] else _PART.findall(text)
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    except ValueError:
        seconds = math.nan
    if not (0 <= seconds < math.inf):
        raise InputError(f"{what} is a length of time such as 10ms, 1s, 5m, 1h or 2d; got {text!r}")
    return seconds
