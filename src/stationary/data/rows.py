"""From the rows of a table to windows: rows are checked, and what is left out is reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from stationary._support.types import Array
from stationary.data._base import Counts, Observation, known_kinds
from stationary.data.columns import Columns, about, check_once, choose_columns
from stationary.data.latency import as_buckets
from stationary.data.moments import Moments, Pool
from stationary.data.numbers import as_duration, as_range, drop_or_refuse, find_bad, input_names
from stationary.data.tables import Table
from stationary.errors import InputError
from stationary.terms.categories import Category, as_categories, find_categories, label
from stationary.words import listed


class Rows:
    """Windows from the rows of a table.

    Kinds of observations find their columns by themselves (`Observation.find_columns`); counts of
    states may be missing where there is another kind. A column ``duration`` is the length of each
    window; a column ``windows`` says how many of the length in the first line of the file were
    added up. ``table`` has the rows; the other parameters are those of `read_windows`.
    """

    def __init__(
        self,
        table: Table,
        x: str | Sequence[str],
        counts: Columns,
        observe: Iterable[Category] | None = None,
        loads: tuple[float | None, float | None] | None = None,
        drop_empty: bool = False,
        latency: str | None = None,
    ) -> None:
        self.table, self.inputs, self.drop_empty = table, input_names(x), drop_empty
        with about(table):
            self.low, self.high = as_range((None, None) if loads is None else loads)
            names = as_buckets([n for n in table.columns if n not in self.inputs], latency)
            found = {kind: made.find_columns(list(names)) for kind, made in known_kinds().items()}
            # Columns of each other kind, by the names that it knows.
            self.others = {
                kind: {name: names[name] for name in chosen}
                for kind, chosen in found.items()
                if chosen
            }
            of_column = choose_columns(table, self.inputs, counts, bool(self.others))
            check_once(table, [name for each in self.others.values() for name in each.values()])
            present = list(dict.fromkeys(of_column.values()))
            chosen = find_categories(present if observe is None else observe, present)
            self.observe = as_categories(present[k] for k in chosen) if present else ()
        self.columns = list(of_column)
        kinds = [(issubclass(known_kinds()[k], Counts), v) for k, v in self.others.items()]
        self._counted = [name for counts, each in kinds if counts for name in each.values()]
        self._summed = [name for counts, each in kinds if not counts for name in each.values()]
        taken = (*self.inputs, *self.columns)
        self.lengths = [
            name for name in ("duration", "windows") if name in table.columns and name not in taken
        ]
        # Columns of the same category are added up by a product with this matrix.
        self._adds = np.array([[c == kept for kept in self.observe] for c in of_column.values()])
        self._found: dict[str, Observation] = {}
        self._read = self._outside = self._kept = 0
        self._idle: list[int] = []
        self._empty: list[int] = []
        self._lightest, self._heaviest = np.inf, -np.inf

    def windows(self, duration: float | None = None, pooled: bool = False) -> dict[str, Any]:
        """Read the rows and return what `Windows` takes; ``duration`` is that of every window."""
        pool, parts = None, []
        with about(self.table):
            if duration is None and "duration" not in self.lengths:
                said = self.table.metadata.get("duration")
                duration = None if said is None else as_duration(said)
            for part in self._batches(duration):
                if pooled:
                    pool = Pool(*(array.shape[1] for array in part)) if pool is None else pool
                    pool.add(*part)
                else:
                    parts.append(part)
        self._report()
        moments = None
        if pool is None:
            x, data = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        else:
            x, data, moments = pool.sums()
        lasted = None if duration is None else np.full(len(x), duration)
        if ("duration" if duration is None else "windows") in self.lengths:
            data, lasted = data[:, :-1], data[:, -1]
            if moments is not None:
                lasted = lasted / moments.multiplicity.numpy()
                moments = Moments(moments.multiplicity, moments.squares[:, :-1, :-1])
        counts, rest = np.split(data, [len(self.observe)], axis=1)
        widths = [kind.data.shape[1] for kind in self._found.values()]
        tables = np.split(rest, np.cumsum(widths)[:-1], axis=1)
        return {
            "x": x,
            **({"counts": counts, "observe": self.observe} if self.observe else {}),
            "observations": [
                kind.with_data(torch.from_numpy(np.ascontiguousarray(table)))
                for kind, table in zip(self._found.values(), tables, strict=bool(widths))
            ],
            "inputs": self.inputs,
            "moments": moments,
            "duration": lasted,
        }

    def _batches(self, duration: float | None) -> Iterator[tuple[Array, Array]]:
        """Yield inputs of the rows to keep, and data of all kinds; last, lengths that differ."""
        names = [*self.inputs, *self._summed, *self.lengths, *self._counted, *self.columns]
        finite = len(self.inputs) + len(self._summed) + len(self.lengths)
        for values in self.table.batches(names):
            if not len(values):
                continue
            bad = find_bad(values, finite)
            if bad:
                row, column, problem = bad
                self._refuse(row, names[column], problem)
            by_name = dict(zip(names, values.T, strict=True))
            for name in self.lengths:
                for place in np.flatnonzero(by_name[name] <= 0):
                    problem = f"the value is {by_name[name][place]:g}; it must be positive"
                    self._refuse(int(place), name, problem)
            x, y = values[:, : len(self.inputs)], values[:, len(names) - len(self.columns) :]
            load, counts = x[:, 0], y @ self._adds if self.columns else y
            data = np.concatenate([counts, *self._other_tables(by_name)], axis=1)
            self._lightest = min(self._lightest, load.min())
            self._heaviest = max(self._heaviest, load.max())
            inside = (load >= self.low) & (load <= self.high)
            some = (data != 0).any(1)
            idle = inside & (load == 0) & (y.sum(1) == 0) & ~some
            busy = inside & ~idle
            for place in np.flatnonzero(busy & (load <= 0)):
                problem = (
                    f"the load is {load[place]:g} in a window that is not idle; a load must be "
                    f"positive: correct it or delete the {self.table.row_word}"
                )
                self._refuse(int(place), names[0], problem)
            self._idle.extend((self._read + np.flatnonzero(idle)).tolist())
            self._empty.extend((self._read + np.flatnonzero(busy & ~some)).tolist())
            self._read += len(values)
            self._outside += int((~inside).sum())
            keep = busy & some
            self._kept += int(keep.sum())
            if duration is None and "duration" in self.lengths:
                data = np.column_stack([data, by_name["duration"]])
            elif duration is not None and "windows" in self.lengths:
                data = np.column_stack([data, duration * by_name["windows"]])
            yield x[keep], data[keep]

    def _other_tables(self, values: Mapping[str, Array]) -> list[Array]:
        """Return the data of the kinds that are not counts of states."""
        tables = []
        for kind, columns in self.others.items():
            given = {name: values[column] for name, column in columns.items()}
            made = known_kinds()[kind].from_columns(given, self.table.metadata)
            self._found[kind] = made
            tables.append(made.data.numpy())
        return tables

    def _refuse(self, row: int, column: str, problem: str) -> None:
        raise InputError(f"{self.table.cell(self._read + row, column)}: {problem}")

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
            drop_or_refuse(self._name(self._idle), why, drop=True, stacklevel=5)
        if not self._kept and not self._empty:
            raise InputError(f"{name}: no window is left, all are idle")
        names = [*(label(c) for c in self.observe), *self._summed, *self._counted]
        why = f"no counts in the observed categories {listed(names, 30)}"
        if not self._kept:
            raise InputError(f"{name}: no window is left, all have {why}")
        if self._empty:
            drop_or_refuse(self._name(self._empty), why, self.drop_empty, stacklevel=5)

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
