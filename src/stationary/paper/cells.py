"""How numbers, intervals and tables are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import t as student


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half-width of the 95 % t-interval; no width where there is one value."""
    data = np.asarray(values, dtype=float)
    mean = float(data.mean()) if len(data) else math.nan
    if len(data) < 2:
        return mean, math.nan
    half = student.ppf(0.975, len(data) - 1) * data.std(ddof=1) / math.sqrt(len(data))
    return mean, float(half) if half > 1e-9 * abs(mean) else 0.0  # or the rounding of equal values


def number(value: float) -> str:
    """Three significant digits."""
    plain = not math.isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e4
    return format(value, ".3g" if plain else ".2e")


def plus_minus(mean: float, half: float = math.nan) -> str:
    """Return a mean with the half-width of its interval, if there is one."""
    return number(mean) + (f" ± {number(half)}" if math.isfinite(half) else "")


def listed(values: Iterable[float]) -> str:
    """Several numbers."""
    return ", ".join(map(number, values))


def vector(values: Iterable[float]) -> str:
    """Several parameters, with four digits."""
    return ", ".join(f"{value:.4g}" for value in values)


def markdown(lines: list[list[str]]) -> str:
    """A table as GitHub shows it, padded to be read as text too."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    lines = [lines[0], ["-" * width for width in widths], *lines[1:]]
    padded = ((cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in padded) + "\n"
