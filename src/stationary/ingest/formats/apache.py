r"""Apache access log: combined or common, then ``%D``, the microseconds that a request took.

Apache logs the time at which a request was *received*. The usual ``%t`` has whole seconds only::

    LogFormat "%h %l %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] \"%r\" %>s %b \
    \"%{Referer}i\" \"%{User-agent}i\" %D" stationary

Response times in other units have a format string of their own, as in ``--format '%h ... %T'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_PATTERN = _lines.COMMON.replace("(?P<rest>.*)$", r"(?: (?P<took>\d+))?(?: .*)?$")


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.fields(backend, files, _PATTERN)
    return table.select(
        "line",
        "status",
        "method",
        "path",
        arrival=_lines.stamp(table.clock, table.fraction, table.zone),
        response=_lines.micros(table.took, 1e-6),
        fine=table.fraction != "",
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines(
        "Apache combined",
        _lines.COMMON.replace("(?P<rest>.*)$", r" \d+(?: .*)?$"),
        "those at which requests came",
        "%{usec_frac}t to the LogFormat, as in docs/prometheus.md",
        "%D to the LogFormat",
    ),
)
