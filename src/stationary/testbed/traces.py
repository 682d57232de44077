"""Raw traces on disk: one row per request, Parquet or CSV by the ending of the file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stationary._support.files import replacing
from stationary.data.tables import open_table
from stationary.errors import InputError
from stationary.testbed.record import Trace

_WINDOW = ("rate", "seconds", "drops_socket", "drops_snmp", "stalled")
_COLUMNS = ("window", *_WINDOW, "arrival", "response")
_UNANSWERED = -1.0
"""Response time in the file of a request without an answer."""


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
    frame = pd.DataFrame(columns)
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
            f"{path}: this is no trace of the testbed: there is no column {missing[0]!r}; "
            f"`stationary testbed record --raw FILE` writes one"
        )
    values = table.numbers(_COLUMNS)
    if not len(values):
        raise InputError(f"{path}: there are no requests in the file")
    edges = np.flatnonzero(np.diff(values[:, 0], prepend=np.nan, append=np.nan))
    traces = []
    for i, j in itertools.pairwise(edges.tolist()):
        _, rate, seconds, socket, snmp, stalled = values[i, :6]
        response = values[i:j, 7]
        traces.append(
            Trace(
                rate,
                seconds,
                values[i:j, 6],
                np.where(response < 0, np.nan, response),
                int(socket),
                int(snmp),
                int(stalled),
            )
        )
    return traces
