"""Growth of the load as people write it, ``3%/month``, and when it reaches a limit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, timedelta

from stationary.errors import InputError

_TEXT = re.compile(r"\s*\+?([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*%\s*(?:/|per|a)\s*([a-z]+)\s*")
_DAYS = {"day": 1.0, "week": 7.0, "month": 365.25 / 12, "quarter": 365.25 / 4, "year": 365.25}


@dataclass(frozen=True)
class Growth:
    """By how much the load grows in each period of time, on top of what it is then.

    Parameters
    ----------
    share : float
        Growth in one period: 0.03 for 3 %.
    period : str
        ``day``, ``week``, ``month``, ``quarter`` or ``year``.

    Examples
    --------
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

    def reaches(self, factor: float, today: date) -> date | None:
        """Return the day on which the load will be so many times today's; None for never.

        A day that is past, or beyond the calendar, has no date either: ask `days_until`.
        """
        days = self.days_until(factor)
        if not 0 <= days < (date.max - today).days:
            return None
        return today + timedelta(days=math.floor(days))
