"""HAProxy's HTTP log (``option httplog``), with the prefix of syslog or without.

Its time is that at which the first byte of a request came, in the zone of the server, which the
line does not name. ``TR/Tw/Tc/Tr/Ta`` are milliseconds: to receive the request, in queues, to
connect, until the answer began, and in all. A request is in the system from when it was received
(``TR``) to the end (``Ta``). A request that reached no server (``<NOSRV>``) and got an error was
denied, and is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis

from stationary.ingest.formats import _lines
from stationary.ingest.formats._base import Format, LogLines
from stationary.terms.spans import Unit

_PATTERN = (
    rf"(?:^|\]: |: )\S+:\d+ \[{_lines.STAMP}\] (?P<frontend>\S+) "
    r"(?P<backend>[^ /]+)/(?P<server>\S+) (?P<received>-?\d+)/(?P<queued>-?\d+)/-?\d+/-?\d+/"
    r"\+?(?P<took>-?\d+) (?P<status>-?\d+) \+?\d+ \S+ \S+ (?P<termination>\S{4}) "
    r"\d+/\d+/\d+/\d+/\+?\d+ (?P<server_queue>\d+)/(?P<backend_queue>\d+) "
    rf"(?:\{{[^}}]*\}} )*{_lines.REQUEST}"
)


def _read(backend: Any, files: Sequence[str]) -> Any:
    table = _lines.fields(backend, files, _PATTERN)
    received, took = _lines.micros(table.received, 1e-3), _lines.micros(table.took, 1e-3)
    received = ibis.greatest(received, 0)
    error = ibis.coalesce(table.status.nullif("").try_cast("int64"), 0)
    denied = table.server.contains("<NOSRV>") & ((error >= 400) | (error < 0))
    inside = ibis.greatest(took - received, 0)
    return table.select(
        "line",
        "status",
        "method",
        "path",
        "frontend",
        "backend",
        "server",
        "termination",
        denied=denied,
        queued=_lines.micros(table.queued, 1e-3),
        arrival=_lines.stamp(table.clock, table.fraction) + received,
        response=ibis.ifelse(denied | (took < 0), ibis.null("int64"), inside),
        fine=table.fraction != "",
    )


FORMAT = Format(
    _read,
    Unit.US,
    lines=LogLines(
        "HAProxy's httplog",
        _PATTERN,
        "those at which requests came, in the zone of the server, taken as UTC",
        "%tr to the log-format, as option httplog has it",
        "%TR/%Tw/%Tc/%Tr/%Ta to the log-format, as option httplog has them",
    ),
)
