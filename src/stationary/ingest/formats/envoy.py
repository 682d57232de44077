"""Envoy access log: its default format, or Istio's, which adds three fields on the response.

The status of a request whose client went away before an answer is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_PATTERN = (
    rf"^\[{_lines.ISO}\] {_lines.REQUEST} (?P<status>\d+) \S+ "
    rf"(?:\S+ \S+ {_lines.QUOTED} )?\d+ \d+ (?P<took>\d+|-) "
)


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.fields(backend, files, _PATTERN)
    return table.select(
        "line",
        "status",
        "method",
        "path",
        arrival=_lines.iso(table.clock, table.fraction, table.zone),
        response=_lines.micros(table.took, 1e-3),
        fine=table.fraction != "",
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines(
        "Envoy default",
        _PATTERN,
        "those at which requests came",
        "milliseconds to the format, as %START_TIME% has them",
        "%DURATION% to the format, as the default has it",
    ),
)
