"""Logs of requests in memory: the number in the system at each arrival, found in two ways.

- *By counting* (`RequestLog.in_server`): earlier requests whose answer was still to come. Exact
  where the log holds every request. The sender also counts what is on the way; with the propagation
  time taken off every response, only requests in the server are left.
- *By the paper's formula* (`RequestLog.estimated`), for a log that holds some requests only. With
  ``response = propagation + queueing + processing`` and ``s`` the service time,

      size = queueing / s = (response - propagation) / s - 1, rounded.

  Varying service times blur it: one long service looks like two short ones.

`calibrate` finds both times of the formula in the log itself. While a single server is busy,
replies are one service time apart; and the response of a request that found an empty system takes
``propagation + service``. The propagation time is the difference of a low percentile of the two:
low, because disturbances only add time. A request without an answer found the system full.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stationary._support.arguments import explained
from stationary.data.latency import bucket_names
from stationary.data.numbers import as_duration, as_table
from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.errors import DataWarning, InputError

if TYPE_CHECKING:
    import pandas as pd

Times = NDArray[np.float64]
Sizes = NDArray[np.int64]

_MOST_WINDOWS = 1_000_000
_LOW = 10.0
"""Percentile at which response times in an empty system are compared with service times."""
_ENOUGH_GAPS = 50
"""Gaps between replies from which a window gets a service time of its own."""


@dataclass(frozen=True)
class Calibration:
    """The two times of the paper's formula, in the unit of the log.

    Attributes
    ----------
    propagation : float
        Response time less service time of a request that finds an empty system.
    service : float
        Mean service time.
    """

    propagation: float
    service: float

    def __post_init__(self) -> None:
        if not 0 <= self.propagation < np.inf:
            raise InputError(f"propagation must be zero or more; got {self.propagation!r}")
        if not 0 < self.service < np.inf:
            raise InputError(f"service must be a positive time; got {self.service!r}")


@explained
class RequestLog:
    """Requests of one continuous stretch of time, in order of arrival.

    Parameters
    ----------
    arrival : array_like [N]
        When each request arrived (or was sent), finite.
    response : array_like [N]
        How long its answer took; NaN for a request that was never answered.
    in_flight : array_like, optional
        When answers came to earlier requests that had none yet at the first arrival.

    Examples
    --------
    Three requests, 0.1 s apart, each served for 0.25 s; the third is lost:

    >>> log = RequestLog(arrival=[0.0, 0.1, 0.2], response=[0.25, 0.4, float("nan")])
    >>> log.in_system
    array([0, 1, 2])
    """

    def __init__(self, arrival: Any, response: Any, in_flight: Any = ()) -> None:
        arrival = as_table(arrival, "arrival").numpy()
        response = as_table(response, "response").numpy()
        if arrival.ndim != 1 or arrival.shape != response.shape:
            raise InputError(
                f"arrival and response must be lists of the same length; got shapes "
                f"{arrival.shape} and {response.shape}"
            )
        wrong = (response < 0) | np.isinf(response)
        for name, values, bad, expected in (
            ("arrival", arrival, ~np.isfinite(arrival), "finite"),
            ("response", response, wrong, "zero or more, or NaN for a request without an answer"),
        ):
            if bad.any():
                at = int(np.argmax(bad))
                raise InputError(
                    f"request {at}: the {name} time is {values[at]}; it must be {expected}"
                )
        order = np.argsort(arrival, kind="stable")
        self.arrival: Times = arrival[order]
        self.response: Times = response[order]
        self.in_flight: Times = as_table(in_flight, "in_flight").numpy()
        if self.in_flight.ndim != 1 or not np.isfinite(self.in_flight).all():
            raise InputError(f"in_flight must be a list of finite times; got {in_flight!r:.80}")

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which requests got an answer, however late."""
        return ~np.isnan(self.response)

    @cached_property
    def in_system(self) -> Sizes:
        """Requests in the system at each arrival: earlier ones whose answer was still to come."""
        return self.in_server(0.0)

    def in_server(self, propagation: float) -> Sizes:
        """Requests in a server at each arrival, with ``propagation`` the time there and back."""
        departure = self.arrival + (self.response - propagation)
        # Not ``response > propagation``: a stay lost in rounding would end before it began.
        stays = departure > self.arrival
        arrived: Sizes = np.asarray(np.cumsum(stays) - stays + len(self.in_flight))
        departures = np.sort(np.concatenate([self.in_flight - propagation, departure[stays]]))
        return arrived - np.searchsorted(departures, self.arrival, side="right")

    @cached_property
    def service_gaps(self) -> Times:
        """Gaps between replies during which a single server was busy: service times."""
        arrivals = self.arrival[self.answered]
        departures = np.sort(
            np.concatenate([self.in_flight, arrivals + self.response[self.answered]])
        )
        arrived = len(self.in_flight) + np.searchsorted(arrivals, departures[:-1], side="right")
        left = arrived - np.arange(1, len(departures))
        return np.diff(departures)[left > 0]

    def estimated(self, calibration: Calibration) -> Sizes:
        """Requests in the system by the paper's formula; -1 for a request without an answer."""
        waiting = (self.response - calibration.propagation) / calibration.service - 1
        sizes = np.maximum(np.rint(waiting), 0)
        return np.where(self.answered, sizes, -1).astype(np.int64)

    def cut(self, duration: float) -> list[RequestLog]:
        """Cut into whole windows from the first arrival on, each with its requests in flight."""
        duration = as_duration(duration)
        if not len(self):
            return []
        window = np.floor((self.arrival - self.arrival[0]) / duration)
        # The log ends with its last arrival, somewhere inside a window that is not whole.
        whole = int(window[-1])
        if whole > _MOST_WINDOWS:
            raise InputError(
                f"windows of {duration:g} would be {whole} from the first arrival to the last, "
                f"more than {_MOST_WINDOWS}; are the times and duration in the same unit?"
            )
        edges = np.searchsorted(window, np.arange(whole + 1))
        departures = self.arrival + self.response
        parts: list[RequestLog] = []
        pending = self.in_flight
        for i, j in itertools.pairwise(edges.tolist()):
            begin = self.arrival[0] + len(parts) * duration
            pending = pending[pending > begin]
            parts.append(RequestLog(self.arrival[i:j], self.response[i:j], pending))
            pending = np.concatenate([pending, departures[i:j][self.answered[i:j]]])
        return parts


@explained
def calibrate(logs: Iterable[RequestLog], service: float | None = None) -> Calibration:
    """Find the propagation and service times of a single server in its own logs.

    Parameters
    ----------
    logs : iterable of RequestLog
        Stretches of time, some of them lightly loaded.
    service : float, optional
        The mean service time, if known; otherwise the mean gap between replies in busy periods.
    """
    logs = list(logs)
    gaps = np.concatenate([[], *(log.service_gaps for log in logs)])
    found_nobody = (log.response[log.answered & (log.in_system == 0)] for log in logs)
    alone = np.concatenate([[], *found_nobody])
    if not len(alone):
        raise InputError("no request in the log found the system empty and was answered")
    low = float(np.percentile(alone, _LOW))
    if len(gaps):
        propagation = max(0.0, low - float(np.percentile(gaps, _LOW)))
        return Calibration(propagation, float(gaps.mean()) if service is None else service)
    if service is None:
        warnings.warn(
            f"no request in the log waited for another, so the service time is taken to be all "
            f"of a short response time, {low:.3g}; pass service= if you know it",
            DataWarning,
            stacklevel=3,
        )
        service = low
    return Calibration(max(0.0, low - service), service)


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
    import pandas as pd  # here, because a simulated log does without it

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
    loads, observe = kept["load"].to_numpy(), range(capacity + 1)
    formula, counted = (
        Windows(loads, counts.to_numpy(), observe, Sampling.ARRIVAL, duration=duration)
        for counts in (kept.filter(like="Q="), kept.filter(like="T="))
    )
    return LogWindows(formula, counted, table, overall)


def _named(pattern: str, names: Sequence[Any], values: Sizes) -> dict[str, int]:
    """Count how often each position occurs; the keys are the names of the positions."""
    counts = np.bincount(values, minlength=len(names))
    return {pattern.format(name): int(n) for name, n in zip(names, counts, strict=True)}
