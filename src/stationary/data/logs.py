"""Events to windows: counts of the queue sizes that the requests of a log found.

Any log with arrival and response times will do; `stationary.data.requests` says how it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stationary.data.checks import as_duration
from stationary.data.requests import Calibration, RequestLog, Sizes, Times, calibrate
from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_ENOUGH_GAPS = 50
"""Gaps between replies that give a window a service time of its own."""


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
        A row a window: ``load, sent, answered, late, unanswered, service_us, full_at``, then
        ``Q=0``, ... by the formula, ``T=0``, ... by counting, and ``rt_...`` response times.
    calibration : Calibration
        What the formula used, over all windows.
    """

    windows: Windows
    counted: Windows
    table: pd.DataFrame
    calibration: Calibration


def windows_from_logs(
    logs: Iterable[RequestLog],
    duration: float,
    capacity: int,
    late: float = np.inf,
    service: float | None = None,
    edges: Sequence[float] = (),
) -> LogWindows:
    """Turn logs, one a window, into windows of counts.

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
    whole = calibrate(logs, service)
    rows = []
    for log in logs:
        own = whole
        if service is None and len(log.service_gaps) >= _ENOUGH_GAPS:
            own = Calibration(whole.propagation, float(log.service_gaps.mean()))
        found = log.found_at(whole.propagation)
        rows.append(
            {
                **_outcomes(log, found, duration, late, own),
                **_counts("Q", log.estimated(own), log.answered, capacity),
                **_counts("T", found, log.answered, capacity),
                **_histogram(log.response[log.answered], edges),
            }
        )
    table = pd.DataFrame(rows)
    return LogWindows(
        _as_windows(table, "Q", capacity, duration),
        _as_windows(table, "T", capacity, duration),
        table,
        whole,
    )


def _outcomes(
    log: RequestLog, found: Sizes, duration: float, late: float, own: Calibration
) -> dict[str, float]:
    answered = log.answered
    full = found[~answered]
    return {
        "load": len(log) / duration,
        "sent": len(log),
        "answered": int(answered.sum()),
        "late": int((log.response[answered] > late).sum()),
        "unanswered": int((~answered).sum()),
        "service_us": own.service * 1e6,
        "full_at": float(full.mean()) if len(full) else np.nan,
    }


def _counts(
    letter: str, sizes: Sizes, answered: NDArray[np.bool_], capacity: int
) -> dict[str, int]:
    state = np.where(answered, np.minimum(sizes, capacity - 1), capacity)
    counts = np.bincount(state, minlength=capacity + 1)
    return {f"{letter}={k}": int(count) for k, count in enumerate(counts)}


def _histogram(responses: Times, edges: Sequence[float]) -> dict[str, int]:
    if not len(edges):
        return {}
    counts = np.bincount(np.searchsorted(edges, responses), minlength=len(edges) + 1)
    names = [f"rt_{edge * 1e3:g}ms" for edge in edges]
    return dict(zip([*names, "rt_more"], map(int, counts), strict=True))


def _as_windows(table: pd.DataFrame, letter: str, capacity: int, duration: float) -> Windows:
    kept = table[table["sent"] > 0]
    counts = kept[[f"{letter}={k}" for k in range(capacity + 1)]].to_numpy()
    return Windows(
        kept["load"].to_numpy(), counts, range(capacity + 1), Sampling.ARRIVAL, duration=duration
    )
