"""Columns of a source, as they are named and typed there, turned into seconds."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import ibis

from stationary.data.tables import MISSING
from stationary.errors import InputError, did_you_mean
from stationary.ingest.engines import Session, real
from stationary.terms.spans import Unit

_EARLIEST = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC).timestamp()
_LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
"""Dates between which a log was written: from 10**9 seconds since 1970."""
_MANY = 100
"""So many times are not all whole seconds by chance."""
_SOME = 1000
"""Rows from which the unit of times is guessed."""
_STEPS = (Unit.S, Unit.MS)
_ROUNDING = 1e-3
"""Share of a step by which differences of times since 1970 are off."""
_TOMORROW = 86_400.0
"""Seconds by which the clock of a server may be ahead of ours."""


@dataclass(frozen=True)
class Times:
    """A column of times.

    Whole numbers count from the first one, because seconds since 1970 leave a float only a quarter
    of a microsecond. Timestamps are whole microseconds. Numbers with a point stay as they are.
    """

    name: str
    column: Any  # of Ibis: whole numbers of 64 bits, or floats
    per_second: int  # how many of its units make a second
    kind: str  # what the times are written as; two columns of one kind can be compared

    @property
    def whole(self) -> bool:
        """Whether they are whole numbers."""
        return bool(self.column.type().is_integer())

    def since(self, base: int) -> Any:
        """Seconds of every row, from ``base`` in the column's own unit."""
        return (self.column - base if self.whole else self.column).cast("float64") / real(
            self.per_second
        )

    def after(self, base: int, length: Any, per_second: int) -> Any:
        """Seconds of every row, from ``base``, a length of time later.

        Whole numbers are added as such: a departure in the same millisecond as an arrival must be
        the same number, however it came about.
        """
        if not (self.whole and length.type().is_integer()):
            return self.since(base) + length.cast("float64") / real(per_second)
        finest = max(self.per_second, per_second)
        # Of 64 bits each: milliseconds of 32 bits, in nanoseconds, do not fit into 32.
        length = length.cast("int64") * (finest // per_second)
        total = (self.column - base).cast("int64") * (finest // self.per_second) + length
        return total.cast("float64") / real(finest)


@dataclass(frozen=True)
class Rows:
    """Rows of a source in a running engine, with times in seconds."""

    table: Any  # of requests arrival, response, departure (null: no answer) and status (text)
    name: str  # where they are from
    count: int
    first: float  # time
    last: float
    base: float  # seconds since 1970 from which times are counted
    has_status: bool = False  # whether there are outcomes; otherwise every status is null
    longest: float = 0.0  # response
    mean: float = 0.0
    step: float = 0.0  # all responses are multiples of it, as logs round them; zero if of none
    coarse: bool = False  # whether times are whole seconds, too coarse to count requests


def find(table: Any, name: str, where: str) -> Any:
    """Return a column, or raise an error that lists those there are."""
    if name in table.columns:
        return table[name]
    raise InputError(f"{where}: there is no column {name!r}{did_you_mean(name, table.columns)}")


def read_times(session: Session, table: Any, name: str, unit: Unit, where: str) -> Times:
    """Return a column of times; text is read as numbers or as timestamps, all of it or none."""
    column = find(table, name, where)
    kind = column.type()
    if kind.is_string():
        column = _from_text(session, table, name, where, ("float64", "timestamp"))
    elif kind.is_decimal() or kind.is_date():
        column = column.cast("timestamp" if kind.is_date() else "float64")
    elif not (kind.is_numeric() or kind.is_timestamp()) or kind.is_boolean():
        raise InputError(
            f"{where}, column {name!r}: times are numbers or timestamps; this column is {kind}"
        )
    if column.type().is_timestamp():
        zoned = column.type().timezone is not None
        epoch = ibis.literal(datetime(1970, 1, 1, tzinfo=UTC if zoned else None))
        passed = column.delta(epoch, unit="microsecond").cast("int64")
        return Times(name, passed, 10**6, "timestamps with a zone" if zoned else "timestamps")
    if column.type().is_integer():
        return Times(name, column.cast("int64"), unit.per_second, "whole numbers")
    return Times(name, column.cast("float64"), unit.per_second, "numbers with a point")


def read_lengths(session: Session, table: Any, name: str, where: str) -> Any:
    """Return a column of lengths of time, in its own unit; null where there is none."""
    column = find(table, name, where)
    if column.type().is_string():
        return _from_text(session, table, name, where, ("float64",))
    if not column.type().is_numeric() or column.type().is_boolean():
        raise InputError(
            f"{where}, column {name!r}: response times are numbers; this column is "
            f"{column.type()}: name a column of completions with --completion, if it is one"
        )
    return column if column.type().is_integer() else without_nan(column.cast("float64"))


def without_nan(column: Any) -> Any:
    """Return numbers with null in place of NaN."""
    return ibis.ifelse(column.isnan(), ibis.null("float64"), column)


def _from_text(session: Session, table: Any, name: str, where: str, kinds: tuple[str, ...]) -> Any:
    """Return text as that of some types which fits most rows; NaN or null where it does not fit."""
    if not session.reads_text:
        raise InputError(
            f"{where}, column {name!r}: this is text; turn it into numbers or timestamps with "
            f"--query 'SELECT CAST(... AS timestamp) AS {name}, ...'"
        )
    text = table[name].strip()
    text = ibis.ifelse(text.lower().isin(sorted(MISSING)), ibis.null("string"), text)
    cast = {kind: text.try_cast(kind) for kind in kinds}
    wrong = {kind: text.notnull() & column.isnull() for kind, column in cast.items()}
    sums = {kind: rows.sum() for kind, rows in wrong.items()}
    row = session.fetch_row(
        table.aggregate(rows=text.count(), example=text.max(where=wrong[kinds[0]]), **sums), where
    )
    best = min(kinds, key=lambda kind: row[kind] or 0)
    if row["rows"] and row[best] == row["rows"]:
        words = {"float64": "numbers", "timestamp": "timestamps"}
        raise InputError(
            f"{where}, column {name!r}: {row['rows']} of {row['rows']} rows are not "
            f"{' or '.join(words[kind] for kind in kinds)}, such as {row['example']!r:.60}; "
            f"correct or delete them"
        )
    if best == "timestamp":
        return cast[best]
    return ibis.ifelse(wrong[best], real(math.nan), cast[best])


Wrong = tuple[str, str, Any]
"""A column, what is wrong with some of its values, and in which rows."""


def check(
    session: Session,
    raw: Any,
    time: Times,
    where: str,
    wrong: Sequence[Wrong],
    length: tuple[Any, float] | None = None,
) -> tuple[Rows, int]:
    """Read all rows once: how many, from when to when, and which of them are possible.

    ``length`` is a column of lengths of time, and how many of its units make a second. Returns the
    possible rows, with the columns of the source, and where times count from, in their own unit.
    """
    missing = time.column.isnull()
    if not time.whole:
        missing = missing | time.column.isnan() | time.column.isinf()
    wrong = [(time.name, "missing or not finite", missing), *wrong]
    row = _sums(session, raw, time, where, wrong, length)
    if not row["rows"]:
        raise InputError(f"{where}: there are no rows; is it the right file?")
    now = datetime.now(UTC).timestamp() + _TOMORROW
    low, high = row["low"], row["high"]
    if row["good"] and _EARLIEST <= low / time.per_second <= now < high / time.per_second:
        limit = int(now * time.per_second) if time.whole else real(now * time.per_second)
        wrong.append((time.name, "in the future", time.column > limit))
        row = _sums(session, raw, time, where, wrong, length)
    for k, (name, what, _) in enumerate(wrong):
        if bad := row[f"wrong_{k}"]:
            text = f"column {name!r}: {bad} of {row['rows']} rows are {what}"
            if not row["good"]:
                raise InputError(f"{where}, {text}; correct or delete them")
            session.notes.append(f"left out: {text}")
    base = int(row["low"]) if time.whole else 0
    first, last = ((row[end] - base) / time.per_second for end in ("low", "high"))
    many = row["good"] >= _MANY
    rows = Rows(raw.filter(_good(wrong)), where, row["good"], first, last, base / time.per_second)
    rows = replace(rows, coarse=many and not row["fine"])
    if length is not None and row["longest"] is not None and row["longest"] == row["longest"]:
        longest, mean = (float(row[name]) / length[1] for name in ("longest", "mean"))
        steps = (1 / unit.per_second for unit in _STEPS if many and not row[f"off_{unit}"])
        step = next((each for each in steps if longest >= each), 0.0)
        rows = replace(rows, longest=longest, mean=mean, step=step)
    return rows, base


def _good(wrong: Sequence[Wrong]) -> Any:
    return ~functools.reduce(operator.or_, [rows.fill_null(False) for _, _, rows in wrong])


def _sums(
    session: Session,
    raw: Any,
    time: Times,
    where: str,
    wrong: Sequence[Wrong],
    length: tuple[Any, float] | None,
) -> dict[str, Any]:
    """Return numbers of rows, good and wrong ones, and the ends of the times of the good ones."""
    good, column = _good(wrong), time.column
    if time.whole:
        fine = column % time.per_second != 0
    else:  # rounding makes 64 bits of it, into which not every number fits
        seconds = column / real(time.per_second)
        seconds = ibis.ifelse(good & (seconds.abs() < real(2.0**62)), seconds, real(0.5))
        fine = seconds != seconds.floor()
    sums = {f"wrong_{k}": rows.sum() for k, (_, _, rows) in enumerate(wrong)}
    whole = {"rows": raw.count(), "good": good.sum(), "fine": fine.sum(where=good), **sums}
    ends = {"low": column.min(where=good), "high": column.max(where=good)}
    if length is not None:
        ends |= {"longest": length[0].max(where=good), "mean": length[0].mean(where=good)}
        for unit in _STEPS:
            parts = length[0].cast("float64") * real(unit.per_second / length[1])
            known = ibis.ifelse(good & (parts < real(2.0**53)), parts, real(0.0))
            off = (known - known.floor() - real(0.5)).abs() < real(0.5 - _ROUNDING)
            ends[f"off_{unit}"] = off.sum()
    row = session.fetch_row(raw.aggregate(**whole, **ends), where)
    return {**row, **{key: 0 if row[key] != row[key] else int(row[key] or 0) for key in whole}}


def unit_of(session: Session, table: Any, name: str, given: Unit | None, where: str) -> Unit:
    """Return the unit of a column of times.

    Where none is given it is that in which they are dates of our days, or seconds.
    """
    column = find(table, name, where)
    if not column.type().is_numeric() or column.type().is_boolean():
        return given or Unit.S
    some = table.select(time=column.cast("float64")).limit(_SOME)
    middle = session.fetch_row(some.aggregate(middle=some.time.median()), where)["middle"]
    for unit in Unit:
        if middle is None or not _EARLIEST <= middle / unit.per_second <= _LATEST:
            continue
        if given is None:
            if unit is not Unit.S:
                session.notes.append(f"the times in {name!r} are {unit.word} since 1970")
            return unit
        if unit.per_second > given.per_second:
            raise InputError(
                f"{where}, column {name!r}: {middle:.0f} is of our days in {unit.word} since 1970, "
                f"and far in the future in {given.word}: say --unit {unit}, and --response-unit if "
                f"response times are in another"
            )
    return given or Unit.S
