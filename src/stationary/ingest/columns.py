"""Columns of a source, as they are named and typed there, turned into seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stationary.data.tables import MISSING
from stationary.errors import InputError, did_you_mean
from stationary.ingest.engines import Session, real
from stationary.terms.spans import Unit

_EARLIEST = datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC).timestamp()
_LATEST = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
"""Dates between which a log was written: from 10**9 seconds since 1970."""


@dataclass(frozen=True)
class Times:
    """A column of times.

    Whole numbers count from the first one, because seconds since 1970 leave a float only a quarter
    of a microsecond. Timestamps are whole microseconds. Numbers with a point stay as they are.

    Attributes
    ----------
    column : ibis column
        Whole numbers of 64 bits, or floats.
    per_second : int
        How many of its units make a second.
    kind : str
        What the times are written as; two columns of one kind can be compared.
    """

    column: Any
    per_second: int
    kind: str

    @property
    def whole(self) -> bool:
        """Whether they are whole numbers."""
        return bool(self.column.type().is_integer())

    def since(self, base: int) -> Any:
        """Seconds of every row, from ``base`` in the column's own unit."""
        return (self.column - base if self.whole else self.column).cast("float64") / real(
            self.per_second
        )

    def after(self, base: int, length: Any, unit: Unit) -> Any:
        """Seconds of every row, from ``base``, a length of time later.

        Whole numbers are added as such: a departure in the same millisecond as an arrival must be
        the same number, however it came about.
        """
        if not (self.whole and length.type().is_integer()):
            return self.since(base) + length.cast("float64") / real(unit.per_second)
        finest = max(self.per_second, unit.per_second)
        # Of 64 bits each: milliseconds of 32 bits, in nanoseconds, do not fit into 32.
        length = length.cast("int64") * (finest // unit.per_second)
        total = (self.column - base).cast("int64") * (finest // self.per_second) + length
        return total.cast("float64") / real(finest)


@dataclass(frozen=True)
class Rows:
    """Rows of a source in a running engine, with times in seconds.

    Attributes
    ----------
    table : ibis table
        The rows; of requests ``arrival``, ``response``, ``departure`` (null: no answer) and
        ``status`` (text).
    name : str
        Where they are from.
    count : int
        How many.
    first, last : float
        The first and the last time.
    base : float
        Seconds since 1970 from which times are counted.
    has_status : bool
        Whether there are outcomes of requests; otherwise every ``status`` is null.
    """

    table: Any
    name: str
    count: int
    first: float
    last: float
    base: float
    has_status: bool = False


def find(table: Any, name: str, where: str) -> Any:
    """Return a column, or raise an error that lists those there are."""
    if name in table.columns:
        return table[name]
    raise InputError(f"{where}: there is no column {name!r}{did_you_mean(name, table.columns)}")


def read_times(session: Session, table: Any, name: str, unit: Unit, where: str) -> Times:
    """Return a column of times; text is read as numbers or as timestamps, all of it or none."""
    import ibis

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
        return Times(passed, 10**6, "timestamps with a zone" if zoned else "timestamps")
    if column.type().is_integer():
        return Times(column.cast("int64"), unit.per_second, "whole numbers")
    return Times(column.cast("float64"), unit.per_second, "numbers with a point")


def read_lengths(session: Session, table: Any, name: str, where: str) -> Any:
    """Return a column of lengths of time, in its own unit; null where there is none."""
    column = find(table, name, where)
    if column.type().is_string():
        column = _from_text(session, table, name, where, ("float64",))
    if not column.type().is_numeric() or column.type().is_boolean():
        raise InputError(
            f"{where}, column {name!r}: response times are numbers; this column is "
            f"{column.type()}: name a column of completions with --completion, if it is one"
        )
    return column if column.type().is_integer() else without_nan(column.cast("float64"))


def without_nan(column: Any) -> Any:
    """Return numbers with null in place of NaN."""
    import ibis

    return ibis.ifelse(column.isnan(), ibis.null("float64"), column)


def _from_text(session: Session, table: Any, name: str, where: str, kinds: tuple[str, ...]) -> Any:
    """Return text as the first of some types that fits every row."""
    import ibis

    if not session.reads_text:
        raise InputError(
            f"{where}, column {name!r}: this is text; turn it into numbers or timestamps with "
            f"--query 'SELECT CAST(... AS timestamp) AS {name}, ...'"
        )
    text = table[name].strip()
    text = ibis.ifelse(text.lower().isin(sorted(MISSING)), ibis.null("string"), text)
    cast = {kind: text.try_cast(kind) for kind in kinds}
    wrong = {kind: text.notnull() & column.isnull() for kind, column in cast.items()}
    neither = wrong["float64"]
    for rows in wrong.values():
        neither = neither & rows
    sums = {kind: rows.sum() for kind, rows in wrong.items()}
    row = session.fetch_row(
        table.aggregate(rows=table.count(), example=text.max(where=neither), **sums), where
    )
    for kind in kinds:
        if not row[kind] or row[kind] != row[kind]:
            return cast[kind]
    words = {"float64": "numbers", "timestamp": "timestamps"}
    raise InputError(
        f"{where}, column {name!r}: {int(min(row[kind] for kind in kinds))} of {row['rows']} rows "
        f"are not {' or '.join(words[kind] for kind in kinds)}, such as {row['example']!r:.60}; "
        f"correct or delete them"
    )


def check(
    session: Session,
    raw: Any,
    times: tuple[str, Times],
    where: str,
    wrong: Mapping[str, tuple[Any, str]],
) -> tuple[Rows, int]:
    """Read all rows once: how many, from when to when, and whether all of them are possible.

    ``times`` is the column of times, by its name; ``wrong`` says per column which rows are
    impossible, and what they are. Returns the rows, still with the columns of the source, and where
    times count from, in their own unit.
    """
    name, time = times
    column = time.column
    missing = column.isnull()
    if not time.whole:
        missing = missing | column.isnan() | column.isinf()
    wrong = {name: (missing, "missing or not finite"), **wrong}
    sums = {f"wrong_{k}": rows.sum() for k, (rows, _) in enumerate(wrong.values())}
    row = session.fetch_row(
        raw.aggregate(rows=raw.count(), low=column.min(), high=column.max(), **sums), where
    )
    if not row["rows"]:
        raise InputError(f"{where}: there are no rows; is it the right file?")
    for k, (column_name, (_, what)) in enumerate(wrong.items()):
        bad = row[f"wrong_{k}"]
        if bad and bad == bad:
            raise InputError(
                f"{where}, column {column_name!r}: {int(bad)} of {row['rows']} rows are {what}; "
                f"correct or delete them"
            )
    _check_unit(time, (name, row["low"]), where)
    base = int(row["low"]) if time.whole else 0
    first, last = ((row[end] - base) / time.per_second for end in ("low", "high"))
    return Rows(raw, where, int(row["rows"]), first, last, base / time.per_second), base


def _check_unit(time: Times, first: tuple[str, float], where: str) -> None:
    """Raise where times would lie thousands of years ahead, and in a finer unit in our days."""
    name, low = first
    for unit in Unit:
        finer = unit.per_second / time.per_second
        if finer > 1 and _EARLIEST <= low / unit.per_second <= _LATEST:
            raise InputError(
                f"{where}, column {name!r}: {low:.0f} is "
                f"{datetime.fromtimestamp(low // unit.per_second, UTC):%Y-%m-%d} in {unit.word} "
                f"since 1970, and far in the future in the unit that was given: say --unit "
                f"{unit.value}, and --response-unit if response times are in another"
            )
