r"""One pass over requests in order of arrival: states, latencies, service times, losses.

A request that arrives at ``A`` and is answered at ``D`` is in the system in between. What an
arriving request finds are those that arrived before and have not left. Only requests in flight are
kept, so that the memory does not grow with the log. Departures come before arrivals of the same
instant; of several arrivals of the same instant those that take no time come first, because not
every engine knows the order of rows in a file.

Service times are those of `stationary.data.service_times`: count, sum and sum of squares per window
of arrival, number of servers, idle or not, and level.

Logs are often written in order of completion. A buffer as long as the longest response puts them in
order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stationary.ingest import _kernels as kernels

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]

EDGES = np.array(
    [round(step * 10.0**power, 9) for power in range(-6, 3) for step in
     (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)] + [1000.0]
)  # fmt: skip
"""Upper ends of latency buckets, in seconds: preferred numbers, ten per decade."""

SERVERS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Numbers of servers for which service times are written where none is named."""

LEVELS, SUBSLOTS, FINE, FINEST = kernels.LEVELS, kernels.SUBSLOTS, kernels.FINE, kernels.FINEST
level_column = kernels.level_column

_MOST_WAITING = 2**22
"""Rows that the buffer holds; a log that needs more is sorted first."""


class OutOfOrderError(Exception):
    """Rows came later than the buffer waits for them."""


class Requests(NamedTuple):
    """Some rows: times in seconds, NaN without an answer, and which requests were lost."""

    arrival: Reals
    departure: Reals
    response: Reals
    lost: NDArray[np.bool_]


@dataclass(frozen=True)
class Swept:
    """What a sweep over requests found, one row per entry that is not zero."""

    # window, half, level, sent, lost, samples: arrivals that found this number in the system, the
    # lost ones among them, and samples, by arrivals or at regular times.
    levels: Whole
    # window, bucket, answered.
    latency: Whole = field(default_factory=lambda: np.empty((0, 3), dtype=np.int64))
    # window, column, count, sum, sum of squares. For each number of servers there are `LEVELS`
    # columns of requests that found an idle server, then as many of those that waited.
    services: Reals = field(default_factory=lambda: np.empty((0, 5)))
    # window, sum and sum of squares of the gaps between arrivals, arrivals in each part.
    windows: Reals = field(default_factory=lambda: np.empty((0, 3 + kernels.SUBSLOTS)))
    servers: tuple[int, ...] = ()
    highest: int = 0  # most requests in the system at once
    shortest: float | None = None  # 0.1 % quantile of responses that found an empty system
    # Share of negative service times among requests that waited, for each number of servers.
    sharing: dict[int, float] = field(default_factory=dict)


def in_order(batches: Iterable[Requests], longest: float) -> Iterator[Requests]:
    """Yield rows in order of arrival, holding back those that a later row may precede.

    ``longest`` is how much earlier than an arrival before it a row may have arrived: the longest
    response, in a log in order of completion.
    """
    waiting: list[Requests] = []
    released = -np.inf
    for batch in batches:
        waiting.append(batch)
        rows = Requests._make(map(np.concatenate, zip(*waiting, strict=True)))
        steps, later = np.diff(rows.arrival), np.diff(rows.departure)
        if ((steps < 0) | ((steps == 0) & (later < 0))).any():
            order = np.lexsort((rows.departure, rows.arrival))
            rows = Requests._make(column[order] for column in rows)
        if not len(rows.arrival):
            continue
        if rows.arrival[0] < released:
            raise OutOfOrderError
        newest = rows.arrival[-1]
        ready = int(np.searchsorted(rows.arrival, newest - longest))
        ready = max(ready, len(rows.arrival) - _MOST_WAITING)
        if ready:
            released = rows.arrival[ready - 1]
            yield Requests._make(column[:ready] for column in rows)
        waiting = [Requests._make(column[ready:] for column in rows)]
    yield from waiting


class Sweep:
    """A sweep that takes rows in, sorted by arrival and departure, a batch at a time.

    There are ``windows`` of one length, from an origin on; what arrives later is in the system, but
    in no window. ``samples`` are regular ones in each; 0 where arriving requests are the samples.
    ``servers`` are the numbers of servers for service times.
    """

    def __init__(
        self,
        origin: float,
        length: float,
        windows: int,
        samples: int = 0,
        servers: Sequence[int] = SERVERS,
    ) -> None:
        self.place = np.array([origin, length, windows, samples])
        self.servers = np.array(sorted({*servers}), dtype=np.int64)
        self.ints = np.zeros(kernels.INTEGERS - 1 + len(self.servers), dtype=np.int64)
        self.ints[[kernels.WINDOW, kernels.LAST_WINDOW]] = -1
        self.reals = np.full(kernels.REALS, -np.inf)
        self.latency = np.zeros(len(EDGES) + 1, dtype=np.int64)
        self.gaps = np.zeros(2 + kernels.SUBSLOTS)
        self.shortest = np.zeros(40 * kernels.FINE, dtype=np.int64)  # up to a thousand seconds
        self.heap = np.empty(1024)
        self.ring, self.ring_window = np.empty(1024), np.empty(1024, dtype=np.int64)
        self.levels = np.zeros((2, 1024, 3), dtype=np.int64)
        self.service = np.zeros((4, len(self.servers), 2 * LEVELS, 3))
        self.outputs = kernels.outputs()

    def add(self, rows: Requests) -> None:
        """Take rows in."""
        begin = 0
        while begin < len(rows.arrival):
            rings = self.heap, self.ring, self.ring_window, self.levels, self.service
            state = self.ints, self.reals, self.latency, self.gaps, self.shortest, *rings
            begin = kernels.advance(
                begin, tuple(rows), self.place, self.servers, EDGES, state, self.outputs
            )
            self._make_room()

    def _make_room(self) -> None:
        """Double the rings that are full; either half of the larger one has all that was there."""
        if self.ints[kernels.ARRIVED] - self.ints[kernels.LEFT] + 2 > len(self.ring):
            self.heap, self.ring = np.tile(self.heap, 2), np.tile(self.ring, 2)
            self.ring_window = np.tile(self.ring_window, 2)
            self.levels = np.concatenate([self.levels, np.zeros_like(self.levels)], axis=1)
        slots, oldest = len(self.service), self.ints[kernels.OLDEST]
        if self.ints[kernels.WINDOW] - oldest >= slots:
            self.service = np.concatenate([self.service, self.service])
            self.service[np.arange(oldest + slots, oldest + 2 * slots) & (2 * slots - 1)] = 0.0

    def result(self) -> Swept:
        """Let all requests in flight go, and return what was found."""
        never = np.array([np.inf])
        self.add(Requests(never, never, never, np.array([True])))
        if 0 <= self.ints[kernels.WINDOW] < self.place[2]:
            samples = int(self.place[3])
            kernels.close(self.ints, self.levels, self.latency, self.gaps, self.outputs, samples)
        last = self.ints[kernels.LAST_WINDOW]
        kernels.close_services(last + 1, self.ints, self.service, self.outputs)
        levels, latency, services, windows = kernels.filled(self.outputs, self.ints)
        servers = tuple(self.servers.tolist())
        return Swept(
            levels.astype(np.int64),
            latency.astype(np.int64),
            services[: np.searchsorted(services[:, 0], self.place[2])],
            windows,
            servers,
            int(self.ints[kernels.HIGHEST]),
            low_quantile(self.shortest),
            negative_shares(self.ints[kernels.NEGATIVE :].tolist(), services, servers),
        )


def negative_shares(
    negative: Sequence[int], services: Reals, servers: Sequence[int]
) -> dict[int, float]:
    """Return the shares of negative service times, less twice their standard errors."""
    blocks = services[:, 1] // LEVELS
    sure = np.maximum(np.array(negative) - 2 * np.sqrt(negative), 0.0)
    return {
        m: float(sure[k] / services[blocks == 2 * k + 1, 2].sum())
        for k, m in enumerate(servers)
        if sure[k] > 0
    }


def low_quantile(histogram: Whole, share: float = 0.001) -> float | None:
    """Return the lower end of the bin in which a quantile of response times lies."""
    total = int(histogram.sum())
    if not total:
        return None
    at = int(np.searchsorted(np.cumsum(histogram), share * total))
    return float(2.0 ** (at / FINE + FINEST)) if at else 0.0


def lowest_level(column: int) -> int:
    """Return the lowest level of a column of levels.

    Examples
    --------
    >>> [lowest_level(column) for column in (1, 15, 16, 17, 18, 19, 20)]
    [1, 15, 16, 24, 32, 48, 64]
    """
    octave, later = divmod(max(column - 16, 0), 2)
    return column if column < 16 else (24 if later else 16) << octave
