"""How numbers, intervals and tables are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import stdtrit

Line = dict[str, str]
"""A line of a table: texts by heading."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half-width of the 95 % t-interval; a single value has no width (NaN)."""
    data = np.asarray(values, dtype=float)
    mean = float(data.mean()) if len(data) else math.nan
    if len(data) < 2:
        return mean, math.nan
    half = half_width(data, len(data))
    # Equal values differ by rounding, which is not a width.
    return mean, half if half > 1e-9 * abs(mean) else 0.0


def half_width(values: np.ndarray, repeats: int) -> float:
    """Half-width of the 95 % t-interval of so many repeats that scatter as these values do."""
    return float(stdtrit(repeats - 1, 0.975) * values.std(ddof=1) / math.sqrt(repeats))


def number(value: float) -> str:
    """Return a number with three significant digits."""
    plain = not math.isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e4
    return format(value, ".3g" if plain else ".2e")


def plus_minus(mean: float, half: float = math.nan) -> str:
    """Return a mean with the half-width of its interval, if there is one."""
    return number(mean) + (f" ± {number(half)}" if math.isfinite(half) else "")


def mean_text(values: Sequence[float]) -> str:
    """Return the mean of values with its 95 % interval."""
    return plus_minus(*interval(values))


def listed(values: Iterable[float]) -> str:
    """Return several numbers."""
    return ", ".join(map(number, values))


def markdown(table: Sequence[Line]) -> str:
    """Return a table as GitHub shows it, padded so that it also reads well as text."""
    lines = [list(table[0]), *(list(line.values()) for line in table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    padded = ((cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in padded) + "\n"
