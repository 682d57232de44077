"""Sources: tables of requests, wherever they are, as ``arrival``, ``response`` and ``status``."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stationary.errors import InputError
from stationary.ingest.addresses import database_name
from stationary.ingest.columns import Columns, Moments, find, lengths, moments, without_nan
from stationary.ingest.engines import Session
from stationary.ingest.formats import Format, by_ending, by_name
from stationary.ingest.literals import real
from stationary.terms.spans import Unit


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
        One of `stationary.ingest.FORMATS`; by the ending of the file otherwise.
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
        """Whether the location is a server of PostgreSQL."""
        return self.location.startswith(("postgresql://", "postgres://"))

    @property
    def name(self) -> str:
        """The location for a message, without a password."""
        if not self.is_database:
            return self.location
        return f"{self.table or 'the query'} in {database_name(self.location)}"

    @property
    def kind(self) -> Format | None:
        """The format of the file; None of a database."""
        if self.is_database:
            return None
        return by_name(self.format) if self.format else by_ending(self.location)


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
    told : bool
        Whether there are outcomes; otherwise every ``status`` is null.
    """

    table: Any
    name: str
    rows: int
    first: float
    last: float
    base: float
    told: bool


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
        kind, path = source.kind, source.location
        if kind is None:
            raise InputError(f"{path}: this is no file; check the path")
        if "://" not in path:
            if Path(path).exists():
                path = session.exactly(path)  # brackets in the name of a file are no pattern
            elif not glob.glob(path):  # noqa: PTH207
                raise InputError(f"{path}: there is no such file; check the path")
        if kind.lines and not session.reads_lines:
            raise InputError(
                f"{source.name}: access logs are read by DuckDB; leave out --engine, or turn the "
                f"log into a table first"
            )
        return kind.read(session.backend, path)


def units(source: Source) -> tuple[Unit, Unit]:
    """Return the units of times and of response times: as the format says, or the columns."""
    columns = source.columns
    own = None if source.kind is None else source.kind.unit
    if own is None:
        return columns.unit, columns.response_unit or columns.unit
    if columns.unit is not Unit.S or columns.response_unit is not None:
        raise InputError(
            f"{source.name}: the format {source.format!r} has units of its own; leave out --unit "
            f"and --response-unit"
        )
    return own, own


def open_source(session: Session, source: Source) -> Requests:
    """Return the requests of a source, checked: one look at all rows.

    Raises
    ------
    InputError
        When a column is missing, or some of its values cannot be: with how many.
    """
    raw, where, columns = open_table(session, source), source.name, source.columns
    unit, response_unit = units(source)
    arrival = moments(session, raw, columns.arrival, unit, where)
    status = columns.status
    if status is None and "status" in raw.columns:
        status = "status"
    if columns.completion is not None:
        done = moments(session, raw, columns.completion, unit, where)
        if done.kind != arrival.kind:
            raise InputError(
                f"{where}: {columns.arrival!r} has {arrival.kind} and {columns.completion!r} "
                f"{done.kind}; write both alike"
            )
        wrong = done.column < arrival.column
        if done.column.type().is_floating():
            wrong = wrong | done.column.isinf()
        fault = Fault(columns.completion, wrong, "before the arrival, or infinite")
        facts = check(session, raw, arrival, columns.arrival, where, [fault])
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
        length = lengths(session, raw, measured, where)
        wrong = length < 0
        if length.type().is_floating():
            wrong = wrong | length.isinf()
        fault = Fault(measured, wrong, "negative or infinite")
        facts = check(session, raw, arrival, columns.arrival, where, [fault])
        response = length.cast("float64") / real(response_unit.per_second)
        departure = arrival.plus(facts.base, length, response_unit)
    table = raw.select(
        arrival=arrival.since(facts.base),
        response=response,
        departure=departure,
        status=_status(raw, status, where),
    )
    told = status is not None
    return Requests(table, where, facts.rows, facts.first, facts.last, facts.absolute, told)


@dataclass(frozen=True)
class Fault:
    """Rows that cannot be: the column they stand in, which they are, and what they are."""

    column: str
    rows: Any
    what: str


@dataclass(frozen=True)
class Facts:
    """What one look at all rows tells: how many, and from when to when."""

    rows: int
    first: float
    last: float
    base: Any
    absolute: float


def check(
    session: Session, raw: Any, time: Moments, name: str, where: str, faults: Sequence[Fault]
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
            low=column.min(),
            high=column.max(),
            **{f"fault_{k}": fault.rows.sum() for k, fault in enumerate(faults)},
        ),
        where,
    ).iloc[0]
    rows = int(found["rows"])
    if not rows:
        raise InputError(f"{where}: there are no rows; is it the right file?")
    for bad, what, why in (
        (found["missing"], name, "missing or not finite"),
        *((found[f"fault_{k}"], fault.column, fault.what) for k, fault in enumerate(faults)),
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
