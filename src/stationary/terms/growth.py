"""Growth of the load as people write it, ``3%/month``, and when it reaches a limit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from stationary.errors import InputError

_TEXT = re.compile(r"\s*\+?([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*%\s*(?:/|per|a)\s*([a-z]+)\s*")
_DAYS = {"day": 1.0, "week": 7.0, "month": 365.25 / 12, "quarter": 365.25 / 4, "year": 365.25}


@dataclass(frozen=True)
class Growth:
    """By how much the load grows in each period of time, on top of what it is then.

    >>> Growth.parse("3%/month")
    Growth(share=0.03, period='month')
    >>> round(Growth(1.0, "week").days_until(8.0), 6)
    21.0
    """

    share: float
    period: str

    @classmethod
    def parse(cls, text: str) -> Growth:
        """Read ``3%/month``, ``0.5% per week`` or ``40%/year``."""
        match = _TEXT.fullmatch(text)
        try:
            share = float(match[1]) / 100 if match else math.nan
        except ValueError:
            share = math.nan
        if match is None or match[2] not in _DAYS or not 0 < share < math.inf:
            raise InputError(
                f"growth is a positive share per day, week, month, quarter or year, as in "
                f"'3%/month'; got {text!r}"
            )
        return cls(share, match[2])

    def days_until(self, factor: float) -> float:
        """Return the days until the load is so many times what it is now; negative if it was."""
        if factor <= 0:
            return -math.inf
        return math.log(factor) / math.log1p(self.share) * _DAYS[self.period]
