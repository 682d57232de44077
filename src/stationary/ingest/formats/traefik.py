"""Traefik's access log with ``format: json``: one object per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_PATHS = {
    "start": "$.StartUTC",
    "took": "$.Duration",
    "status": "$.DownstreamStatus",
    "method": "$.RequestMethod",
    "host": "$.RequestHost",
    "uri": "$.RequestPath",
    "service": "$.ServiceName",
}


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.members(backend, files, _PATHS)
    table = table.mutate(
        clock=table.start.re_extract(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", 1),
        fraction=table.start.re_extract(r"(\.\d+)", 1),
    )
    return table.select(
        "line",
        "status",
        "method",
        "host",
        "service",
        path=table.uri.re_extract(r"^([^?]*)", 1),
        arrival=_lines.iso(table.clock, table.fraction),
        response=_lines.micros(table.took, 1e-9),
        fine=table.fraction != "",
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines(
        "requests in Traefik's JSON",
        r'^\{.*"(?:DownstreamStatus|StartUTC)":',
        "those at which requests came",
        add_response="Duration to the fields of the accessLog",
    ),
)
