"""Windows of logs that fit into memory; `stationary.ingest.events` makes those of larger ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stationary._support.arguments import explained
from stationary.data.latency import bucket_names
from stationary.data.numbers import as_duration
from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.ingest.requests import Calibration, RequestLog, Sizes, calibrate

if TYPE_CHECKING:
    import pandas as pd

_ENOUGH_GAPS = 50
"""Gaps between replies from which a window gets a service time of its own."""


@dataclass(frozen=True, eq=False)
class LogWindows:
    """Windows of a log.

    Attributes
    ----------
    windows : Windows
        Counts by the paper's formula, sizes ``0..capacity``; windows without requests left out.
    counted : Windows
        The same by counting the requests in the server.
    table : DataFrame
        One row per window: ``load, sent, answered, late, unanswered, service_us, full_at``, then
        ``Q=0``, ... by the formula, ``T=0``, ... by counting, and ``rt_...`` response times.
    calibration : Calibration
        What the formula used, over all windows.
    """

    windows: Windows
    counted: Windows
    table: pd.DataFrame
    calibration: Calibration


@explained
def windows_from_logs(
    logs: Iterable[RequestLog],
    duration: float,
    capacity: int,
    late: float = np.inf,
    service: float | None = None,
    edges: Sequence[float] = (),
) -> LogWindows:
    """Turn logs, one per window, into windows of counts.

    Parameters
    ----------
    logs : iterable of RequestLog
        The requests of each window: `RequestLog.cut` makes them from one long log.
    duration : float
        Length of every window, in the unit of the times (seconds, for ``service_us`` to be true).
    capacity : int
        State ``K`` of a full system: requests without an answer are counted there, and answered
        ones at most in ``K - 1``.
    late : float
        Response time above which an answer is late.
    service : float, optional
        Mean service time, for the formula; by default each window's own, where it has enough busy
        periods, and that of all windows otherwise.
    edges : sequence of float
        Upper ends of the bins of response times; none by default.

    Examples
    --------
    >>> log = RequestLog([0.0, 0.1, 0.2, 0.9, 1.1], [0.25, 0.4, float("nan"), 0.25, 0.25])
    >>> made = windows_from_logs(log.cut(1.0), duration=1.0, capacity=2)
    >>> made.counted
    Windows(1 windows, load 4..4, categories 0, 1, 2, 4 counts, sampling=arrival, duration=1)
    >>> made.table[["load", "sent", "unanswered", "T=0", "T=1", "T=2"]].to_numpy().tolist()
    [[4.0, 4.0, 1.0, 2.0, 1.0, 1.0]]
    """
    import pandas as pd

    logs = list(logs)
    duration = as_duration(duration)
    if not isinstance(capacity, int | np.integer) or capacity < 1:
        raise InputError(f"capacity must be a whole number, 1 or more; got {capacity!r}")
    if not late > 0:
        raise InputError(f"late must be a positive response time; got {late!r}")
    if not any(len(log) for log in logs):
        raise InputError("there are no requests in the log: record longer, or at a higher rate")
    overall = calibrate(logs, service)
    rows = []
    for log in logs:
        own = overall
        if service is None and len(log.service_gaps) >= _ENOUGH_GAPS:
            own = Calibration(overall.propagation, float(log.service_gaps.mean()))
        in_server, answered = log.in_server(overall.propagation), log.answered
        full, responses = in_server[~answered], log.response[answered]
        row = {
            "load": len(log) / duration,
            "sent": len(log),
            "answered": len(responses),
            "late": int((responses > late).sum()),
            "unanswered": len(full),
            "service_us": own.service * 1e6,
            "full_at": float(full.mean()) if len(full) else np.nan,
        }
        for letter, sizes in (("Q", log.estimated(own)), ("T", in_server)):
            states = np.where(answered, np.minimum(sizes, capacity - 1), capacity)
            row |= _named(letter + "={}", range(capacity + 1), states)
        if len(edges):
            buckets = bucket_names([*edges, np.inf])
            row |= _named("{}", buckets, np.searchsorted(edges, responses))
        rows.append(row)
    table = pd.DataFrame(rows)
    kept = table[table["sent"] > 0]
    formula, counted = (
        Windows(
            kept["load"].to_numpy(),
            kept[[f"{letter}={k}" for k in range(capacity + 1)]].to_numpy(),
            range(capacity + 1),
            Sampling.ARRIVAL,
            duration=duration,
        )
        for letter in "QT"
    )
    return LogWindows(formula, counted, table, overall)


def _named(pattern: str, names: Sequence[Any], values: Sizes) -> dict[str, int]:
    """Count how often each position occurs; the keys are the names of the positions."""
    counts = np.bincount(values, minlength=len(names))
    return {pattern.format(name): int(n) for name, n in zip(names, counts, strict=True)}
