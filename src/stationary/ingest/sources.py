"""Sources: tables of requests or samples, wherever they are."""

from __future__ import annotations

import codecs
import glob
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stationary.errors import InputError, hide_passwords
from stationary.ingest.addresses import check_no_password, database_name, is_postgres
from stationary.ingest.columns import Rows, check, find, read_lengths, read_times, without_nan
from stationary.ingest.engines import Session, real
from stationary.ingest.formats import Format, format_of, load_format
from stationary.terms.spans import Unit as Unit

_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""What text in other encodings begins with; UTF-32, little-endian, begins as UTF-16 does."""


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table of requests, and the units of their numbers.

    Parameters
    ----------
    arrival : str
        When a request arrived, or a sample was taken: a timestamp, or a number.
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
class Source:
    """Where requests, or samples of a gauge, are.

    Parameters
    ----------
    location : str
        A file, several by a pattern such as ``logs/*.parquet``, or ``postgresql://...``.
    columns : Columns
        The names of the columns.
    format : str, optional
        One of `stationary.ingest.format_names`; by the ending of the file otherwise.
    table, query : str, optional
        What to read of a database.
    """

    location: str = field(repr=False)  # it may hold a password
    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    table: str | None = None
    query: str | None = None

    @property
    def is_database(self) -> bool:
        """Whether the location is a PostgreSQL server."""
        return is_postgres(self.location)

    @property
    def name(self) -> str:
        """The location for a message, without a password."""
        if not self.is_database:
            return hide_passwords(self.location)
        return f"{self.table or 'the query'} in {database_name(self.location)}"

    def file_format(self) -> Format:
        """Return the format of the file."""
        return load_format(self.format) if self.format else format_of(self.location)

    def units(self) -> tuple[Unit, Unit]:
        """Return the units of times and of response times: the format's own, or the columns'."""
        own = None if self.is_database else self.file_format().unit
        unit, response_unit = self.columns.unit, self.columns.response_unit
        if own is None:
            return unit, response_unit or unit
        if unit is not Unit.S or response_unit is not None:
            raise InputError(
                f"{self.name}: the format {self.format!r} has units of its own; leave out --unit "
                f"and --response-unit"
            )
        return own, own

    def check(self) -> None:
        """Raise unless the files are there, in a known format; of a database, look at nothing."""
        if self.is_database:
            return
        if self.table is not None or self.query is not None:
            raise InputError("--table and --query go with a database, postgresql://user@host/name")
        path = self.location
        check_no_password(path)
        self.file_format()
        if "://" in path:
            return
        files = [path] if Path(path).exists() else glob.glob(path)  # noqa: PTH207
        if not files:
            raise InputError(f"{path}: there is no such file; check the path")
        for file in files:
            _check_encoding(file)


def open_table(session: Session, source: Source) -> Any:
    """Return the table that a source names, with its own columns."""
    with session.about(source.name):
        if source.is_database:
            return _open_database(session, source)
        source.check()
        kind, path = source.file_format(), source.location
        if "://" not in path and Path(path).exists():
            path = session.exactly(path)  # brackets in the name of a file are no pattern
        if kind.needs_duckdb and not session.reads_lines:
            raise InputError(
                f"{source.name}: access logs are read by DuckDB; leave out --engine, or turn the "
                f"log into a table first"
            )
        return kind.read(session.backend, path)


def _check_encoding(path: str) -> None:
    """Raise where a file begins as text in UTF-16 or UTF-32 does."""
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            if file.read(4).startswith(_OTHER_MARKS):
                raise InputError(f"{path}: this is text in UTF-16 or UTF-32; save it as UTF-8")


def _open_database(session: Session, source: Source) -> Any:
    if (source.table is None) == (source.query is None):
        raise InputError("say what to read of the database: --table NAME, or --query 'SELECT ...'")
    if source.query is not None:
        return session.query(source.query)
    schema, _, name = str(source.table).rpartition(".")
    if name not in session.backend.list_tables(database=schema or None):
        raise InputError(
            f"there is no table {source.table!r} in the database; check the name, and its schema, "
            f"as in public.requests"
        )
    return session.backend.table(name, database=schema or None)


def open_requests(session: Session, source: Source) -> Rows:
    """Return the requests of a source, checked in one pass over all rows.

    Raises
    ------
    InputError
        When a column is missing, or some of its values are impossible: with how many.
    """
    raw, where, columns = open_table(session, source), source.name, source.columns
    unit, response_unit = source.units()
    arrival = read_times(session, raw, columns.arrival, unit, where)
    named = columns.arrival, arrival
    if columns.completion is not None:
        done = read_times(session, raw, columns.completion, unit, where)
        if done.kind != arrival.kind:
            raise InputError(
                f"{where}: {columns.arrival!r} has {arrival.kind} and {columns.completion!r} "
                f"{done.kind}; write both in the same way"
            )
        wrong = done.column < arrival.column
        if not done.whole:
            wrong = wrong | done.column.isinf()
        fault = {columns.completion: (wrong, "before the arrival, or infinite")}
        rows, base = check(session, raw, named, where, fault)
        departure = done.since(base) if done.whole else without_nan(done.since(base))
        response = departure - arrival.since(base)
    else:
        measured = columns.response or "response"
        if columns.response is None and measured not in raw.columns:
            raise InputError(
                f"{where}: name the column of response times with --response, or that of "
                f"completions with --completion; the columns are: {', '.join(raw.columns[:30])}"
            )
        length = read_lengths(session, raw, measured, where)
        wrong = length < 0
        if length.type().is_floating():
            wrong = wrong | length.isinf()
        rows, base = check(session, raw, named, where, {measured: (wrong, "negative or infinite")})
        response = length.cast("float64") / real(response_unit.per_second)
        departure = arrival.after(base, length, response_unit)
    status = columns.status or ("status" if "status" in raw.columns else None)
    table = raw.select(
        arrival=arrival.since(base),
        response=response,
        departure=departure,
        status=_status(raw, status, where),
    )
    return replace(rows, table=table, has_status=status is not None)


def _status(raw: Any, name: str | None, where: str) -> Any:
    import ibis

    if name is None:
        return ibis.null("string")
    column = find(raw, name, where)
    if column.type().is_floating():  # whole numbers, some of them missing, as pandas writes them
        column = without_nan(column).cast("int64")
    return column.cast("string")
