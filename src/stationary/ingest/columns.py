"""Columns of a source, as they are called and typed there, turned into seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stationary.data.tables import MISSING
from stationary.errors import InputError, did_you_mean
from stationary.ingest.engines import Session
from stationary.ingest.literals import real
from stationary.terms.spans import Unit as Unit


@dataclass(frozen=True)
class Columns:
    """What the columns of a table of requests are called, and the unit of their numbers.

    Parameters
    ----------
    arrival : str
        When a request arrived: a timestamp, or a number.
    response : str, optional
        How long its answer took; ``response`` by default, where there is no ``completion``. Null
        where there was no answer.
    completion : str, optional
        When its answer came, instead.
    status : str, optional
        Its outcome; ``status`` where there is such a column.
    unit : Unit
        Of all numbers.
    response_unit : Unit, optional
        Of the response times, where it is another.
    """

    arrival: str = "arrival"
    response: str | None = None
    completion: str | None = None
    status: str | None = None
    unit: Unit = Unit.S
    response_unit: Unit | None = None

    def __post_init__(self) -> None:
        if self.response is not None and self.completion is not None:
            raise InputError(
                f"name the column of response times ({self.response!r}) or that of completions "
                f"({self.completion!r}), not both"
            )


@dataclass(frozen=True)
class Moments:
    """A column of times as a function of rows to seconds.

    Numbers with a point stay as they are; whole numbers and timestamps count from the first one,
    because seconds since 1970 leave a float only a quarter of a microsecond.

    Attributes
    ----------
    column : ibis column
        The times: numbers or timestamps.
    unit : Unit
        Of numbers.
    """

    column: Any
    unit: Unit

    @property
    def counted(self) -> bool:
        """Whether seconds are counted from the first."""
        return bool(self.column.type().is_integer() or self.column.type().is_timestamp())

    @property
    def kind(self) -> str:
        """What the times are written as; two columns of one kind can be compared."""
        kind = self.column.type()
        if kind.is_timestamp():
            return "timestamps" if kind.timezone is None else "timestamps with a zone"
        return "whole numbers" if kind.is_integer() else "numbers with a point"

    def since(self, base: Any) -> Any:
        """Seconds of every row, from ``base`` in the column's own terms."""
        import ibis

        if self.column.type().is_timestamp():
            start = ibis.literal(base, type=self.column.type())
            return self.column.delta(start, unit="microsecond").cast("float64") / real(1e6)
        shifted = self.column.cast("int64") - int(base) if self.counted else self.column
        return shifted.cast("float64") / real(self.unit.per_second)

    def plus(self, base: Any, column: Any, unit: Unit) -> Any:
        """Seconds of every row and a length of time in it.

        Whole numbers are added as such: a departure in the same millisecond as an arrival must be
        the same number, however it came about.
        """
        if not (self.counted and column.type().is_integer()):
            return self.since(base) + column.cast("float64") / real(unit.per_second)
        if self.column.type().is_timestamp():
            import ibis

            start = ibis.literal(base, type=self.column.type())
            whole, own = self.column.delta(start, unit="microsecond"), Unit.US.per_second
        else:
            whole, own = self.column.cast("int64") - int(base), self.unit.per_second
        finest = max(own, unit.per_second)
        # Of 64 bits each: milliseconds of 32 bits, in nanoseconds, do not fit into 32.
        added = column.cast("int64") * (finest // unit.per_second)
        total = whole.cast("int64") * (finest // own) + added
        return total.cast("float64") / real(finest)

    def seconds(self, value: Any, base: Any) -> float:
        """The same of one value, here."""
        if self.column.type().is_timestamp():
            return float(round((value - base).total_seconds() * 1e6)) / 1e6
        return float(value - base if self.counted else value) / self.unit.per_second

    def absolute(self, base: Any) -> float:
        """Seconds since the epoch (or the source's own zero) at which counting began."""
        if not self.counted:
            return 0.0
        if self.column.type().is_timestamp():
            return float(base.timestamp())
        return float(base) / self.unit.per_second


def find(table: Any, name: str, where: str) -> Any:
    """Return a column, or raise an error that lists those there are."""
    if name in table.columns:
        return table[name]
    raise InputError(f"{where}: there is no column {name!r}{did_you_mean(name, table.columns)}")


def moments(session: Session, table: Any, name: str, unit: Unit, where: str) -> Moments:
    """Return a column of times; text is read as numbers or as timestamps, all of it or none."""
    column = find(table, name, where)
    kind = column.type()
    if kind.is_decimal() or kind.is_date():
        column = column.cast("timestamp" if kind.is_date() else "float64")
    elif kind.is_string():
        column = _from_text(session, table, column, name, where)
    elif not (kind.is_numeric() or kind.is_timestamp()) or kind.is_boolean():
        raise InputError(
            f"{where}, column {name!r}: times are numbers or timestamps; this column is {kind}"
        )
    return Moments(column, unit)


def lengths(session: Session, table: Any, name: str, where: str) -> Any:
    """Return a column of lengths of time, in its own unit; null where there is none."""
    column = find(table, name, where)
    if column.type().is_string():
        column = _from_text(session, table, column, name, where, numbers_only=True)
    if not column.type().is_numeric() or column.type().is_boolean():
        raise InputError(
            f"{where}, column {name!r}: response times are numbers; this column is "
            f"{column.type()}: name a column of completions with --completion, if it is one"
        )
    return column if column.type().is_integer() else without_nan(column.cast("float64"))


def without_nan(column: Any) -> Any:
    """Return numbers with null for those that are none."""
    import ibis

    return ibis.ifelse(column.isnan(), ibis.null("float64"), column)


def _from_text(
    session: Session, table: Any, column: Any, name: str, where: str, numbers_only: bool = False
) -> Any:
    """Text as numbers or timestamps; an error that counts the rows that are neither."""
    import ibis

    if not session.reads_text:
        raise InputError(
            f"{where}, column {name!r}: this is text; turn it into numbers or timestamps with "
            f"--query 'SELECT CAST(... AS timestamp) AS {name}, ...'"
        )
    text = column.strip()
    text = ibis.ifelse(text.lower().isin(sorted(MISSING)), ibis.null("string"), text)
    number = text.try_cast("float64")
    time = None if numbers_only else text.try_cast("timestamp")
    bad = {"number": (text.notnull() & number.isnull())}
    if time is not None:
        bad["timestamp"] = text.notnull() & time.isnull()
    found = session.fetch(
        table.aggregate(
            rows=table.count(),
            **{f"bad_{kind}": wrong.sum() for kind, wrong in bad.items()},
            example=text.max(where=bad["number"] & bad.get("timestamp", bad["number"])),
        ),
        where,
    ).iloc[0]
    if not found["bad_number"]:
        return number
    if time is not None and not found["bad_timestamp"]:
        return time
    wrong = int(min(found[f"bad_{kind}"] for kind in bad))
    raise InputError(
        f"{where}, column {name!r}: {wrong} of {int(found['rows'])} rows are no "
        f"{' and no '.join(bad)}, such as {found['example']!r:.60}; correct or delete them"
    )
