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

from typing import Any

import ibis

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format
from stationary.terms.spans import Unit


def _number(digits: str) -> str:
    return rf'(?:^|[ =])"?(\d{{{digits}}}\.\d{{3}})"?(?: |$)'


def _read(backend: Any, path: str) -> Any:
    table = _lines.common_log(backend, path)
    took = _lines.micros(table.rest.re_extract(_number("1,7"), 1))
    msec = _lines.micros(table.rest.re_extract(_number("9,11"), 1))
    table = table.mutate(
        arrival=ibis.coalesce(msec, table.logged) - ibis.coalesce(took, 0),
        response=took,
        fine=msec.notnull(),
    )
    return _lines.requests(
        table,
        path,
        "nginx combined",
        add_fraction="$msec to the log_format",
        add_response="$request_time to the log_format",
    )


FORMAT = Format(_read, Unit.US, needs_duckdb=True)
