"""nginx access log: combined, then ``$request_time`` and ``$msec``, in any order.

nginx writes a line when a request is *done*, so the arrival is the logged time less
``$request_time``. The usual ``$time_local`` has whole seconds only, ``$msec`` has milliseconds::

    log_format stationary '$remote_addr - $remote_user [$time_local] "$request" $status '
                          '$body_bytes_sent "$http_referer" "$http_user_agent" '
                          '$request_time $msec';

Either may be named, as in ``rt=$request_time``, and other fields may stand around them; the first
number with three decimals is ``$request_time``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit


def _number(digits: str) -> str:
    return rf'(?:^|[ =])"?(\d{{{digits}}}\.\d{{3}})"?(?: |$)'


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.fields(backend, files, _lines.COMMON)
    took = _lines.micros(table.rest.re_extract(_number("1,7"), 1))
    msec = _lines.micros(table.rest.re_extract(_number("9,11"), 1))
    return table.select(
        "line",
        "status",
        "method",
        "path",
        arrival=ibis.coalesce(msec, _lines.stamp(table.clock, table.fraction, table.zone))
        - ibis.coalesce(took, 0),
        response=took,
        fine=msec.notnull(),
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines(
        "nginx combined",
        _lines.COMMON,
        "those at which requests were done; arrivals are earlier by the response time",
        "$msec to the log_format",
        "$request_time to the log_format",
    ),
)
