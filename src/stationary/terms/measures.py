"""Measures of queues by name, and what a bound on one may be: known before torch is loaded."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from stationary.errors import InputError, did_you_mean
from stationary.terms.slo import Slo
from stationary.words import unit_of

USUAL = ("loss", "response_time", "p50", "p95", "p99", "mean_queue", "throughput", "utilisation")
"""Measures that a forecast shows, as suggestions where a name is unknown."""

_ALIKE = 0.9  # similarity to a usual name from which another name is a slip of the pen


def as_names(given: Any, name: str, example: str) -> tuple[str, ...]:
    """Return one or several names that an argument has, or raise."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    names = tuple(given) if several else (given,)
    if not names or not all(isinstance(each, str) for each in names):
        raise InputError(f"{name} must be names, as in {name}=['{example}']; got {given!r:.80}")
    return names


def check_measures(names: Iterable[str]) -> None:
    """Raise unless these can be measures of queues; whether they are, the model says."""
    for name in names:
        mistyped = name not in USUAL and difflib.get_close_matches(name, USUAL, cutoff=_ALIKE)
        if mistyped or unit_of(name) is None:
            raise InputError(f"there is no measure {name!r}{did_you_mean(name, USUAL)}")


def check_bounds(slos: Iterable[Slo]) -> None:
    """Raise unless these are measures of queues, with bounds that they may have."""
    for slo in slos:
        check_measures([slo.measure])
        unit = unit_of(slo.measure)
        slo.check({unit or ""}, 0.0, 1.0 if unit == "share" else math.inf)


def check_times(slos: Iterable[Slo]) -> None:
    """Raise for a bound on a time without a unit: of data in seconds, 200 would be 200 s."""
    for slo in slos:
        if unit_of(slo.measure) == "time" and not slo.unit:
            said = f"{slo.measure}<{slo.bound:g}"
            raise InputError(f"{said} has no unit: write {said}ms or {said}s")
