"""What a user asks: service-level objectives, the present load, and the level of intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from stationary import words
from stationary.errors import InputError

_TEXT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*<=?\s*([^\s%a-z]+(?:e[+-]?\d+)?)\s*(%|us|ms|s|min)?\s*")
_UNITS = {"%": 0.01, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


@dataclass(frozen=True)
class Slo:
    """A service-level objective: a measure that must stay at or below a bound.

    Parameters
    ----------
    measure : str
        Name of a measure, such as ``loss``.
    bound : float
        Its largest admissible value, in the unit of time of the loads.
    unit : str
        ``share`` or ``time`` where the bound was written with a unit, which the measure must have.

    Examples
    --------
    >>> Slo.parse("loss < 0.1%")
    Slo(measure='loss', bound=0.001, unit='share')
    >>> Slo.parse("response_time<=200ms").bound, str(Slo.parse("p99<0.2s"))
    (0.2, 'p99 <= 200 ms')
    """

    measure: str
    bound: float
    unit: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.measure, str) or not isinstance(self.bound, Real):
            raise InputError(
                f"an SLO is a measure and the largest number it may be, as in Slo('loss', 0.001); "
                f"got {self.measure!r}, {self.bound!r}"
            )

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Read ``measure<bound``: a share may be in per cent, a time in us, ms, s or min.

        Units of time suppose that loads are per second.
        """
        match = _TEXT.fullmatch(text) if isinstance(text, str) else None
        try:
            number = float(match[2]) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or math.isnan(number):
            raise InputError(
                f"an SLO is written measure<bound, as in 'loss<0.1%' or 'response_time<200ms'; "
                f"got {text!r}"
            )
        unit = "share" if match[3] == "%" else "time" if match[3] else ""
        return cls(match[1], number * _UNITS.get(match[3], 1.0), unit)

    def check(self, units: Collection[str], low: float, high: float) -> None:
        """Raise unless a measure of these units, between these ends, may have this bound."""
        if self.unit and self.unit not in units:
            raise InputError(f"{self.measure} is not a {self.unit}: give its bound as a number")
        if not low < self.bound < high:
            raise InputError(
                f"a bound on {self.measure} must lie between {low:g} and {high:g}; got "
                f"{self.bound!r}"
            )

    def __str__(self) -> str:
        shown = words.seconds(self.bound) if self.unit == "time" else f"{self.bound:g}"
        return f"{self.measure} <= {shown}"


def as_slos(given: Any) -> tuple[Slo, ...]:
    """Return SLOs from one or several texts or `Slo`, or a mapping of bounds by measure."""
    if isinstance(given, Mapping):
        found = [Slo(str(name), _number(name, bound)) for name, bound in given.items()]
    else:
        single = isinstance(given, Slo | str) or not isinstance(given, Iterable)
        items = [given] if single else given
        found = [item if isinstance(item, Slo) else Slo.parse(item) for item in items]
    names = [slo.measure for slo in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{twice[0]} has two bounds; give the smaller one")
    return tuple(found)


def _number(name: Any, bound: Any) -> float:
    try:
        return float(bound)
    except (TypeError, ValueError):
        raise InputError(f"the bound of {name} must be a number; got {bound!r}") from None


def check_level(level: float) -> None:
    """Raise unless this is the coverage of an interval."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, as in 0.95; got {level!r}")


def check_positive(value: float, name: str, example: str = "") -> float:
    """Return a number, or raise unless it is positive and finite."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 < value < math.inf:
        raise InputError(f"{name} must be positive and finite{example}; got {value!r}")
    return float(value)
