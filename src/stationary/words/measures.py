"""Values of measures in their units."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stationary.words.numbers import listed, number, percent, plain, seconds

if TYPE_CHECKING:
    from stationary.terms.slo import Slo

_UNITS = {
    "time": re.compile(r"\w+_time|(wait_)?p(?!0+(\.0+)?$)(\d{1,2}(\.\d+)?|9\d{2,})"),
    "share": re.compile(r"loss|utilisation|busy|\w+_share|(wait_)?slower_[\d.e-]+|p_.+"),
    "": re.compile(r"mean_\w+|throughput"),
}
"""What the measures of queues are: times, shares, or numbers without a unit.

The name of a new measure ends in ``_time`` or ``_share``, or begins with ``mean_``: so its unit is
known before torch is loaded, and nothing need be added here.
"""


def unit_of(measure: str) -> str | None:
    """Return ``time``, ``share`` or nothing for a measure of queues; None for another name."""
    return next((unit for unit, name in _UNITS.items() if name.fullmatch(measure)), None)


_SMALL, _NEVER = 1e-5, 1e-9
"""Shares below which a percentage has too many zeros, and which are as good as zero."""


def value(measure: str, size: float, timed: bool = True, digits: int = 3) -> str:
    """Return the value of a measure in its unit; of times only where they are in seconds.

    >>> value("p99", 0.2), value("loss", 0.0123), value("loss", 1e-30), value("mean_queue", 2.5)
    ('200 ms', '1.23%', '< 10⁻⁷%', '2.5')
    """
    unit = unit_of(measure)
    if not math.isfinite(size) or unit not in ("time", "share") or (unit == "time" and not timed):
        return number(size, digits)
    if unit == "time":
        return seconds(size)
    if 0 < size < _SMALL:
        return f"< {number(100 * _NEVER)}%" if size < _NEVER else f"{number(100 * size, 2)}%"
    return percent(size)


def ends(measure: str, low: float, high: float, timed: bool = True) -> str:
    """Return an interval of a measure, with its unit once where both ends have it.

    >>> ends("p99", 0.143, 0.168), ends("p99", 0.9, 1.2), ends("loss", 1e-20, 1e-12)
    ('143 to 168 ms', '900 ms to 1.2 s', '< 10⁻⁷%')
    """
    first, last = (value(measure, size, timed) for size in (low, high))
    unit = re.search(r"( [a-z]+|%)$", last)
    if first == last:
        return last
    return f"{first.removesuffix(unit[0]) if unit else first} to {last}"


def bound(given: Slo) -> str:
    """Return an SLO as people write it: ``loss < 0.1%``, ``p99 < 200 ms``.

    >>> from stationary.terms.slo import Slo
    >>> bound(Slo.parse("loss<0.1%")), bound(Slo.parse("p99<200ms")), bound(Slo("mean_queue", 5))
    ('loss < 0.1%', 'p99 < 200 ms', 'mean queue < 5')
    """
    is_share = unit_of(given.measure) == "share"
    unit = given.unit or ("share" if is_share else "")
    shown = {"share": percent, "time": seconds}.get(unit, number)
    return f"{plain(given.measure)} < {shown(given.bound)}"


def bounds(given: Sequence[Slo]) -> str:
    """Return SLOs as a list: ``loss < 0.1% and p99 < 200 ms``."""
    return listed([bound(each) for each in given], most=len(given))
