"""Lines of access logs, taken apart by DuckDB.

The result of each reader is a query over the files with one row per line: ``arrival`` (microseconds
since 1970; null where the line could not be read), ``response`` (microseconds; null where the log
does not say), ``status`` (text) and what else a line has, such as ``path``. DuckDB reads line by
line, so the files may be larger than memory, and compressed. Times are whole numbers, so that a
request which arrives in the millisecond in which another ends does not meet it: seconds since 1970
as floats would tell the two apart by chance.
"""

from __future__ import annotations

import codecs
import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir

from stationary.errors import DataWarning, InputError
from stationary.ingest.formats._base import LogLines

QUOTED = r'"(?:[^"\\]|\\.)*"'
REQUEST = r'"(?P<method>[A-Za-z]*) ?(?P<path>[^ ?"]*)(?:[^"\\]|\\.)*"'
STAMP = r"(?P<clock>\d{2}/[A-Za-z]{3}/\d{4}:\d{2}:\d{2}:\d{2})(?P<fraction>\.\d+)?"
ZONE = r" (?P<zone>[+-]\d{4})"
ISO = (
    r"(?P<clock>\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?P<fraction>\.\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
COMMON = (
    rf"^\S+ \S+ .*?\[{STAMP}{ZONE}\] {REQUEST} (?P<status>\d{{3}}|-) "
    rf"(?:\d+|-)(?: {QUOTED} {QUOTED})?(?P<rest>.*)$"
)
_COMMON_CLOCK = "%d/%b/%Y:%H:%M:%S"
_ISO_CLOCK = "%Y-%m-%dT%H:%M:%S"
_MARK = codecs.BOM_UTF8.decode("latin-1")
"""What some editors put before the first line."""
_SHOWN = 200
"""Characters of a line that an error shows."""


def lines(backend: Any, files: Sequence[str]) -> ir.Table:
    """Return the lines of files as a column ``line``; empty ones are left out."""
    try:
        read = backend.read_csv(
            list(files),
            header=False,
            auto_detect=False,
            columns={"line": "VARCHAR"},
            delim="\x1f",  # servers escape control characters, so no line has one
            quote="",
            escape="",
            strict_mode=False,
            encoding="latin-1",  # reads any byte, and what is extracted is plain ASCII
        )
    except duckdb.IOException as error:
        raise InputError(f"{', '.join(map(os.fspath, files))}: cannot be read: {error}") from None
    read = read.filter(read.line.notnull() & (read.line != ""))
    marked = read.line.startswith(_MARK)
    return read.mutate(line=ibis.ifelse(marked, read.line.substr(len(_MARK)), read.line))


def fields(backend: Any, files: Sequence[str], pattern: str) -> ir.Table:
    """Return lines with the named groups of a pattern as columns of text, empty without a match."""
    names = list(re.compile(pattern).groupindex)
    kind = f"struct<{', '.join(f'{name}: string' for name in names)}>"

    # DuckDB's own function finds all groups in one pass over a line; that of Ibis finds one.
    @ibis.udf.scalar.builtin(
        name="regexp_extract", signature=(("string", "string", "array<string>"), kind)
    )
    def groups(line: Any, pattern: Any, names: Any) -> Any: ...

    read = lines(backend, files)
    # RE2 does not know named groups in the middle of lists of names; it counts them.
    plain = re.sub(r"\(\?P<\w+>", "(", pattern)
    matched = read.mutate(groups=groups(read.line, plain, names))
    return matched.select("line", **{name: matched.groups[name] for name in names})


def stamp(
    clock: ir.StringValue,
    fraction: ir.StringValue,
    zone: ir.StringValue | None = None,
    form: str = _COMMON_CLOCK,
) -> ir.IntegerValue:
    """Return microseconds since 1970 of a time, a part of a second and a zone; UTC without one."""
    whole = _try_strptime(clock, form).epoch_seconds().cast("int64") * 1_000_000
    time = whole + ibis.coalesce(micros(fraction), 0)
    if zone is None:
        return time
    # The zone is subtracted by hand: a time with a zone would need an extension of DuckDB.
    digits = zone.replace(":", "")
    away = micros(digits.substr(1, 2), 3600.0) + micros(digits.substr(3, 2), 60.0)
    return time - ibis.coalesce(away, 0) * ibis.ifelse(digits.startswith("-"), -1, 1)


def iso(
    clock: ir.StringValue, fraction: ir.StringValue, zone: ir.StringValue | None = None
) -> ir.IntegerValue:
    """Return the same of a time as in ISO 8601."""
    return stamp(clock, fraction, zone, _ISO_CLOCK)


def micros(text: ir.StringValue, unit: float = 1.0) -> ir.IntegerValue:
    """Return microseconds of a number of units, each of so many seconds; null if there is none.

    A float of seconds since 1970 is off by a tenth of a microsecond at most, so rounding is exact.
    """
    return (text.nullif("").try_cast("float64") * (unit * 1e6)).round().cast("int64")


@ibis.udf.scalar.builtin(name="try_strptime", signature=(("string", "string"), "timestamp"))
def _try_strptime(text: Any, form: Any) -> Any:
    """DuckDB's reader of times; null where a text is not a time."""


def members(backend: Any, files: Sequence[str], paths: dict[str, str]) -> ir.Table:
    """Return lines of JSON with what stands at some paths as columns of text."""

    @ibis.udf.scalar.builtin(
        name="json_extract_string", signature=(("string", "array<string>"), "array<string>")
    )
    def extract(line: Any, paths: Any) -> Any: ...

    @ibis.udf.scalar.builtin(name="json_valid", signature=(("string",), "boolean"))
    def valid(line: Any) -> Any: ...

    read = lines(backend, files)
    safe = ibis.ifelse(valid(read.line), read.line, "{}")  # or one bad line would end it all
    read = read.mutate(found=extract(safe, list(paths.values())))
    return read.select("line", **{name: read.found[k] for k, name in enumerate(paths)})


def checked(table: ir.Table, name: str, rules: LogLines) -> ir.Table:
    """Keep the lines that could be read, and say what the others lack."""
    good = table.arrival.notnull()
    timed = table.response.notnull()
    if "denied" in table.columns:  # these have no response, and need none
        timed = timed | table.denied
    sums = table.aggregate(
        lines=table.count(),
        good=good.sum(),
        fine=(good & table.fine).sum(),
        timed=(good & timed).sum(),
    )
    row = {key: value or 0 for key, value in sums.to_pyarrow().to_pylist()[0].items()}
    if not row["lines"]:
        raise InputError(f"{name}: the file has no lines")

    def warn(text: str) -> None:
        warnings.warn(f"{name}: {text}", DataWarning, stacklevel=5)

    bad = row["lines"] - row["good"]
    if bad:
        first = table.filter(~good).limit(1).line.to_pyarrow()[0].as_py()[:_SHOWN]
        text = f"{bad} of {row['lines']} lines are not {rules.kind}; the first: {first!r}"
        if bad == row["lines"]:
            raise InputError(f"{name}: {text}; name the format of the file with --format")
        warn(f"left out: {text}")
    coarse, untimed = row["good"] - row["fine"], row["good"] - row["timed"]
    if coarse:
        warn(
            f"{coarse} of {row['good']} lines have the time in whole seconds only, too coarse for "
            f"queue lengths; add {rules.add_fraction}"
        )
    if untimed:
        text = f"{untimed} of {row['good']} lines have no response time"
        if untimed == row["good"]:
            raise InputError(
                f"{name}: {text}; add {rules.add_response}: without it the number in the system is "
                f"not known"
            )
        warn(f"{text}, and count as lost; add {rules.add_response} if it is not always there")
    extra = [name for name in ("line", "fine", "denied") if name in table.columns]
    return table.filter(good).drop(*extra)
