"""Numbers and tables as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 4) -> str:
    """Return a number to some significant digits, with powers of ten written out.

    Examples
    --------
    >>> [number(v) for v in (156.72, 1.2e-5, -1234567.0, 1e-9, 45609.0, float("inf"), 0.0)]
    ['156.7', '1.2 × 10⁻⁵', '−1.235 × 10⁶', '10⁻⁹', '45609', '∞', '0']
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "∞" if value > 0 else "−∞"
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
        text = {"1": ten, "-1": f"-{ten}"}.get(mantissa, f"{mantissa} × {ten}")
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share as a percentage of three digits, as in ``20.5%``."""
    return "∞" if share == math.inf else f"{number(100 * share, 3)}%"


def plain(name: str) -> str:
    """Return a name from a program, such as ``mean_queue``, as words."""
    return name.replace("_", " ")


def sentence(text: str) -> str:
    """Return a text as a sentence: with a capital letter and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what it says, and smaller below it what qualifies that."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table for the page.

    Attributes
    ----------
    label : str
        What it shows, for those who do not see it.
    headings : tuple of str
        One a column.
    rows : tuple of tuple of Cell
        The cells.
    words : frozenset of str
        Headings of the columns that hold words; the others hold numbers.
    quiet : frozenset of str
        Headings of the columns that only qualify others.
    strong : frozenset of int
        Rows that stand out.
    """

    label: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    words: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset()
    strong: frozenset[int] = frozenset()


def cell(value: Any) -> Cell:
    """Return any value of a data frame as a cell."""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return Cell("yes" if value else "no")
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell("–")
    if isinstance(value, str):
        return Cell(value)
    return Cell(number(float(value)))


def from_frame(label: str, frame: pd.DataFrame, names: Mapping[str, str], words: set[str]) -> Table:
    """Return those columns of a frame that have a name here, in this order."""
    shown = [column for column in names if column in frame]
    rows = (tuple(map(cell, row)) for row in frame[shown].itertuples(index=False))
    headings = tuple(names[column] for column in shown)
    return Table(label, headings, tuple(rows), frozenset(names[w] for w in words if w in names))
