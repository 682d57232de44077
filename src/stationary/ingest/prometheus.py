"""Metrics to windows: what a Prometheus scraped, as samples of queue lengths under load.

Two kinds of metric hold queue lengths:

- a *gauge* of the requests in the system. Every scrape is a sample at a regular time, so a window
  counts how often each number was seen;
- a *histogram* of queue lengths, whose buckets ``le`` become categories of states. A window counts
  what was observed between its ends: by arriving requests, as a rule.

A window goes from its begin, exclusive, to its end, inclusive, because the value of an expression
at ``t`` comes from scrapes up to ``t``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.buckets import bins, increases, sorted_buckets
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.engines import DuckDB
from stationary.ingest.events import Progress
from stationary.ingest.gauge import Rate, check_samples, count_samples
from stationary.ingest.prometheus_client import Array, Prometheus, Times, in_utc
from stationary.ingest.result import Ingested
from stationary.ingest.tally import tally
from stationary.terms.categories import as_category, label


def windows_from_prometheus(
    source: Prometheus,
    cut: Cut,
    *,
    load: str,
    gauge: str | None = None,
    histogram: str | None = None,
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
        short against the window, because it reaches back over the window's beginning.
    gauge : str, optional
        Expression of the number of requests in the system, one series of whole numbers.
    histogram : str, optional
        Instead of ``gauge``: the buckets of a histogram of queue lengths, one series per bucket, as
        in ``sum by (le) (queue_length_bucket)``. Windows in which a counter fell, because the
        system was restarted, are left out.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    Ingested
        Loads are per second. It counts what was left out, such as windows without requests, because
        a load must be positive.
    """
    if (gauge is None) == (histogram is None):
        raise InputError("give one of gauge= and histogram=: the expression of the queue length")
    check_samples(cut, cut.sampling if gauge is None else Sampling.TIME)
    if cut.align:
        raise InputError("windows of a Prometheus begin at its start: leave out align")
    if histogram is not None and cut.most is not None:
        raise InputError("most= (--most) is of a gauge: a histogram has the states of its buckets")
    times, per_window = source.times(cut.window)
    grid = Grid(0.0, len(times[1:]) // per_window, math.ceil(cut.warm_up / cut.window - 1e-9))
    report = progress or (lambda _: None)
    report("reading the load")
    points = np.arange(len(times[1:]))
    samples: dict[str, Any] = {
        "window": points // per_window,
        "half": (2 * (points % per_window) >= per_window).astype(np.int64),
        "time": (points + 1) * source.step,
        "signal": source.one("load", load, times[1:]),
    }
    report("reading queue lengths")
    with DuckDB().open() as session:
        rows = Rows(None, source.address, 0, 0.0, 0.0, source.start)
        if gauge is not None:
            values, notes = _read_gauge(source, gauge, times)
            table = session.upload("samples", {**samples, "value": values})
            rows = replace(rows, count=int(np.isfinite(values).sum()))
            made = count_samples(session, table, rows, Rate(load), cut, grid)
            return replace(made, notes=(*notes, *made.notes))
        query = str(histogram)
        edges, totals = sorted_buckets(source.values("histogram", query, times), query)
        grown, fell, gap = increases(totals, per_window)
        counts, observe, beyond = bins(edges, grown, query, cut.capacity)
        table = session.upload("samples", samples)
        loads = session.keep("loads", Rate(load).per_window(table, cut.window))
        made = tally(
            session,
            session.upload("levels", _levels(counts)),
            cut,
            grid,
            replace(rows, count=int(counts.sum())),
            loads,
            [label(as_category(category)) for category in observe],
            {"a bucket's counter fell": fell, "a bucket has no value at an end": gap},
        )
    if not beyond:
        return made
    note = (
        f"left out {beyond} observations above the last bucket, {edges[-2]:g} (give --capacity to "
        f"count them)"
    )
    return replace(made, notes=(note, *made.notes))


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


def _levels(counts: NDArray[np.int64]) -> dict[str, Any]:
    """Counts ``[windows, categories]`` as rows, in which a level is the position of a category."""
    windows, categories = np.indices(counts.shape).reshape(2, -1)
    zero = np.zeros(counts.size, dtype=np.int64)
    return {
        "window": windows,
        "half": zero,
        "level": categories,
        "sent": zero,
        "lost": zero,
        "samples": counts.ravel(),
    }
