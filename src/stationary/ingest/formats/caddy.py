"""Caddy's access log: one JSON object per line, written when a request is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_PATHS = {
    "ts": "$.ts",
    "took": "$.duration",
    "status": "$.status",
    "method": "$.request.method",
    "host": "$.request.host",
    "uri": "$.request.uri",
}


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.members(backend, files, _PATHS)
    took = _lines.micros(table.took)
    # Seconds since 1970 by default; times as text where the encoder was told so.
    clock = table.ts.re_extract(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", 1)
    fraction = table.ts.re_extract(r"^[^.]*(\.\d+)", 1)
    zone = table.ts.re_extract(r"([+-]\d\d:?\d\d)$", 1)
    done = ibis.coalesce(_lines.micros(table.ts), _lines.iso(clock, fraction, zone))
    # Lines without a status are not about requests.
    done = ibis.ifelse(table.status.notnull(), done, ibis.null("int64"))
    return table.select(
        "line",
        "status",
        "method",
        "host",
        path=table.uri.re_extract(r"^([^?]*)", 1),
        arrival=done - ibis.coalesce(took, 0),
        response=took,
        fine=fraction != "",
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines(
        "requests in Caddy's JSON",
        r'^\{.*"request":\s*\{.*"duration":',
        "those at which requests were done; arrivals are earlier by the response time",
        "fractions: leave time_format at its default",
        "duration in seconds: leave duration_format at its default",
    ),
)
