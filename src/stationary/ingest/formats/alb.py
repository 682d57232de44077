"""Access log of an AWS Application Load Balancer.

A line has the time at which the answer was made, and that at which the request came. In between it
was in the system, whatever the three processing times say; these are -1 where no target answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}"
_PATTERN = (
    rf"^(?:https?|h2|grpcs|wss?) (?P<done>{_TIME})(?P<done_fraction>\.\d+)?Z (?P<balancer>\S+) "
    r"\S+ (?P<target>\S+) -?[\d.]+ -?[\d.]+ -?[\d.]+ (?P<status>\d+|-) \S+ \d+ \d+ "
    r'"(?P<method>\S+) (?:\w+://[^/ ]+)?(?P<path>[^ ?"]*)(?:[^"\\]|\\.)*" '
    rf"{_lines.QUOTED} \S+ \S+ \S+ {_lines.QUOTED} {_lines.QUOTED} {_lines.QUOTED} \S+ "
    rf"(?P<clock>{_TIME})(?P<fraction>\.\d+)?Z"
)


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.fields(backend, files, _PATTERN)
    came = _lines.iso(table.clock, table.fraction)
    done = _lines.iso(table.done, table.done_fraction)
    return table.select(
        "line",
        "status",
        "method",
        "path",
        "target",
        arrival=came,
        response=done - came,
        fine=table.fraction != "",
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines("AWS ALB", _PATTERN, "those at which requests came"),
)
