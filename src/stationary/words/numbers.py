"""Numbers, values of measures, lists and sentences as people read them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stationary.terms.slo import Slo

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_TIMES = "×"  # noqa: RUF001  # the real sign, for people
_MINUS = "−"  # noqa: RUF001


def number(value: float, digits: int = 4) -> str:
    """Return a number to some significant digits, with powers of ten written out.

    >>> [number(v) for v in (156.72, 1.2e-5, -1234567.0, 1e-9, 45609.0, float("inf"), 0.0)]
    ['156.7', '1.2 × 10⁻⁵', '−1.235 × 10⁶', '10⁻⁹', '45609', '∞', '0']
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "∞" if value > 0 else f"{_MINUS}∞"
    if value == 0:
        return "0"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    if -4 < int(power) < digits:
        text = f"{value:.{digits}g}"
    elif digits <= int(power) < 6:
        text = f"{value:.0f}"
    else:
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        ten = f"10{str(int(power)).translate(_RAISED)}"
        text = {"1": ten, "-1": f"-{ten}"}.get(mantissa, f"{mantissa} {_TIMES} {ten}")
    return text.replace("-", _MINUS)


def percent(share: float) -> str:
    """Return a share as a percentage of three digits.

    >>> percent(0.2049), percent(0.00012)
    ('20.5%', '0.012%')
    """
    return "∞" if share == math.inf else f"{number(100 * share, 3)}%"


def about(share: float) -> str:
    """Return a result as a percentage of no more digits than anyone would act on.

    >>> [about(share) for share in (0.00451, 0.0573, 0.1248, 1.4151, math.inf)]
    ['0.5%', '6%', '12%', '142%', '∞']
    """
    if not 9.5 < 100 * abs(share) < math.inf:
        return "∞" if share == math.inf else f"{number(100 * share, 1)}%"
    return f"{100 * share:.0f}%".replace("-", _MINUS)


def seconds(value: float) -> str:
    """Return a time in the unit that suits it.

    >>> [seconds(v) for v in (0.0002, 0.2, 1.5, 300.0)]
    ['0.2 ms', '200 ms', '1.5 s', '5 min']
    """
    factor, unit = (1000, "ms") if value < 1 else (1, "s") if value < 120 else (1 / 60, "min")
    return f"{number(value * factor, 3)} {unit}"


def load_range(low: float, high: float) -> str:
    """Return the loads of a group of windows.

    >>> load_range(11.0, 12.5), load_range(11.0, 11.0)
    ('11 to 12.5', '11')
    """
    return number(low, 3) if low == high else f"{number(low, 3)} to {number(high, 3)}"


def plural(count: int, what: str) -> str:
    """Return a count of things.

    >>> plural(1, "window"), plural(3, "window")
    ('1 window', '3 windows')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def sentence(clause: str) -> str:
    """Return a clause as a sentence: with a capital letter and a full stop.

    A name from a program, such as ``p_0`` or ``p99``, stays as it is.

    >>> sentence("the fit did not converge"), sentence("p_0 falls"), sentence("p99 is missed")
    ('The fit did not converge.', 'p_0 falls.', 'p99 is missed.')
    """
    clause = clause.strip()
    word = clause.partition(" ")[0]
    is_name = "_" in word or (word[:1] == "p" and word[1:2].isdigit())
    first = clause[:1] if is_name else clause[:1].upper()
    return first + clause[1:] + ("" if clause.endswith((".", "!", "?")) else ".")


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list; beyond ``most`` of them, the last ones are only counted.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e"])
    ('a, b and c', 'a, b, c and 2 more')
    """
    if len(names) == 1:
        return names[0]
    if len(names) <= most:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def plain(name: str) -> str:
    """Return the name of a parameter or a measure as words; ``p_0`` is a state's and stays.

    >>> plain("service_rate"), plain("p_0"), plain("response_time")
    ('service rate', 'p_0', 'mean response time')
    """
    mean = "mean " if name in ("response_time", "waiting_time") else ""
    return name if name.startswith("p_") else mean + name.replace("_", " ")


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
