"""Sources: tables of requests or samples, wherever they are."""

from __future__ import annotations

import codecs
import filecmp
import glob
import operator
import os
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ibis

from stationary import words
from stationary._support.arguments import explained
from stationary.errors import InputError, hide_passwords
from stationary.ingest.addresses import check_no_password, is_postgres
from stationary.ingest.columns import (
    Rows,
    check,
    find,
    read_lengths,
    read_times,
    unit_of,
    without_nan,
)
from stationary.ingest.engines import Session, real
from stationary.ingest.formats import Format, LogLines, format_of, load_format
from stationary.ingest.formats._lines import blocks, head, stage
from stationary.terms.spans import Unit as Unit

_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""Marks at the start of text in other encodings; little-endian UTF-32 begins as UTF-16 does."""
_HEAD = 2**16
"""Bytes at the start of a file from which its format is found."""
_LINES = 100
"""Lines among them that are read for it."""
_SHOWN = 200
"""Characters of a line that a message shows."""
_SLOW = 20.0
"""Mean response time above which times in whole seconds are precise enough to count requests in the
system: each is off by half a second on average."""
_CONDITION = re.compile(r"([\w.]+)\s*(!~|~|!=|<=|>=|=|<|>)\s*(.+)")
_SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


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
    unit : Unit, optional
        Of all numbers; by default the one in which times since 1970 are dates of our days, or
        seconds.
    response_unit : Unit, optional
        Of the response times, where it is another.
    """

    arrival: str = "arrival"
    response: str | None = None
    completion: str | None = None
    status: str | None = None
    unit: Unit | None = None
    response_unit: Unit | None = None

    def __post_init__(self) -> None:
        if self.response is not None and self.completion is not None:
            raise InputError(
                f"name the column of response times ({self.response!r}) or that of completions "
                f"({self.completion!r}), not both"
            )


@explained
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
        One of `stationary.ingest.format_names`, or a format string of nginx or Apache; found by
        the first lines, or the ending, of the file otherwise.
    table, query : str, optional
        What to read of a database.
    where : tuple of str
        Conditions on columns, as in ``path ~ ^/api``, that rows must meet; all of them.
    """

    location: str = field(repr=False)  # it may hold a password
    columns: Columns = field(default_factory=Columns)
    format: str | None = None
    table: str | None = None
    query: str | None = None
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", os.fspath(self.location))

    @property
    def is_database(self) -> bool:
        """Whether the location is a PostgreSQL server."""
        return is_postgres(self.location)

    @property
    def name(self) -> str:
        """The location for a message, without a password."""
        if not self.is_database:
            return hide_passwords(self.location)
        return f"{self.table or 'the query'} in the database"

    def files(self) -> list[str]:
        """Return the files, the oldest of rotated logs first; an address of a store as it is."""
        path = self.location
        if "://" in path:
            return [path]
        found = [path] if Path(path).exists() else glob.glob(path)  # noqa: PTH207
        if not found:
            raise InputError(f"{path}: there is no such file; check the path")
        if any(Path(file).is_dir() for file in found):
            raise InputError(
                f"{path}: this is a folder; name the files in it, as in '{path}/*.log'"
            )
        return sorted(found, key=_age)

    @cached_property
    def found_format(self) -> tuple[str, Format | LogLines]:
        """The format of the files, by name: that which was asked for, or the one they look like."""
        files = self.files()
        local = "://" not in files[0]
        heads = {file: found for file in files if local and (found := head(file, _HEAD))}
        for file, found in heads.items():
            if found.startswith(_OTHER_MARKS):
                raise InputError(f"{file}: this is text in UTF-16 or UTF-32; save it as UTF-8")
        if self.format is not None:
            return self.format, load_format(self.format)
        if not local:
            return format_of(files[0], None)
        if not heads:
            raise InputError(f"{self.name}: the file is empty")
        heads = {file: _lines(file, found) for file, found in heads.items()}
        first, *others = heads
        name, kind = format_of(first, heads[first])
        for file in others:
            try:
                other = format_of(file, heads[file], name)[0]
            except InputError:  # its lines are left out, and counted, when it is read
                other = name if heads[file] else "parquet"
            if other != name:
                raise InputError(
                    f"{file}: this file is {other}, and {first} is {name}; ingest files of one "
                    f"format at a time, or name the --format of all"
                )
        return name, kind

    def units(self) -> tuple[Unit | None, Unit | None]:
        """Return the units of times and of response times: the format's own, or the columns'."""
        unit, response_unit = self.columns.unit, self.columns.response_unit
        own = None if self.is_database else self.found_format[1].unit
        if own is None:
            return unit, response_unit or unit
        if unit is not None or response_unit is not None:
            raise InputError(
                f"{self.name}: the format {self.found_format[0]!r} has units of its own; leave out "
                f"the units of times"
            )
        return own, own

    def check(self) -> None:
        """Raise unless the files are there, in a known format; of a database, look at nothing."""
        if self.is_database:
            return
        if self.table is not None or self.query is not None:
            raise InputError("--table and --query go with a database, postgresql://user@host/name")
        check_no_password(self.location)
        _ = self.found_format


def open_table(session: Session, source: Source) -> Any:
    """Return the table that a source names, with its own columns: the rows that were asked for."""
    with session.about(source.name):
        if source.is_database:
            return _chosen(_open_database(session, source), source)
        source.check()
        name, kind = source.found_format
        files = _distinct(source.files(), session)
        session.one_file = len(files) == 1
        if isinstance(kind, LogLines):
            if not session.streams:
                raise InputError(
                    f"{source.name}: access logs are read by DuckDB; leave out --engine, or turn "
                    f"the log into a table first"
                )
            made, session.whole_seconds = stage(files, kind, str(session.folder), source.name)
            session.notes.append(f"read as {name}: its times are {kind.said()}")
            return _chosen(session.backend.read_parquet(made), source)
        if session.folder is not None:
            files = [_unpacked(file, f"{session.folder}/{k}-") for k, file in enumerate(files)]
        table = kind.read(session.backend, [session.exactly(file) for file in files])
        if kind.parsed:
            table = session.stage("rows", table)
            if session.streams:
                _say_rejected(session)
        return _chosen(table, source)


def _chosen(table: Any, source: Source) -> Any:
    """Keep the rows that a user asks for."""
    for condition in source.where:
        table = table.filter(condition_of(table, condition, source.name))
    return table


def condition_of(table: Any, text: str, where: str) -> Any:
    """Return a condition on a table, as in ``path ~ ^/api`` or ``status < 500``."""
    parts = _CONDITION.fullmatch(text.strip())
    if parts is None:
        raise InputError(
            f"--where {text!r}: write a column, one of ~ !~ = != < <= > >=, and a value, as in "
            f"'path ~ ^/api'"
        )
    name, sign, value = parts.groups()
    column = find(table, name, where)
    if "~" in sign:
        try:
            re.compile(value)
        except re.error as error:
            raise InputError(
                f"--where {text!r}: {value!r} is not a regular expression: {error}"
            ) from None
        found = column.cast("string").re_search(value).fill_null(False)
        return found if sign == "~" else ~found
    try:
        given = real(float(value))
        column = column.try_cast("float64") if column.type().is_string() else column
    except ValueError:
        column, given = column.cast("string"), value
    return _SIGNS[sign](column, given).fill_null(False)


def _age(path: str) -> tuple[str, float, str]:
    """Sort rotated logs from the oldest: ``a.log.2.gz, a.log.1, a.log``; others by name."""
    name = re.sub(r"\.(gz|zst)$", "", path)
    number = re.search(r"\.(\d{1,4})$", name)
    stem = name[: number.start()] if number else name
    return stem, -float(number[1]) if number else 1.0, path


def _lines(path: str, block: bytes) -> bytes:
    """Return the first lines of a file of text; no line of a Parquet file."""
    if block.startswith(b"PAR1"):
        return b""
    if b"\0" in block:
        if path.lower().endswith(".parquet"):
            raise InputError(f"{path}: this is no Parquet file; is it damaged?")
        raise InputError(f"{path}: logs are text, perhaps packed (.gz, .bz2, .zst)")
    return b"".join(block.splitlines(keepends=True)[:_LINES])


def _distinct(files: list[str], session: Session) -> list[str]:
    """Leave out files that are empty, or there twice, byte by byte."""
    if "://" in files[0]:
        return files
    kept: list[str] = []
    for file in files:
        if len(files) > 1 and not Path(file).stat().st_size:
            session.notes.append(f"left out {file}: it is empty")
        elif same := [one for one in kept if filecmp.cmp(one, file, shallow=False)]:
            session.notes.append(f"left out {file}, a copy of {same[0]}")
        else:
            kept.append(file)
    return kept or files


def _unpacked(path: str, begin: str) -> str:
    """Return a file that DuckDB reads; it unpacks all but bzip2 itself."""
    if not path.endswith(".bz2") or "://" in path:
        return path
    made = Path(begin + Path(path).stem)
    with made.open("wb") as file:
        file.writelines(blocks(path))
    return str(made)


def _say_rejected(session: Session) -> None:
    """Say how many lines of a table did not fit, and show the first."""
    there = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'reject_errors'"
    if not session.backend.raw_sql(there).fetchall():
        return
    [(count, line, number)] = session.backend.raw_sql(
        "SELECT count(DISTINCT (file_id, line)), min_by(csv_line, line), min(line) "
        "FROM reject_errors"
    ).fetchall()
    if count:
        session.notes.append(
            f"left out {count} lines that do not fit the header; the first is line {number}: "
            f"{str(line)[:_SHOWN]!r}"
        )


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


def open_requests(session: Session, source: Source, raw: Any = None) -> Rows:
    """Return the requests of a source, checked in one pass over all rows.

    ``raw`` is its table, or a part of it, where it is open already.
    """
    raw = open_table(session, source) if raw is None else raw
    where, columns = source.name, source.columns
    unit, response_unit = source.units()
    guessed = unit is None
    unit = unit_of(session, raw, columns.arrival, unit, where)
    arrival = read_times(session, raw, columns.arrival, unit, where)
    if columns.completion is not None:
        measured, what = columns.completion, "before the arrival, or infinite"
        done = read_times(session, raw, measured, unit, where)
        if done.kind != arrival.kind:
            raise InputError(
                f"{where}: {columns.arrival!r} has {arrival.kind} and {measured!r} {done.kind}; "
                f"write both in the same way"
            )
        wrong = done.column < arrival.column
        if not done.whole:
            wrong = wrong | done.column.isinf()
        length, per_second = done.column - arrival.column, done.per_second
    else:
        measured, what = columns.response or "response", "negative or infinite"
        if columns.response is None and measured not in raw.columns:
            raise InputError(
                f"{where}: name the column of response times with --response, or that of "
                f"completions with --completion; the columns are: {', '.join(raw.columns[:30])}"
            )
        length = read_lengths(session, raw, measured, where)
        if response_unit is None:
            response_unit = _unit_of_lengths(measured, length, unit, guessed, where)
        wrong = length < 0
        if length.type().is_floating():
            wrong = wrong | length.isinf() | length.isnan()
        per_second = response_unit.per_second
    took = length, per_second
    rows, base = check(session, raw, arrival, where, [(measured, what, wrong)], took)
    if columns.completion is not None:
        departure = done.since(base) if done.whole else without_nan(done.since(base))
        response = departure - arrival.since(base)
    else:
        departure = arrival.after(base, *took)
        response = length.cast("float64") / real(per_second)
    # Of jobs that take minutes, whole seconds tell well enough how many there were.
    coarse = (rows.coarse or session.whole_seconds) and rows.mean < _SLOW
    if coarse and columns.completion is not None:
        raise InputError(
            f"{where}: all times in {columns.arrival!r} are whole seconds, too coarse for requests "
            f"that took {words.seconds(rows.mean)} on average: record parts of a second, or "
            f"response times"
        )
    if coarse:
        advice = "" if session.whole_seconds else ": record parts of a second"
        session.notes.append(
            f"queue lengths and service times are left out, because all times in "
            f"{columns.arrival!r} are whole seconds, too coarse for them{advice}"
        )
    status = columns.status or ("status" if "status" in raw.columns else None)
    table = rows.table.select(
        arrival=arrival.since(base),
        response=response,
        departure=departure,
        status=_status(raw, status, where),
    )
    return replace(rows, table=table, has_status=status is not None, coarse=coarse)


def _unit_of_lengths(name: str, length: Any, unit: Unit, guessed: bool, where: str) -> Unit:
    """Return the unit of response times: that of their name, or that of the times."""
    ending = re.search(r"(?:^|_)(s|ms|us|ns)$", name)
    if ending and guessed:
        return Unit(ending[1])
    if guessed and unit is not Unit.S and not length.type().is_integer():
        raise InputError(
            f"{where}: the times are {unit.word} since 1970, and {name!r} has numbers with a "
            f"point: say their unit with --response-unit, s or ms"
        )
    return unit


def _status(raw: Any, name: str | None, where: str) -> Any:
    if name is None:
        return ibis.null("string")
    column = find(raw, name, where)
    if column.type().is_floating():  # whole numbers, some of them missing, as pandas writes them
        column = without_nan(column).cast("int64")
    return column.cast("string")
