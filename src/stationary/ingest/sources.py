"""Sources: tables of requests, wherever they are, as ``arrival``, ``response`` and ``status``.

A format is a function of an Ibis backend and a path that returns a table; `FORMATS` lists them by
name. One whose table has the columns ``arrival`` (seconds, or a timestamp), ``response`` (seconds,
null where there was no answer) and ``status`` needs no mapping of columns.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from stationary.errors import InputError
from stationary.ingest import access_logs
from stationary.ingest.columns import Columns, Moments, find, lengths, moments, without_nan
from stationary.ingest.engines import Session
from stationary.ingest.literals import real

_TRACE = ("window", "seconds", "arrival", "response")


def _parquet(backend: Any, path: str) -> Any:
    return backend.read_parquet(path)


def _csv(backend: Any, path: str) -> Any:
    return backend.read_csv(path)


def _json_lines(backend: Any, path: str) -> Any:
    return backend.read_json(path)


def _trace(backend: Any, path: str) -> Any:
    """Traces that the testbed wrote: each window counts from its own first request.

    They are laid out two lengths apart, so that nobody who is still there at the end of one is
    there in the next. Who was sent after the end of a window is in none.
    """
    import ibis

    raw = by_ending(path)(backend, path)
    for name in _TRACE:
        find(raw, name, f"{path} is no trace of the testbed")
    raw = raw.filter(raw.arrival < raw.seconds)
    return raw.select(
        arrival=2.0 * raw.window * raw.seconds + raw.arrival,
        response=ibis.ifelse(raw.response < 0, ibis.null("float64"), raw.response),
    )


Format = Callable[[Any, str], Any]
FORMATS: dict[str, Format] = {
    "parquet": _parquet,
    "csv": _csv,
    "jsonl": _json_lines,
    "trace": _trace,
    **access_logs.FORMATS,
}
"""Ways to read a file, by the name that ``--format`` takes."""

_ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


@dataclass(frozen=True)
class Source:
    """Where requests, or looks, are.

    Parameters
    ----------
    location : str
        A file, several by a pattern such as ``logs/*.parquet``, or ``postgresql://...``.
    columns : Columns
        What the columns are called.
    format : str, optional
        One of `FORMATS`; by the ending of the file otherwise.
    table, query : str, optional
        What to read of a database.
    """

    location: str
    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    table: str | None = None
    query: str | None = None

    @property
    def is_database(self) -> bool:
        """Whether the location is a server of PostgreSQL."""
        return self.location.startswith(("postgresql://", "postgres://"))

    @property
    def name(self) -> str:
        """The location for a message, without a password."""
        if not self.is_database:
            return self.location
        database = urlsplit(self.location).path.removeprefix("/") or "the database"
        return f"{self.table or 'the query'} in {database}"


@dataclass(frozen=True)
class Requests:
    """Requests in a running engine.

    Attributes
    ----------
    table : ibis table
        ``arrival``, ``response`` and ``departure`` in seconds (null: no answer), ``status`` as
        text.
    name : str
        Where they are from.
    rows : int
        How many.
    first, last : float
        The first and the last arrival.
    base : float
        Seconds since the epoch from which ``arrival`` is counted.
    """

    table: Any
    name: str
    rows: int
    first: float
    last: float
    base: float


def open_table(session: Session, source: Source) -> Any:
    """Return the table that a source names, with its own columns."""
    with session.about(source.name):
        if source.is_database:
            if (source.table is None) == (source.query is None):
                raise InputError(
                    "say what to read of the database: --table NAME, or --query 'SELECT ...'"
                )
            if source.query is not None:
                return session.ask(source.query)
            schema, _, name = str(source.table).rpartition(".")
            if name not in session.backend.list_tables(database=schema or None):
                raise InputError(
                    f"there is no table {source.table!r} in the database; check the name, and "
                    f"its schema, as in public.requests"
                )
            return session.backend.table(name, database=schema or None)
        if source.table is not None or source.query is not None:
            raise InputError("--table and --query go with a database, postgresql://user@host/name")
        if "://" not in source.location and not glob.glob(source.location):  # noqa: PTH207
            raise InputError(f"{source.location}: there is no such file; check the path")
        if source.format is not None and source.format not in FORMATS:
            raise InputError(
                f"there is no format {source.format!r}; there are {', '.join(FORMATS)}"
            )
        reader = FORMATS[source.format] if source.format else by_ending(source.location)
        return reader(session.backend, source.location)


def by_ending(path: str) -> Format:
    """Return the format of a file that its ending tells."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    for ending, kind in _ENDINGS.items():
        if name.endswith(ending):
            return FORMATS[kind]
    raise InputError(
        f"{path}: cannot tell how to read it; name its --format, one of {', '.join(FORMATS)}"
    )


def open_source(session: Session, source: Source) -> Requests:
    """Return the requests of a source, checked: one look at all rows.

    Raises
    ------
    InputError
        When a column is missing, or some of its values cannot be: with how many.
    """
    raw, where, columns = open_table(session, source), source.name, source.columns
    arrival = moments(session, raw, columns.arrival, columns.unit, where)
    status = columns.status
    if status is None and "status" in raw.columns:
        status = "status"
    if columns.completion is not None:
        done = moments(session, raw, columns.completion, columns.unit, where)
        if done.counted != arrival.counted:
            raise InputError(
                f"{where}: {columns.arrival!r} is {arrival.column.type()} and "
                f"{columns.completion!r} is {done.column.type()}; write both alike"
            )
        measured, negative = columns.completion, done.column < arrival.column
        facts = check(session, raw, arrival, columns.arrival, where, measured, negative)
        departure = done.since(facts.base)
        if not done.counted:
            departure = without_nan(departure)
        response = departure - arrival.since(facts.base)
    else:
        measured = columns.response or "response"
        if columns.response is None and measured not in raw.columns:
            raise InputError(
                f"{where}: name the column of response times with --response, or that of "
                f"completions with --completion; the columns are: {', '.join(raw.columns[:30])}"
            )
        unit = columns.response_unit or columns.unit
        length = lengths(session, raw, measured, where)
        negative = length < 0
        if length.type().is_floating():
            negative = negative | length.isinf()
        facts = check(session, raw, arrival, columns.arrival, where, measured, negative)
        response = length.cast("float64") / real(unit.per_second)
        departure = arrival.plus(facts.base, length, unit)
    table = raw.select(
        arrival=arrival.since(facts.base),
        response=response,
        departure=departure,
        status=_status(raw, status, where),
    )
    return Requests(table, where, facts.rows, facts.first, facts.last, facts.absolute)


@dataclass(frozen=True)
class Facts:
    """What one look at all rows tells: how many, and from when to when."""

    rows: int
    first: float
    last: float
    base: Any
    absolute: float


def check(
    session: Session,
    raw: Any,
    time: Moments,
    name: str,
    where: str,
    other: str,
    wrong: Any,
    expected: str = "negative or infinite",
) -> Facts:
    """Count the rows that cannot be; raise an error that names the column and how many."""
    column = time.column
    missing = column.isnull()
    if column.type().is_floating():
        missing = missing | column.isnan() | column.isinf()
    found = session.fetch(
        raw.aggregate(
            rows=raw.count(),
            missing=missing.sum(),
            wrong=wrong.sum(),
            low=column.min(),
            high=column.max(),
        ),
        where,
    ).iloc[0]
    rows = int(found["rows"])
    if not rows:
        raise InputError(f"{where}: there are no rows; is it the right file?")
    for bad, what, why in (
        (found["missing"], name, "missing or not finite"),
        (found["wrong"], other, expected),
    ):
        if bad and bad == bad:
            raise InputError(
                f"{where}, column {what!r}: {int(bad)} of {rows} rows are {why}; correct or "
                f"delete them"
            )
    base = found["low"]
    return Facts(
        rows,
        time.seconds(found["low"], base),
        time.seconds(found["high"], base),
        base,
        time.absolute(base),
    )


def _status(raw: Any, name: str | None, where: str) -> Any:
    import ibis

    if name is None:
        return ibis.null("string")
    column = find(raw, name, where)
    if column.type().is_floating():  # whole numbers, some of them missing, as pandas writes them
        column = without_nan(column).cast("int64")
    return column.cast("string")
