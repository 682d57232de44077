"""HAProxy's HTTP log (``option httplog``), with the prefix of syslog or without.

Its time is that of the first byte of a request, in the zone of the server. ``TR/Tw/Tc/Tr/Ta`` are
milliseconds, and a request is in the system from ``TR``, when it was received, to the end, ``Ta``.
One that reached no server (``<NOSRV>``) and got an error was denied, and is lost.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from stationary.ingest.formats._base import Fields, LogLines
from stationary.ingest.formats._scan import NONE


def _adjust(found: Fields) -> None:
    """Find requests that were denied, and those that never ended."""
    status = pc.cast(found["status"](), "int64").to_numpy()
    nowhere = pc.equal(found["server"](), "<NOSRV>").to_numpy(zero_copy_only=False)
    found["denied"] = nowhere & ((status >= 400) | (status < 0))
    found["took"] = np.where(found["took"] < 0, NONE, found["took"])


FORMAT = LogLines(
    "HAProxy's httplog",
    (
        "{} [{clock}] {frontend} {backend}/{server} "
        "{received:ms}/{queued}/{:code}/{:code}/{took:ms} {status} {} {} {} {termination} "
        '{}/{}/{}/{}/{} {server_queue}/{backend_queue} {}"{request}"',
    ),
    times="those at which requests came, in the zone of the server, taken as UTC",
    add_fraction="%tr to the log-format, as option httplog has it",
    add_response="%TR/%Tw/%Tc/%Tr/%Ta to the log-format, as option httplog has them",
    adjust=_adjust,
)
