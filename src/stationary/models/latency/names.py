"""Measures of response times by name: ``p99``, ``slower_0.2``, ``wait_p99``, ``waiting_time``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from torch import Tensor

from stationary.models.measures import Measure

if TYPE_CHECKING:
    from stationary.models._point import Point

_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|9\d{2,})")
_SLOWER = re.compile(r"slower_((?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)")
_WAIT = "wait_"


def percentile_of(name: str) -> float | None:
    """Return the share that ``p99``, ``p97.5`` or ``p999`` (99.9 %) names; None for other names."""
    found = _PERCENTILE.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        return None
    digits = found[1]
    percent = float(digits if len(digits) < 3 or "." in digits else f"{digits[:2]}.{digits[2:]}")
    return percent / 100 if 0 < percent < 100 else None


def slower_than(name: str, bound: float) -> str:
    """Name the share of requests that are slower than a bound on the percentile ``name``."""
    return f"{_WAIT if name.startswith(_WAIT) else ''}slower_{bound!r}"


def time_measure(name: Any) -> Measure | None:
    """Return a measure of response or waiting times; None for other names.

    The model must have ``response_times(point)``, or ``waiting_times(point)``.
    """
    if not isinstance(name, str):
        return None
    if name == "waiting_time":
        about = "mean time that an accepted request waits for its service"
        return Measure(lambda point: point.waiting_times.mean, 0.0, math.inf, about, time=True)
    waits = name.startswith(_WAIT)
    verb, of_times = ("wait", "waiting_times") if waits else ("take", "response_times")
    rest = name.removeprefix(_WAIT)
    share = percentile_of(rest)
    if share is not None:

        def percentile(point: Point) -> Tensor:
            return getattr(point, of_times).percentile(share)

        about = f"{100 * share:g} % of accepted requests {verb} no longer"
        return Measure(percentile, 0.0, math.inf, about, time=True, share=share)
    found = _SLOWER.fullmatch(rest)
    if found is None:
        return None
    bound = float(found[1])

    def slower(point: Point) -> Tensor:
        return getattr(point, of_times).survival(point.load.new_tensor([bound]))[..., 0]

    return Measure(
        slower, 0.0, 1.0, f"share of accepted requests that {verb} longer than {bound:g}"
    )
