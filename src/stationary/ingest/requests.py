r"""Logs of requests in memory: the number in the system at each arrival.

A request that arrives at ``a`` and is answered after ``r`` was in the system from ``a`` to
``a + r``. Two ways lead from such a log to the number of requests that an arriving one found:

- *by counting* (`RequestLog.in_server`): earlier requests whose answer was still to come. Exact
  where the log holds every request, for any number of servers and any order of service. The sender
  also counts requests and answers that are on the way; with the propagation time taken off every
  response, only those in the server are left.
- *by the paper's formula* (`RequestLog.estimated`), for a log that holds some requests only. With
  ``response = propagation + queueing + processing`` and ``s`` the service time,

      size = queueing / s = (response - propagation) / s - 1, rounded.

  Varying service times blur it: one long service looks like two short ones.

`calibrate` finds both times of the formula in the log itself. While a single server is busy,
replies are one service time apart, so their gaps have the distribution of the service time ``S``;
and the response of a request that found an empty system takes ``propagation + S``. The propagation
time is the difference of a low percentile of the two: low, because disturbances only add time.

A request without an answer is one that found the system full. `stationary.ingest.occupancy` counts
in the same way by a query, for logs larger than memory.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary._support.arguments import explained
from stationary.data.numbers import as_duration, as_table
from stationary.errors import DataWarning, InputError

Times = NDArray[np.float64]
Sizes = NDArray[np.int64]

_MOST_WINDOWS = 1_000_000


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
        _refuse("arrival", arrival, ~np.isfinite(arrival), "finite")
        wrong = (response < 0) | np.isinf(response)
        _refuse("response", response, wrong, "zero or more, or NaN for a request without an answer")
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


def _refuse(name: str, values: Times, wrong: NDArray[np.bool_], expected: str) -> None:
    """Raise an error that names the first request with a wrong time."""
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"request {at}: the {name} time is {values[at]}; it must be {expected}")


@explained
def calibrate(
    logs: Iterable[RequestLog], service: float | None = None, percentile: float = 10.0
) -> Calibration:
    """Find the propagation and service times of a single server in its own logs.

    Parameters
    ----------
    logs : iterable of RequestLog
        Stretches of time, some of them lightly loaded.
    service : float, optional
        The mean service time, if known; otherwise the mean gap between replies in busy periods.
    percentile : float
        Where response times in an empty system are compared with service times.
    """
    logs = list(logs)
    if not 0 <= percentile <= 100:
        raise InputError(f"percentile must lie in 0..100; got {percentile!r}")
    gaps = np.concatenate([np.empty(0), *(log.service_gaps for log in logs)])
    alone = np.concatenate(
        [np.empty(0), *(log.response[log.answered & (log.in_system == 0)] for log in logs)]
    )
    if not len(alone):
        raise InputError("no request in the log found the system empty and was answered")
    low = float(np.percentile(alone, percentile))
    if len(gaps):
        propagation = max(0.0, low - float(np.percentile(gaps, percentile)))
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
