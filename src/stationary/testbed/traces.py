"""Requests of Kamailio, window by window: to and from files, and as a table of windows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stationary._support.files import replacing
from stationary.data.tables import open_table
from stationary.errors import InputError, ProgramError
from stationary.ingest.requests import LogWindows, RequestLog, windows_from_logs

if TYPE_CHECKING:
    import pandas as pd

_WINDOW = ("rate", "seconds", "stalled", "drops_socket", "drops_snmp")
_COLUMNS = ("window", *_WINDOW, "arrival", "response")
_UNANSWERED = -1.0  # response time in the file of a request without an answer
_EDGES_MS = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 20)  # bins of response times


@dataclass(frozen=True, eq=False)
class Trace:
    """All requests of one window, and what the kernel dropped meanwhile."""

    rate: float  # requests per second that were asked for
    seconds: float  # length of the window
    arrival: NDArray[np.float64]  # seconds from the first request
    response: NDArray[np.float64]  # seconds until the answer, NaN without one
    stalled: int  # signs that the source was held up
    drops_socket: int  # datagrams for which the server's socket had no buffer
    drops_snmp: int  # the same of all sockets

    @property
    def unanswered(self) -> int:
        """Requests without an answer."""
        return int(np.isnan(self.response).sum())


def tabulate(
    traces: Iterable[Trace], queue: int, late: float = 0.010, service: float | None = None
) -> LogWindows:
    """Turn traces, all of one length, into windows; those of a recording or of a file.

    A full system is in the state ``queue``, and an answer is ``late`` after so many seconds. The
    paper's formula takes the mean ``service`` time, which is found in the traces by default.
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
    for name in ("stalled", "drops_snmp", "drops_socket"):  # each before the one that was put there
        made.table.insert(at, name, [getattr(trace, name) for trace in traces])
    made.table["service_us"] = made.table["service_us"].round(1)
    made.table["full_at"] = made.table["full_at"].round(2)
    return made


def check_trace_path(path: Path) -> None:
    """Raise an error for a file that no trace can be written to."""
    if not path.name.lower().endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(f"{path}: traces are written to .parquet, .csv or .csv.gz files")


def write_traces(traces: Sequence[Trace], path: str | os.PathLike[str]) -> None:
    """Write every request: its window, what is known of the window, arrival and response time.

    A request without an answer has response time -1. The file appears whole or not at all.
    """
    import pandas as pd

    path = Path(path)
    check_trace_path(path)
    counts = [len(trace.arrival) for trace in traces]
    columns = {"window": np.repeat(np.arange(len(traces)), counts)}
    for name in _WINDOW:
        columns[name] = np.repeat([getattr(trace, name) for trace in traces], counts)
    columns["arrival"] = np.round(np.concatenate([trace.arrival for trace in traces]), 9)
    response = np.concatenate([trace.response for trace in traces])
    columns["response"] = np.where(np.isnan(response), _UNANSWERED, np.round(response, 9))
    write_requests(pd.DataFrame(columns), path)


def write_requests(frame: pd.DataFrame, path: Path) -> None:
    """Write a table of requests as the ending of the file says, whole or not at all."""
    with replacing(path) as part:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(part, index=False)
        else:
            zipped = "gzip" if path.suffix.lower() == ".gz" else None
            frame.to_csv(part, index=False, compression=zipped)


def read_traces(path: str | os.PathLike[str]) -> list[Trace]:
    """Read what `write_traces` wrote; windows in which nothing was sent are not in the file."""
    table = open_table(path)
    missing = [name for name in _COLUMNS if name not in table.columns]
    if missing:
        raise InputError(
            f"{path}: this is no trace of Kamailio: there is no column {missing[0]!r}; `stationary "
            f"testbed record --raw FILE` writes one. Requests of gunicorn go to `stationary ingest`"
        )
    values = table.numbers(_COLUMNS)
    if not len(values):
        raise InputError(f"{path}: there are no requests in the file")
    edges = np.flatnonzero(np.diff(values[:, 0], prepend=np.nan, append=np.nan))
    traces = []
    for i, j in itertools.pairwise(edges.tolist()):
        _, rate, seconds, *counts = values[i, :6].tolist()
        response = np.where(values[i:j, 7] < 0, np.nan, values[i:j, 7])
        traces.append(Trace(rate, seconds, values[i:j, 6], response, *map(int, counts)))
    return traces
