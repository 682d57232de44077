"""Lines of access logs, taken apart by DuckDB.

The result of each reader is a query over the file with one row per request: ``arrival``
(microseconds since 1970), ``response`` (microseconds; null where the log does not say) and
``status`` (text). DuckDB reads line by line, so the file may be larger than memory, compressed, or
several (``access.log*``). Times are whole numbers, so that a request which arrives in the
millisecond in which another ends does not meet it: seconds since 1970 as floats would tell the two
apart by chance.
"""

from __future__ import annotations

import codecs
import os
import warnings
from collections.abc import Sequence
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir

from stationary.errors import DataWarning, InputError

QUOTED = r'"(?:[^"\\]|\\.)*"'

_COMMON_TIME = r"\[(\d{2}/[A-Za-z]{3}/\d{4}:\d{2}:\d{2}:\d{2})(\.\d+)? ([+-])(\d{2})(\d{2})\]"
_COMMON = rf"^\S+ \S+ .*?{_COMMON_TIME} {QUOTED} (\d{{3}}|-) (?:\d+|-)(?: {QUOTED} {QUOTED})?(.*)$"
_MARK = codecs.BOM_UTF8.decode("latin-1")
"""What some editors put before the first line."""
_SHOWN = 200
"""Characters of a line that an error shows."""


def fields(backend: Any, path: str, pattern: str, names: Sequence[str]) -> ir.Table:
    """Return the lines of a file with the groups of a pattern as columns of text.

    Columns are empty where a line does not match; empty lines are left out.
    """
    try:
        lines = backend.read_csv(
            os.fspath(path),
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
        raise InputError(f"{os.fspath(path)}: cannot be read: {error}") from None
    kind = f"struct<{', '.join(f'{name}: string' for name in names)}>"

    # DuckDB's own function finds all groups in one pass over a line; that of Ibis finds one.
    @ibis.udf.scalar.builtin(
        name="regexp_extract", signature=(("string", "string", "array<string>"), kind)
    )
    def groups(line: Any, pattern: Any, names: Any) -> Any: ...

    lines = lines.filter(lines.line.notnull())
    marked = lines.line.startswith(_MARK)
    lines = lines.mutate(line=ibis.ifelse(marked, lines.line.substr(len(_MARK)), lines.line))
    matched = lines.mutate(groups=groups(lines.line, pattern, list(names)))
    return matched.select("line", **{name: matched.groups[name] for name in names})


def common_log(backend: Any, path: str) -> ir.Table:
    """Return the lines of a common or combined log: ``logged``, ``fraction``, ``status``, ``rest``.

    ``logged`` is the time in microseconds since 1970, ``rest`` what was added to the format. User
    names may contain spaces, requests escaped quotes.
    """
    names = ("clock", "fraction", "sign", "hours", "minutes", "status", "rest")
    table = fields(backend, path, _COMMON, names)
    # The zone is subtracted by hand: a time with a zone would need an extension of DuckDB.
    away = micros(table.hours, 3600.0) + micros(table.minutes, 60.0)
    local = moment(table.clock, table.fraction, "%d/%b/%Y:%H:%M:%S")
    return table.mutate(logged=local - ibis.ifelse(table.sign == "-", -1, 1) * away)


def micros(text: ir.StringValue, unit: float = 1.0) -> ir.IntegerValue:
    """Return microseconds of a number of units, each of so many seconds; null if there is none.

    A float of seconds since 1970 is off by a tenth of a microsecond at most, so rounding is exact.
    """
    return (text.nullif("").try_cast("float64") * (unit * 1e6)).round().cast("int64")


def moment(clock: ir.StringValue, fraction: ir.StringValue, form: str) -> ir.IntegerValue:
    """Return microseconds since 1970 of a time in UTC; null where it is not one."""
    whole = _try_strptime(clock, form).epoch_seconds().cast("int64") * 1_000_000
    return whole + ibis.coalesce(micros(fraction), 0)


@ibis.udf.scalar.builtin(name="try_strptime", signature=(("string", "string"), "timestamp"))
def _try_strptime(text: Any, form: Any) -> Any:
    """DuckDB's reader of times; null where a text is not a time."""


def requests(
    table: ir.Table, path: str, kind: str, add_fraction: str, add_response: str
) -> ir.Table:
    """Keep the lines that could be read, and say what the others lack.

    The table has ``line``, ``arrival``, ``response``, ``status``, and whether the time is ``fine``:
    in parts of a second. Messages name what a line should be (``kind``), and what to add to the
    server's format where times are whole seconds, or responses are missing.
    """
    good = table.arrival.notnull()
    sums = table.aggregate(
        lines=table.count(),
        good=good.sum(),
        fine=(good & table.fine).sum(),
        timed=(good & table.response.notnull()).sum(),
    )
    row = {key: value or 0 for key, value in sums.to_pyarrow().to_pylist()[0].items()}
    name = os.fspath(path)
    if not row["lines"]:
        raise InputError(f"{name}: the file has no lines")

    def warn(text: str) -> None:
        warnings.warn(f"{name}: {text}", DataWarning, stacklevel=4)

    bad = row["lines"] - row["good"]
    if bad:
        first = table.filter(~good).limit(1).line.to_pyarrow()[0].as_py()[:_SHOWN]
        text = f"{bad} of {row['lines']} lines are not {kind}; the first: {first!r}"
        if 2 * bad > row["lines"]:
            raise InputError(f"{name}: {text}; name the format of the file with --format")
        warn(f"left out: {text}")
    coarse, untimed = row["good"] - row["fine"], row["good"] - row["timed"]
    if coarse:
        warn(
            f"{coarse} of {row['good']} lines have the time in whole seconds only, too coarse for "
            f"queue lengths; add {add_fraction}"
        )
    if untimed:
        text = f"{untimed} of {row['good']} lines have no response time; add {add_response}"
        if 2 * untimed > row["good"]:
            raise InputError(f"{name}: {text}: without it the number in the system is not known")
        warn(text)
    return table.filter(good).select("arrival", "response", "status")
