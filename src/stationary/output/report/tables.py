"""Tables as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from stationary.words import number


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
        One per column.
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
