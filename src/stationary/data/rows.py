"""From the rows of a table to windows: rows are checked, and what is left out is reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from stationary._support.types import Array
from stationary.data.moments import Pool
from stationary.data.numbers import as_range, drop_or_refuse, find_bad, input_names
from stationary.data.tables import Table
from stationary.errors import InputError, did_you_mean
from stationary.terms.categories import (
    Category,
    Observed,
    as_categories,
    as_category,
    find_categories,
    label,
    natural,
    parse_category,
)
from stationary.words import listed

Columns = str | Mapping[str, Category] | Sequence[str]
"""Which columns are counts, and of what, as users say it."""


class Rows:
    """Windows from the rows of a table.

    Parameters
    ----------
    table : Table
        The rows.
    x, counts, observe, loads, drop_empty
        As for `read_windows`.
    """

    def __init__(
        self,
        table: Table,
        x: str | Sequence[str],
        counts: Columns,
        observe: Iterable[Category] | None = None,
        loads: tuple[float | None, float | None] | None = None,
        drop_empty: bool = False,
    ) -> None:
        self.table, self.inputs, self.drop_empty = table, input_names(x), drop_empty
        with about(table):
            self.low, self.high = as_range((None, None) if loads is None else loads)
            of_column = _choose_columns(table, self.inputs, counts)
            present = list(dict.fromkeys(of_column.values()))
            chosen = find_categories(present if observe is None else observe, present)
            self.observe = as_categories(present[k] for k in chosen)
        self.columns = list(of_column)
        # Columns of the same category are added up by a product with this matrix.
        self._adds = np.array([[c == kept for kept in self.observe] for c in of_column.values()])
        self._read = self._outside = self._kept = 0
        self._idle: list[int] = []
        self._empty: list[int] = []
        self._lightest, self._heaviest = np.inf, -np.inf

    def windows(self, pooled: bool = False) -> dict[str, Any]:
        """Read the rows and return what `Windows` takes."""
        batches = self._batches()
        with about(self.table):
            if pooled:
                pool = Pool(len(self.inputs), len(self.observe))
                for x, counts in batches:
                    pool.add(x, counts)
                x, counts, moments = pool.sums()
            else:
                nothing = np.empty((0, len(self.inputs))), np.empty((0, len(self.observe)))
                x, counts = map(np.concatenate, zip(nothing, *batches, strict=True))
                moments = None
        self._report()
        return {
            "x": x,
            "counts": counts,
            "observe": self.observe,
            "inputs": self.inputs,
            "moments": moments,
        }

    def _batches(self) -> Iterator[tuple[Array, Array]]:
        """Yield inputs and counts of the rows to keep."""
        names = [*self.inputs, *self.columns]
        for values in self.table.batches(names):
            if not len(values):
                continue
            bad = find_bad(values, len(self.inputs))
            if bad:
                row, column, problem = bad
                raise self._error(row, names[column], problem)
            x, y = np.split(values, [len(self.inputs)], axis=1)
            load, counts = x[:, 0], y @ self._adds
            self._lightest = min(self._lightest, load.min())
            self._heaviest = max(self._heaviest, load.max())
            inside = (load >= self.low) & (load <= self.high)
            idle = inside & (load == 0) & (y.sum(1) == 0)
            busy = inside & ~idle
            for place in np.flatnonzero(busy & (load <= 0)):
                problem = (
                    f"the load is {load[place]:g} in a window that is not idle; a load must be "
                    f"positive: correct it or delete the {self.table.row_word}"
                )
                raise self._error(int(place), names[0], problem)
            empty = busy & (counts.sum(1) == 0)
            self._idle.extend((self._read + np.flatnonzero(idle)).tolist())
            self._empty.extend((self._read + np.flatnonzero(empty)).tolist())
            self._read += len(values)
            self._outside += int((~inside).sum())
            keep = busy & ~empty
            self._kept += int(keep.sum())
            yield x[keep], counts[keep]

    def _error(self, row: int, column: str, problem: str) -> InputError:
        return InputError(f"{self.table.cell(self._read + row, column)}: {problem}")

    def _report(self) -> None:
        """Report what was left out, once all rows were read; raise if nothing remains."""
        name, load = self.table.name, self.inputs[0]
        if not self._read:
            raise InputError(f"{name}: a header but no windows; add a line per window")
        if self._outside == self._read:
            raise InputError(
                f"{name}: {no_load(load, self.low, self.high, self._lightest, self._heaviest)}"
            )
        if self._idle:
            why = f"idle: {load} is 0 and so are all counts"
            drop_or_refuse(self._name(self._idle), why, drop=True, stacklevel=4)
        if not self._kept and not self._empty:
            raise InputError(f"{name}: no window is left, all are idle")
        why = f"no counts in the observed categories {listed([label(c) for c in self.observe], 30)}"
        if not self._kept:
            raise InputError(f"{name}: no window is left, all have {why}")
        if self._empty:
            drop_or_refuse(self._name(self._empty), why, self.drop_empty, stacklevel=4)

    def _name(self, rows: Sequence[int]) -> str:
        """Name rows for a message: ``w.csv, lines 3, 5 and 7 more``."""
        shown = self.table.row_numbers(rows[:10])
        return f"{self.table.name}, {name_rows(self.table.row_word, shown, len(rows))}"


def name_rows(word: str, shown: Sequence[int], count: int) -> str:
    """Name some of several rows: ``window 3``, or ``windows 3, 5 and 7 more``."""
    names = [str(row) for row in shown[:10]]
    more = [f"{count - len(names)} more"] if count > len(names) else []
    return f"{word}{'s' if count > 1 else ''} {listed([*names, *more], 11)}"


def no_load(name: str, low: float, high: float, lightest: float, heaviest: float) -> str:
    """Say that no window has a load in a range."""
    return (
        f"no window has a {name} in [{low:g}, {high:g}]; the loads of the windows go from "
        f"{lightest:g} to {heaviest:g}"
    )


@contextmanager
def about(table: Table) -> Iterator[None]:
    """Put the table's name in front of errors from checks that do not know it."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(table.name):
            raise
        raise InputError(f"{table.name}: {error}") from None


def _choose_columns(table: Table, inputs: Sequence[str], counts: Columns) -> dict[str, Observed]:
    """Return the category of every column with counts."""
    if isinstance(counts, str):
        chosen = _match(counts, [name for name in table.columns if name not in inputs])
    else:
        if not isinstance(counts, Mapping):
            counts = {column: state for state, column in enumerate(counts)}
        chosen = {column: as_category(states) for column, states in counts.items()}
    if not chosen:
        raise InputError("counts names no column; name at least two")
    for name in [*inputs, *chosen]:
        if name not in table.columns:
            raise InputError(f"there is no column {name!r}{did_you_mean(str(name), table.columns)}")
        if table.columns.count(name) > 1:
            raise InputError(
                f"column {name!r} is there {table.columns.count(name)} times; rename or remove all "
                f"but one"
            )
        if name in inputs and name in chosen:
            raise InputError(f"column {name!r} cannot be an input and a count")
    return chosen


def _match(pattern: str, names: Sequence[str]) -> dict[str, Observed]:
    if pattern.count("{}") != 1:
        raise InputError(
            f"counts: the pattern {pattern!r} needs one {{}} where the state stands: 'Q={{}}'"
        )
    before, after = map(re.escape, pattern.split("{}"))
    matches = {name: re.fullmatch(f"{before}(.+){after}", name) for name in names}
    found = {name: parse_category(match[1]) for name, match in matches.items() if match}
    if not found:
        raise InputError(
            f"no column matches counts={pattern!r}; the other columns are: {listed(names, 30)}"
        )
    return dict(sorted(found.items(), key=lambda item: natural(item[1])))
