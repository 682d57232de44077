"""Metrics to windows: what a Prometheus scraped, as samples of queue lengths under load.

- Every scrape of a *gauge* of the requests in the system is a sample at a regular time.
- The buckets ``le`` of a *histogram* of queue lengths become categories of states: a window counts
  what was observed between its ends, as a rule by arriving requests.

A window goes from its start, exclusive, to its end, inclusive, because the value of an expression
at ``t`` comes from scrapes up to ``t``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stationary._support.arguments import explained
from stationary._support.types import Array
from stationary.data.latency import bucket_names
from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.events import Progress
from stationary.ingest.gauge import Rate, check_samples, count_samples
from stationary.ingest.prometheus_client import Prometheus, Series, Times, in_utc
from stationary.ingest.result import Ingested
from stationary.ingest.sweep import Swept
from stationary.ingest.tally import tally
from stationary.terms.categories import Category, as_category, label


@explained
def windows_from_prometheus(
    source: Prometheus,
    cut: Cut,
    *,
    load: str,
    gauge: str | None = None,
    histogram: str | None = None,
    latency: str | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Read windows from a Prometheus.

    Parameters
    ----------
    source : Prometheus
        Where it is, and which time to read. Samples that find no scrape newer than the one before
        would count it twice, and are left out where Prometheus can tell.
    cut : Cut
        Which windows, which states. A window is a multiple of the source's ``step``. The sampling
        of a gauge is ``TIME``; that of a histogram says who observed it. ``capacity`` gives the
        last bucket, ``+Inf``, its states; without it they are not counted.
    load : str
        Expression of the load per second, one series, as in
        ``sum(rate(http_requests_total[10s]))``; a window's load is its mean. Its range should be
        short against the window, because it reaches back over the window's beginning. Or the range
        is ``[W]``, the window itself, as in ``sum(rate(http_requests_total[W]))``.
    gauge : str, optional
        Expression of the number of requests in the system, one series of whole numbers.
    histogram : str, optional
        Instead of ``gauge``: the buckets of a histogram of queue lengths, one series per bucket, as
        in ``sum by (le) (queue_length_bucket)``. Windows in which a counter fell, because the
        system was restarted, are left out.
    latency : str, optional
        Beside these, or alone: the buckets of a histogram of response times in seconds, as in
        ``sum by (le) (http_request_duration_seconds_bucket)``, or how much they grew over a window,
        as in ``sum by (le) (increase(http_request_duration_seconds_bucket[W]))``, where ``W``
        stands for the length of a window. Their columns are ``rt_10ms``, ..., ``rt_more``.
    progress : callable, optional
        Called with what is being done.
    """
    if gauge is not None and histogram is not None:
        raise InputError("give one of gauge= and histogram=: the expression of the queue length")
    if gauge is None and histogram is None and latency is None:
        raise InputError("give gauge=, histogram= or latency=: what was observed")
    check_samples(cut, cut.sampling if gauge is None else Sampling.TIME)
    if cut.align:
        raise InputError("windows of a Prometheus begin at its start: leave out align")
    if histogram is not None and cut.most is not None:
        raise InputError("most= (--most) is of a gauge: a histogram has the states of its buckets")
    times, per_window = source.times(cut.length)
    grid = Grid(0.0, len(times[1:]) // per_window, math.ceil(cut.warm_up / cut.length - 1e-9))
    report = progress or (lambda _: None)
    report("reading the load")
    points = np.arange(len(times[1:]))
    signal = source.one("load", _over_window(load, source, per_window), times[1:])
    if "[W]" in load:  # its value at the end of a window is that of the whole window
        signal = signal[np.minimum((points // per_window + 1) * per_window, len(points)) - 1]
    samples = pd.DataFrame(
        {
            "window": points // per_window,
            "half": (2 * (points % per_window) >= per_window).astype(np.int64),
            "time": (points + 1) * source.step,
            "signal": signal,
        }
    )
    report("reading what was observed")
    response = None if latency is None else _read_latency(source, latency, times, per_window)
    rows, notes = Rows(None, source.address, 0, 0.0, 0.0, source.start), list[str]()
    loads = Rate(load).per_window(samples, cut.length)
    if gauge is not None:
        samples["value"], notes = _read_gauge(source, gauge, times)
        rows = replace(rows, count=int(samples["value"].count()))
        made = count_samples(samples, rows, Rate(load), cut, grid)
    elif histogram is not None:
        edges, totals = sorted_buckets(source.values("histogram", histogram, times), histogram)
        grown, fell, gap = increases(totals, per_window)
        counts, observe, beyond = bins(edges, grown, histogram, cut.capacity)
        labels = [label(as_category(category)) for category in observe]
        unusable = {"a bucket's counter fell": fell, "a bucket has no value at an end": gap}
        rows = replace(rows, count=int(counts.sum()))
        made = tally(Swept(_levels(counts)), cut, grid, rows, loads, labels, unusable)
        if beyond:
            notes = [
                f"left out {beyond} observations above the last bucket, {edges[-2]:g} (give "
                f"--capacity to count them)"
            ]
    elif response is not None:
        counts = response.sum(axis=1).to_numpy(np.int64)[:, None]
        rows = replace(rows, count=int(counts.sum()))
        made = tally(Swept(_levels(counts)), cut, grid, rows, loads, ["0"])
        made = replace(made, table=made.table.drop(columns="Q=0"))
    made = replace(made, notes=(*notes, *made.notes))
    return made if response is None else _beside(made, response, source.start, cut.length)


def _over_window(query: str, source: Prometheus, per_window: int) -> str:
    """Return an expression with the length of a window for ``W``."""
    return query.replace("[W]", f"[{per_window * source.step:g}s]")


def _read_latency(source: Prometheus, query: str, times: Times, per_window: int) -> pd.DataFrame:
    """Return latency buckets, a row per window; zero where a bucket has no value."""
    asked = _over_window(query, source, per_window)
    edges, totals = sorted_buckets(source.values("latency", asked, times), asked)
    if re.search(r"\b(increase|delta)\s*\(", asked):
        grown = np.nan_to_num(totals[:, per_window::per_window].T)
    elif re.search(r"\b(i?rate)\s*\(", asked):
        raise InputError(
            f"latency: {query!r} is a rate; take the buckets themselves, or increase(...[W])"
        )
    else:
        grown, _, _ = increases(totals, per_window)
    # Between scrapes `increase` extrapolates, so that numbers are not whole.
    apart = np.rint(np.diff(grown, axis=1, prepend=0.0))
    if (apart < 0).any():
        raise InputError(
            f"latency: in {query!r} a larger bucket counts less than a smaller one; take "
            f"cumulative buckets `le`, as in sum by (le) (..._bucket)"
        )
    return pd.DataFrame(apart.astype(np.int64), columns=bucket_names(edges))


def _beside(made: Ingested, response: pd.DataFrame, first: float, length: float) -> Ingested:
    """Add latency buckets to the windows that are left."""
    rows = np.rint((made.table["start"].to_numpy() - first) / length).astype(np.int64)
    table = pd.concat([made.table, response.iloc[rows].reset_index(drop=True)], axis=1)
    return replace(made, table=table)


def _read_gauge(source: Prometheus, query: str, times: Times) -> tuple[Array, list[str]]:
    """Return the samples of a gauge, NaN where one is missing or repeated, and notes on those."""
    values = source.one("gauge", query, times[1:])
    missing = ~np.isfinite(values)
    possible = (values >= 0) & (values == np.floor(values)) & (values < 2**31)
    wrong = np.flatnonzero(~missing & ~possible)
    if len(wrong):
        raise InputError(
            f"gauge: {query!r} was {values[wrong[0]]:g} at {in_utc(times[1 + wrong[0]])}; a number "
            f"of requests is a whole number, zero or more: take the gauge itself, no mean or rate"
        )
    scraped = source.one("gauge", f"timestamp({query})", times)
    repeated = scraped[1:] == scraped[:-1]  # NaN equals nothing
    notes = [
        f"left out {part.sum()} of {len(values)} samples, {why}"
        for part, why in (
            (missing, "at which the gauge has no value"),
            (
                repeated,
                "which found no newer scrape than the one before (take the scrape interval as "
                "step)",
            ),
        )
        if part.any()
    ]
    return np.where(missing | repeated, np.nan, values), notes


def _levels(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts ``[windows, categories]`` as rows, in which a level is the position of a category."""
    windows, categories = np.indices(counts.shape).reshape(2, -1)
    zero = np.zeros(counts.size, dtype=np.int64)
    return np.stack([windows, zero, categories, zero, zero, counts.ravel()], axis=1)


def sorted_buckets(series: Sequence[Series], query: str) -> tuple[list[float], Array]:
    """Upper ends of the buckets, infinity last, and their totals ``[buckets, points]``."""
    found: dict[float, Series] = {}
    for one in series:
        try:
            edge = float(one.labels["le"])
        except (KeyError, ValueError):
            raise InputError(
                f"histogram: {query!r} gives a series without a bucket `le`, {one.labels}; take "
                f"the buckets, as in sum by (le) (queue_length_bucket)"
            ) from None
        if edge in found:
            raise InputError(
                f"histogram: {query!r} gives several series for le={one.labels['le']}, such as "
                f"{found[edge].labels} and {one.labels}; add them up, as in sum by (le) ({query})"
            )
        found[edge] = one
    edges = sorted(found)
    if edges[-1] != math.inf or len(edges) < 3:
        raise InputError(
            f"histogram: {query!r} has the buckets {', '.join(f'{edge:g}' for edge in edges)}; "
            f"two and +Inf are needed"
        )
    return edges, np.stack([found[edge].values for edge in edges])


def increases(totals: Array, steps: int) -> tuple[Array, list[int], list[int]]:
    """Return how much totals grew from end to end of each window, ``[windows, buckets]``.

    Totals are ``[buckets, windows * steps + 1]``, NaN where there is no value. Windows in which a
    counter fell, or without a value at their ends, grew by zero; their numbers are returned, too.
    """
    ends = totals[:, ::steps]
    grown = np.diff(ends, axis=1).T
    gap = ~np.isfinite(grown).all(1)
    # Compared with the last value before it, across gaps: a system that restarts leaves one.
    known = np.isfinite(totals)
    last = np.maximum.accumulate(np.where(known, np.arange(totals.shape[1]), 0), axis=1)
    filled = np.take_along_axis(np.where(known, totals, 0.0), last, axis=1)
    fell = (np.diff(filled, axis=1) < 0).any(0).reshape(-1, steps).any(1)
    grown[gap | fell] = 0.0
    return grown, np.flatnonzero(fell).tolist(), np.flatnonzero(gap & ~fell).tolist()


def bins(
    edges: Sequence[float], grown: Array, query: str, capacity: int | None
) -> tuple[NDArray[np.int64], list[Category], int]:
    """Turn the growth of cumulative buckets into counts of sets of states.

    Returns the counts ``[windows, categories]``, the categories, and how many observations lie
    above the last finite bucket and are left out, because without a capacity their states are not
    known. Errors name the expression ``query``.
    """
    apart = np.diff(grown, axis=1, prepend=0.0)
    if (apart < 0).any() or (apart != np.floor(apart)).any():
        raise InputError(
            f"histogram: {query!r} does not count: its buckets must grow by whole numbers, larger "
            f"ones by more; take the buckets themselves, as in sum by (le) "
            f"(queue_length_bucket), no rate"
        )
    lows = [0, *(math.floor(edge) + 1 for edge in edges[:-1])]
    beyond = int(apart[:, -1].sum()) if capacity is None else 0
    top = lows[-1] - 1 if capacity is None else capacity
    if capacity is not None and capacity < lows[-1] - 1:
        raise InputError(
            f"capacity must be at least that of the last bucket, {edges[-2]:g}; got {capacity}"
        )
    kept, observe = [], list[Category]()
    for column, (low, edge) in enumerate(zip(lows, edges, strict=True)):
        states = range(max(low, 0), top + 1 if edge == math.inf else math.floor(edge) + 1)
        if states:
            kept.append(column)
            observe.append(states[0] if len(states) == 1 else states)
        elif apart[:, column].any() and not (edge == math.inf and capacity is None):
            raise InputError(
                f"histogram: {query!r} has observations up to {edge:g} that are not states: queue "
                f"lengths are whole numbers, from 0 to {top}"
            )
    return apart[:, kept].astype(np.int64), observe, beyond
