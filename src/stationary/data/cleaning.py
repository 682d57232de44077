"""Rows of a file on their way to windows: checked, chosen, and what was left out remembered."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from stationary.data.checks import (
    as_range,
    find_bad_input,
    listed,
    load_mask,
    name_rows,
)
from stationary.data.numbers import find_bad_count
from stationary.data.tables import Table
from stationary.errors import DataWarning, InputError
from stationary.terms.categories import Category, Observed, as_categories, find_categories, label

Loads = tuple[float | None, float | None]


class Cleaner:
    """Turns numbers of a file, in one batch or several, into inputs and counts of windows.

    Parameters
    ----------
    table : Table
        The file, for messages.
    inputs, columns : sequence of str
        Columns of inputs, the load first, and of counts.
    categories : sequence
        What each column of counts counts; those of the same are added up.
    observe, loads, drop_empty
        As for `read_windows`.

    Attributes
    ----------
    observed : list
        Categories that are kept.
    """

    def __init__(
        self,
        table: Table,
        inputs: Sequence[str],
        columns: Sequence[str],
        categories: Sequence[Observed],
        observe: Iterable[Category] | None,
        loads: Loads | None,
        drop_empty: bool,
    ) -> None:
        self.table, self.inputs, self.columns = table, tuple(inputs), tuple(columns)
        self.drop_empty = drop_empty
        self.loads = None if loads is None else _ends(loads)
        distinct = list(dict.fromkeys(categories))
        self._goes_to = [distinct.index(category) for category in categories]
        self._chosen = find_categories(distinct if observe is None else observe, distinct)
        self.observed = list(as_categories(distinct[k] for k in self._chosen))
        self._idle: list[NDArray[np.int64]] = []
        self._empty: list[NDArray[np.int64]] = []
        self._read, self._in_range, self._busy, self._kept = 0, 0, 0, 0
        self._range = np.array([np.inf, -np.inf])  # of the loads that were read

    def clean(
        self, values: NDArray[np.float64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Inputs and counts of the windows to keep of some rows of the file."""
        x, y = values[:, : len(self.inputs)], values[:, len(self.inputs) :]
        for bad, names in (
            (find_bad_input(x), self.inputs),
            (find_bad_count(y), self.columns),
        ):
            if bad:
                row, column, problem = bad
                raise InputError(f"{self.table.cell(int(rows[row]), names[column])}: {problem}")
        load = x[:, 0]
        counts = np.zeros((len(y), max(self._goes_to) + 1))
        for column, place in enumerate(self._goes_to):
            counts[:, place] += y[:, column]
        kept = np.ones(len(rows), dtype=bool)
        if self.loads is not None:
            low, high = self.loads
            kept = (load >= low) & (load <= high)
        self._in_range += int(kept.sum())
        idle = kept & (load == 0) & (counts.sum(1) == 0)
        kept &= ~idle
        self._check_loads(load, rows, kept)
        counts = counts[:, self._chosen]
        empty = kept & (counts.sum(1) == 0)
        self._read += len(rows)
        self._busy += int(kept.sum())
        kept &= ~empty
        self._kept += int(kept.sum())
        self._idle.append(rows[idle])
        self._empty.append(rows[empty])
        if len(rows):
            self._range = np.array(
                [min(self._range[0], load.min()), max(self._range[1], load.max())]
            )
        return x[kept], counts[kept]

    def close(self) -> None:
        """Say what was left out, once all rows were read; an error if that was too much."""
        table, name = self.table, self.inputs[0]
        if not self._read:
            raise InputError(f"{table.path}: a header but no windows; add a line per window")
        if self.loads is not None and not self._in_range:
            with about(table):
                load_mask(self._range, *self.loads, name)  # which says what loads there are
        self._warn(self._idle, f"idle: {name} is 0 and so are all counts")
        if not self._busy:
            raise InputError(f"{table.path}: no window is left, all are idle")
        seen = f"no counts in the observed categories {listed([label(c) for c in self.observed])}"
        if not self._kept:
            raise InputError(f"{table.path}: no window is left, all have {seen}")
        empty = np.concatenate(self._empty)
        if len(empty) and not self.drop_empty:
            named = name_rows(table.row_word, empty.tolist())
            raise InputError(
                f"{table.path}, {named}: {seen}; leave such windows out with drop_empty=True "
                f"(--drop-empty)"
            )
        self._warn(self._empty, seen)

    def _check_loads(
        self, loads: NDArray[np.float64], rows: NDArray[np.int64], kept: NDArray[np.bool_]
    ) -> None:
        bad = np.flatnonzero(kept & (loads <= 0))
        if len(bad):
            raise InputError(
                f"{self.table.cell(int(rows[bad[0]]), self.inputs[0])}: the load is "
                f"{loads[bad[0]]:g} in a window that is not idle; a load must be positive: correct "
                f"it or delete the {self.table.row_word}"
            )

    def _warn(self, rows: Sequence[NDArray[np.int64]], why: str) -> None:
        dropped = np.concatenate(rows)
        if len(dropped):
            named = name_rows(self.table.row_word, dropped.tolist())
            warnings.warn(f"{self.table.path}: dropped {named}: {why}", DataWarning, stacklevel=4)


@contextmanager
def about(table: Table) -> Iterator[None]:
    """Put the file's name in front of errors from checks that do not know it."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(table.path)):
            raise
        raise InputError(f"{table.path}: {error}") from None


def _ends(loads: Loads) -> tuple[float, float]:
    try:
        low, high = loads
    except (TypeError, ValueError):
        raise InputError(f"loads must be a pair (low, high); got {loads!r}") from None
    return as_range(low, high)
