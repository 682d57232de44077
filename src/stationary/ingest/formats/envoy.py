"""Envoy access log: its default format, or Istio's, which adds three fields on the response.

The status of a request whose client went away before an answer is 0.
"""

from __future__ import annotations

from typing import Any

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format
from stationary.terms.spans import Unit

_PATTERN = (
    r"^\[(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d+)?Z\] "
    rf"{_lines.QUOTED} (\d+) \S+ (?:\S+ \S+ {_lines.QUOTED} )?\d+ \d+ (\d+|-) "
)


def _read(backend: Any, path: str) -> Any:
    table = _lines.fields(backend, path, _PATTERN, ("clock", "fraction", "status", "took"))
    table = table.mutate(
        arrival=_lines.moment(table.clock, table.fraction, "%Y-%m-%dT%H:%M:%S"),
        response=_lines.micros(table.took, 1e-3),
        fine=table.fraction != "",
    )
    return _lines.requests(
        table,
        path,
        "Envoy default",
        add_fraction="milliseconds to the format, as %START_TIME% has them",
        add_response="%DURATION% to the format, as the default has it",
    )


FORMAT = Format(_read, Unit.US, needs_duckdb=True)
