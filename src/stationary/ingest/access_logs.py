r"""Access logs of web servers and proxies, to a table of requests.

Each reader returns an Ibis table with a row a request: ``arrival`` (microseconds since 1970),
``response`` (microseconds it took; null where the log does not say) and ``status`` (text). Times
are whole numbers, so that a request that arrives in the millisecond in which another ends is seen
to: seconds since 1970 as floats would tell the two apart by chance. The table is a query over the
file, not its content: DuckDB reads it line by line, so it may be larger than memory, compressed, or
many files (``access.log*``).

What the servers must log:

- nginx writes a line when a request is *done*, so the arrival is the logged time less
  ``$request_time``. The usual ``$time_local`` has whole seconds only, ``$msec`` has milliseconds::

      log_format stationary '$remote_addr - $remote_user [$time_local] "$request" $status '
                            '$body_bytes_sent "$http_referer" "$http_user_agent" '
                            '$request_time $msec';

- Apache writes the time at which a request was *received*; ``%D`` is how long it took, in
  microseconds. Here, too, the usual ``%t`` has whole seconds only::

      LogFormat "%h %l %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] \"%r\" %>s %b \
      \"%{Referer}i\" \"%{User-agent}i\" %D" stationary

- Envoy's default format, and Istio's, have the start in milliseconds, and the duration.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir

from stationary.errors import DataWarning, InputError

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_CLF_TIME = r"\[(\d{2}/[A-Za-z]{3}/\d{4}:\d{2}:\d{2}:\d{2})(\.\d+)? ([+-])(\d{2})(\d{2})\]"
_CLF = rf"^\S+ \S+ .*?{_CLF_TIME} {_QUOTED} (\d{{3}}|-) (?:\d+|-)(?: {_QUOTED} {_QUOTED})?(.*)$"
"""Common or combined log format, and what was added to it.

User names may have spaces, requests escaped quotes.
"""

_CLF_FIELDS = ("moment", "part", "sign", "hours", "minutes", "status", "rest")
_CLF_FORM = "%d/%b/%Y:%H:%M:%S"

_ENVOY = (
    r"^\[(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d+)?Z\] "
    rf"{_QUOTED} (\d+) \S+ (?:\S+ \S+ {_QUOTED} )?\d+ \d+ (\d+|-) "
)
"""Envoy's default format, or that of Istio, which adds three fields on how the answer came."""

_ENVOY_FIELDS = ("moment", "part", "status", "took")
_ENVOY_FORM = "%Y-%m-%dT%H:%M:%S"

_SHOWN = 200
"""Characters of a line that an error shows."""


def nginx(connection: Any, path: str | os.PathLike[str]) -> ir.Table:
    """Requests of an nginx log: combined, then ``$request_time`` and ``$msec``, in any order.

    Either may be named, as in ``rt=$request_time``, and other fields may stand around them; the
    first number with three decimals is ``$request_time``. Without ``$msec`` arrivals are known to
    the second, and without ``$request_time`` only the ends of requests are; a `DataWarning` says
    so.

    Parameters
    ----------
    connection : Ibis backend of DuckDB
        As of ``ibis.duckdb.connect()``.
    path : path
        The file; ``*`` stands for anything, files that end in ``.gz`` or ``.zst`` are unpacked.
    """
    found = _fields(_lines(connection, path), _CLF, _CLF_FIELDS)
    took = _micros(found.rest.re_extract(r'(?:^|[ =])"?(\d{1,7}\.\d{3})"?(?: |$)', 1))
    msec = _micros(found.rest.re_extract(r'(?:^|[ =])"?(\d{9,11}\.\d{3})"?(?: |$)', 1))
    table = found.mutate(
        arrival=ibis.coalesce(msec, _local_time(found)) - ibis.coalesce(took, 0),
        response=took,
        fine=msec.notnull(),
    )
    return _requests(
        table,
        path,
        "nginx combined",
        coarse="$msec to the log_format",
        without="$request_time to the log_format: without it the arrival is not known, either",
    )


def apache(connection: Any, path: str | os.PathLike[str], unit: float = 1e-6) -> ir.Table:
    """Requests of an Apache log: combined or common, then ``%D``.

    Parameters
    ----------
    connection, path
        As for `nginx`.
    unit : float
        Seconds of a unit of the number at the end: a millionth for ``%D``, 1 for ``%T``, a
        thousandth for ``%{ms}T``.
    """
    if not unit > 0:
        raise InputError(f"unit must be a positive number of seconds; got {unit!r}")
    found = _fields(_lines(connection, path), _CLF, _CLF_FIELDS)
    table = found.mutate(
        arrival=_local_time(found),
        response=_micros(found.rest.re_extract(r"^ (\d+)(?: |$)", 1), unit),
        fine=found.part != "",
    )
    return _requests(
        table,
        path,
        "Apache combined",
        coarse="%{usec_frac}t to the LogFormat, as in docs/prometheus.md",
        without="%D to the LogFormat",
    )


def envoy(connection: Any, path: str | os.PathLike[str]) -> ir.Table:
    """Requests of an Envoy log in its default format, or Istio's; parameters as for `nginx`.

    The status of a request whose client went away before an answer is 0.
    """
    found = _fields(_lines(connection, path), _ENVOY, _ENVOY_FIELDS)
    table = found.mutate(
        arrival=_moment(found, _ENVOY_FORM),
        response=_micros(found.took, 1e-3),
        fine=found.part != "",
    )
    return _requests(
        table,
        path,
        "Envoy default",
        coarse="milliseconds to the format, as %START_TIME% does",
        without="%DURATION% to the format, as the default has it",
    )


FORMATS: dict[str, Callable[[Any, str | os.PathLike[str]], ir.Table]] = {
    "nginx": nginx,
    "apache": apache,
    "apache-seconds": partial(apache, unit=1.0),
    "envoy": envoy,
}
"""Readers by the names of the command line; ``apache-seconds`` is for ``%T``."""


def _lines(connection: Any, path: str | os.PathLike[str]) -> ir.Table:
    """Return the lines of a file, in a column ``line``, without empty ones."""
    try:
        table = connection.read_csv(
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
    return table.filter(table.line.notnull())


def _fields(lines: ir.Table, pattern: str, names: Sequence[str]) -> ir.Table:
    """Add columns of text, one a group of the pattern; empty where a line does not match.

    DuckDB's own function finds all groups in one pass over a line; that of Ibis finds one.
    """
    kind = f"struct<{', '.join(f'{name}: string' for name in names)}>"

    @ibis.udf.scalar.builtin(
        name="regexp_extract", signature=(("string", "string", "array<string>"), kind)
    )
    def groups(line: Any, pattern: Any, names: Any) -> Any: ...

    found = lines.mutate(found=groups(lines.line, pattern, list(names)))
    return found.select("line", **{name: found.found[name] for name in names})


def _micros(text: ir.StringValue, unit: float = 1.0) -> ir.IntegerValue:
    """Microseconds of a number that was extracted, in seconds of ``unit``; null if there is none.

    A float of seconds since 1970 is off by a tenth of a microsecond at most, so rounding is exact.
    """
    return (text.nullif("").try_cast("float64") * (unit * 1e6)).round().cast("int64")


def _moment(found: ir.Table, form: str) -> ir.IntegerValue:
    """Microseconds since 1970 of a moment and its fraction, in UTC; null where it is none."""
    whole = _try_strptime(found.moment, form).epoch_seconds().cast("int64") * 1_000_000
    return whole + ibis.coalesce(_micros(found.part), 0)


def _local_time(found: ir.Table) -> ir.IntegerValue:
    """Microseconds since 1970 of a local time.

    Its zone is taken off by hand: a time with a zone would need an extension of DuckDB.
    """
    away = _micros(found.hours, 3600.0) + _micros(found.minutes, 60.0)
    return _moment(found, _CLF_FORM) - ibis.ifelse(found.sign == "-", -1, 1) * away


@ibis.udf.scalar.builtin(name="try_strptime", signature=(("string", "string"), "timestamp"))
def _try_strptime(text: Any, form: Any) -> Any:
    """DuckDB's reader of times, which makes null of what is none."""


def _requests(
    table: ir.Table, path: str | os.PathLike[str], form: str, coarse: str, without: str
) -> ir.Table:
    """Keep the lines that could be read, and say what could not.

    Parameters
    ----------
    table : Table
        Lines, what was read in them, and whether their time is ``fine``r than seconds.
    path : path
        The file, named in messages.
    form : str
        What a line should be.
    coarse, without : str
        What to add where times have whole seconds only, and where responses are not known.
    """
    good = table.arrival.notnull()
    found = table.aggregate(
        lines=table.count(),
        good=good.sum(),
        fine=(good & table.fine).sum(),
        timed=(good & table.response.notnull()).sum(),
    )
    row = {key: value or 0 for key, value in found.to_pyarrow().to_pylist()[0].items()}
    name = os.fspath(path)
    if not row["lines"]:
        raise InputError(f"{name}: there are no lines in it")
    bad = row["lines"] - row["good"]
    if bad:
        first = table.filter(~good).limit(1).line.to_pyarrow()[0].as_py()[:_SHOWN]
        said = f"{bad} of {row['lines']} lines are not {form}; the first: {first!r}"
        if 2 * bad > row["lines"]:
            raise InputError(f"{name}: {said}; name the format the file has")
        warnings.warn(f"{name}: dropped: {said}", DataWarning, stacklevel=3)
    for known, what, remedy in (
        ("fine", "the time in whole seconds only, too coarse for queue lengths", coarse),
        ("timed", "no response time", without),
    ):
        lacking = row["good"] - row[known]
        if known == "timed" and 2 * lacking > row["good"]:
            raise InputError(
                f"{name}: {lacking} of {row['good']} lines have no response time, without which "
                f"nobody knows who was in the system; add {remedy}"
            )
        if lacking:
            warnings.warn(
                f"{name}: {lacking} of {row['good']} lines have {what}; add {remedy}",
                DataWarning,
                stacklevel=3,
            )
    return table.filter(good).select("arrival", "response", "status")
