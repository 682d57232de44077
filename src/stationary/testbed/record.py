"""The recording: window after window against one server, and the table that is made of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stationary.errors import ProgramError
from stationary.ingest.logs import LogWindows, windows_from_logs
from stationary.ingest.requests import RequestLog
from stationary.testbed.buffers import Buffer, best_buffer
from stationary.testbed.kernel import receive_errors, socket_drops
from stationary.testbed.native import Native
from stationary.testbed.server import kamailio
from stationary.testbed.settings import Settings
from stationary.testbed.source import Source

_EDGES_MS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 20)
"""Bins of response times."""

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


@dataclass(frozen=True, eq=False)
class Trace:
    """All requests of one window, and what the kernel dropped meanwhile.

    Attributes
    ----------
    rate : float
        Requests per second that were asked for.
    seconds : float
        Length of the window.
    arrival, response : array [N]
        Seconds from the first request, and until the answer (NaN without one).
    drops_socket, drops_snmp : int
        Datagrams lost for want of buffer: of the server's socket, and of all sockets.
    stalled : int
        Signs that the source was held up.
    """

    rate: float
    seconds: float
    arrival: NDArray[np.float64]
    response: NDArray[np.float64]
    drops_socket: int
    drops_snmp: int
    stalled: int

    @property
    def unanswered(self) -> int:
        """Requests without an answer."""
        return int(np.isnan(self.response).sum())


def record(
    rates: Iterable[float],
    settings: Settings | None = None,
    source: Source | None = None,
    buffer: Buffer | None = None,
) -> Generator[Trace, None, None]:
    """Record a window at each rate; yields each when it is done.

    The server runs from the first window until the iterator is used up or closed, so close it
    whatever happens: ``with contextlib.closing(record(...)) as traces``.

    Parameters
    ----------
    rates : iterable of float
        Offered rates, requests per second.
    settings : Settings, optional
        Of server and arrivals.
    source : Source, optional
        Who sends; `Native` by default.
    buffer : Buffer, optional
        How the server's queue is limited; the best way there is by default.
    """
    settings = Settings() if settings is None else settings
    source = Native() if source is None else source
    buffer = best_buffer() if buffer is None else buffer
    with _folder() as folder, kamailio(settings, buffer, folder) as server:
        for number, rate in enumerate(rates):
            before = socket_drops(server.port), receive_errors()
            sent = source.window(server, float(rate), settings, number, folder)
            after = socket_drops(server.port), receive_errors()
            yield Trace(
                float(rate),
                settings.seconds,
                sent.arrival,
                sent.response,
                after[0] - before[0],
                after[1] - before[1],
                sent.stalled,
            )


def tabulate(
    traces: Iterable[Trace], queue: int, late: float = 0.010, service: float | None = None
) -> LogWindows:
    """Turn traces into windows: the same for a fresh recording and for one that is replayed.

    Parameters
    ----------
    traces : iterable of Trace
        The windows, all of one length.
    queue : int
        State of a full system.
    late : float
        Seconds after which an answer is late.
    service : float, optional
        Mean service time in seconds, for the paper's formula; by default found in the traces.
    """
    traces = list(traces)
    if not traces:
        raise ProgramError("not one window was recorded; record at least one")
    made = windows_from_logs(
        [RequestLog(trace.arrival, trace.response) for trace in traces],
        duration=traces[0].seconds,
        capacity=queue,
        late=late,
        service=service,
        edges=[edge / 1e3 for edge in _EDGES_MS],
    )
    at = made.table.columns.get_loc("service_us")
    for name in ("drops_socket", "drops_snmp", "stalled"):
        made.table.insert(at, name, [getattr(trace, name) for trace in traces])
        at += 1
    made.table["service_us"] = made.table["service_us"].round(1)
    made.table["full_at"] = made.table["full_at"].round(2)
    return made


@contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for the files of a run, in memory where that is possible: disks stall."""
    memory = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="stationary-testbed-", dir=memory) as name:
        yield Path(name)
