"""Metrics to windows: what a Prometheus scraped, as counts of queue lengths under load.

Two kinds of metric tell queue lengths:

- a *gauge* of the requests in the system. Every scrape is a look by the clock, so a window counts
  how often each number was seen (``sampling="time"``);
- a *histogram* of queue lengths, whose buckets ``le`` become categories of states. A window counts
  what was observed between its ends, by whoever observed: arriving requests, as a rule.

A window goes from ``a``, exclusive, to ``b``, inclusive, because the value of an expression at
``t`` comes from scrapes up to ``t``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stationary.data.states import Sampling, as_sampling
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.ingest.buckets import bins, increases, sorted_buckets
from stationary.ingest.events import Progress
from stationary.ingest.prometheus_client import Array, Clock, Prometheus, Series
from stationary.ingest.result import Dropped, Ingested
from stationary.ingest.tally import check_cells
from stationary.terms.categories import Category

_ENOUGH = 0.75
"""Share of a window's looks that must have a load: a server that starts inside one has fewer."""

_MOST_LOOKS = 10_000_000
_MOST_STATES = 100_000


@dataclass(frozen=True)
class _Span:
    """Windows of equal length, one after the other, each of equally many looks."""

    start: int
    step: int
    looks: int
    windows: int

    def clock(self, with_start: bool = False) -> Clock:
        """Every look; ``with_start`` also the one at which the first window begins."""
        count = self.looks * self.windows
        if with_start:
            return Clock(self.start, self.step, count + 1)
        return Clock(self.start + self.step, self.step, count)


@dataclass(frozen=True, eq=False)
class _Counts:
    """Counts ``[windows, categories]``, what the categories are, and what was left out.

    ``dropped`` are numbers of windows by reason, ``notes`` tell of looks and observations.
    """

    counts: NDArray[np.int64]
    observe: list[Category]
    dropped: dict[str, int]
    notes: list[str]


def windows_from_prometheus(
    url: str,
    *,
    load: str,
    gauge: str | None = None,
    histogram: str | None = None,
    start: float,
    end: float,
    step: float,
    window: float,
    sampling: Sampling | str | None = None,
    capacity: int | None = None,
    most: int | None = None,
    timeout: float = 30.0,
    retries: int = 3,
    progress: Progress | None = None,
) -> Ingested:
    """Read windows from a Prometheus.

    Parameters
    ----------
    url : str
        Address of the Prometheus, as in ``http://127.0.0.1:9090`` or
        ``http://user:password@host:9090``; the password is in no message and no file.
    load : str
        Expression of the load per second, one series, as in
        ``sum(rate(http_requests_total[10s]))``; a window's load is its mean. Its range should be
        short against the window, because it reaches back over the window's beginning.
    gauge : str, optional
        Expression of the number of requests in the system, one series of whole numbers.
    histogram : str, optional
        Instead of ``gauge``: the buckets of a histogram of queue lengths, one series a bucket, as
        in ``sum by (le) (queue_length_bucket)``. Windows in which a counter fell, because the
        system was started anew, are left out.
    start, end : float
        The time to read, in seconds since 1970.
    step : float
        Seconds between looks: the scrape interval. Looks that find no scrape newer than the one
        before would count it twice, and are left out where Prometheus can tell.
    window : float
        Seconds of a window, a multiple of ``step``.
    sampling : Sampling or str, optional
        Who observed the histogram; arriving requests by default. A gauge is read by the clock.
    capacity : int, optional
        Most requests the system holds: gives the last bucket, ``+Inf``, its states, and those of
        a gauge above ``most`` a column. Without it they are not counted.
    most : int, optional
        Largest state of a gauge with a column of its own.
    timeout, retries
        As for `stationary.ingest.prometheus_client.Prometheus`.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    Ingested
        With ``duration=window``, so loads are per second. It counts what was left out; so are
        windows in which nothing arrived, because a load must be positive.
    """
    if (gauge is None) == (histogram is None):
        raise InputError("give one of gauge= and histogram=: the expression of the queue length")
    seen = as_sampling(sampling or (Sampling.TIME if gauge else Sampling.ARRIVAL))
    if gauge is not None and seen is not Sampling.TIME:
        raise InputError("a gauge is read by the clock: leave out sampling=, or say 'time'")
    if gauge is None and most is not None:
        raise InputError("most= (--most) is of a gauge: a histogram has the states of its buckets")
    span = _span(start, end, step, window)
    prometheus = Prometheus(url, timeout, retries)
    said = progress or (lambda _: None)
    said("reading the load")
    loads = _loads(prometheus, load, span)
    said("reading queue lengths")
    if gauge is not None:
        found = _count_gauge(prometheus, gauge, span, capacity, most)
    else:
        found = _count_histogram(prometheus, str(histogram), span, capacity)
    known, counted = np.isfinite(loads), found.counts.sum(1) > 0
    busy = known & (loads > 0)
    silent = int((busy & ~counted).sum()) - sum(found.dropped.values())
    reasons = {
        "load not known": int((~known).sum()),
        "load 0 or less": int((known & ~busy).sum()),
        **found.dropped,
        "no queue length seen": max(silent, 0),
    }
    dropped = tuple(Dropped(why, n, n * span.looks) for why, n in reasons.items() if n)
    kept = busy & counted
    if not kept.any():
        raise InputError(
            f"{prometheus.web.url}: no window is left; left out: "
            + ", ".join([*(f"{item.windows} ({item.why})" for item in dropped), *found.notes])
        )
    windows = Windows(
        loads[kept], found.counts[kept], found.observe, sampling=seen, duration=float(window)
    )
    rows = span.looks * span.windows
    return Ingested.of(windows, prometheus.web.url, rows, dropped, tuple(found.notes))


def _span(start: float, end: float, step: float, window: float) -> _Span:
    """Whole windows from start to end, once the four make sense."""
    for name, value in (("start", start), ("end", end), ("step", step), ("window", window)):
        if not math.isfinite(value):
            raise InputError(f"{name} must be a finite number of seconds; got {value!r}")
    pace, length = round(1000 * step), round(1000 * window)
    if pace < 1 or not math.isclose(pace, 1000 * step, rel_tol=1e-9):
        raise InputError(f"step must be a whole number of milliseconds; got {step!r} seconds")
    if length < pace or length % pace or not math.isclose(length, 1000 * window, rel_tol=1e-9):
        raise InputError(f"window must be a multiple of step, {step:g} s; got {window!r} seconds")
    begin = round(1000 * start)
    windows = (round(1000 * end) - begin) // length
    if windows < 1:
        raise InputError(
            f"from start to end it is {end - start:g} s, less than one window of {window:g} s"
        )
    looks = windows * (length // pace)
    if looks > _MOST_LOOKS:
        raise InputError(
            f"from start to end there are {looks} steps of {step:g} s, more than {_MOST_LOOKS}; "
            f"read a shorter time, or take a longer step"
        )
    return _Span(begin, pace, length // pace, windows)


def _one(series: list[Series], what: str, query: str) -> Array:
    """Return the values of the only series."""
    if len(series) > 1:
        raise InputError(
            f"{what}: {query!r} gives {len(series)} series, such as {series[0].labels} and "
            f"{series[1].labels}; make it one, as in sum({query})"
        )
    return series[0].values


def _loads(prometheus: Prometheus, query: str, span: _Span) -> Array:
    """Return the mean load of each window; NaN where it has too few values to be one."""
    values = _one(prometheus.values("load", query, span.clock()), "load", query)
    table = values.reshape(span.windows, span.looks)
    known = np.isfinite(table)
    sums = np.where(known, table, 0.0).sum(1)
    enough = known.mean(1) >= _ENOUGH
    return np.where(enough, sums / np.maximum(known.sum(1), 1), np.nan)


def _count_gauge(
    prometheus: Prometheus, query: str, span: _Span, capacity: int | None, most: int | None
) -> _Counts:
    clock = span.clock()
    values = _one(prometheus.values("gauge", query, clock), "gauge", query)
    missing = ~np.isfinite(values)
    wrong = np.flatnonzero(~missing & ((values < 0) | (values != np.floor(values))))
    if len(wrong):
        raise InputError(
            f"gauge: {query!r} was {values[wrong[0]]:g} at {clock.time(int(wrong[0]))}; a number "
            f"of requests is a whole number, zero or more: take the gauge itself, no mean or rate"
        )
    largest = values[~missing].max()
    if capacity is not None and largest > capacity:
        raise InputError(
            f"gauge: {query!r} goes up to {largest:g}, more than capacity={capacity}; is it the "
            f"number of requests in the system, with those in service?"
        )
    top = largest if most is None else min(most, largest)
    if top > _MOST_STATES:
        raise InputError(
            f"gauge: {query!r} goes up to {largest:g}, and a chain has a state for each number up "
            f"to {_MOST_STATES} at most; is it a number of requests? Otherwise let large ones "
            f"share a column (--most, --capacity)"
        )
    scraped = prometheus.values("gauge", f"timestamp({query})", span.clock(with_start=True))
    taken = _one(scraped, "gauge", query)
    same = taken[1:] == taken[:-1]  # NaN equals nothing
    above = values > top
    observe: list[Category] = list(range(int(top) + 1))
    if above.any() and capacity is not None:
        observe.append(range(int(top) + 1, capacity + 1))
    parts = (
        (missing, "at which the gauge has no value"),
        (
            same,
            "which found no newer scrape than the look before (take the scrape interval as step)",
        ),
        (
            above & ~same & (len(observe) == top + 1),
            f"which found more than {top:g} (give --capacity to count them)",
        ),
    )
    notes = [
        f"left out {part.sum()} of {len(values)} looks, {why}" for part, why in parts if part.any()
    ]
    use = ~np.any([part for part, _ in parts], axis=0)
    check_cells(span.windows, len(observe), query)
    counts = np.zeros((span.windows, len(observe)), dtype=np.int64)
    where = np.arange(len(values)) // span.looks
    np.add.at(counts, (where[use], np.minimum(values[use], len(observe) - 1).astype(np.int64)), 1)
    return _Counts(counts, observe, {}, notes)


def _count_histogram(
    prometheus: Prometheus, query: str, span: _Span, capacity: int | None
) -> _Counts:
    clock = span.clock(with_start=True)
    edges, totals = sorted_buckets(prometheus.values("histogram", query, clock), query)
    grown, reset, gap = increases(totals, span.looks)
    counts, observe, beyond = bins(edges, grown, query, capacity)
    notes = []
    if beyond:
        notes.append(
            f"left out {beyond} observations above the last bucket, {edges[-2]:g} (give --capacity "
            f"to count them)"
        )
    dropped = {"a bucket's counter fell": reset, "a bucket has no value at an end": gap}
    return _Counts(counts, observe, dropped, notes)
