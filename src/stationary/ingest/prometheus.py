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
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stationary._support.arguments import explained
from stationary._support.types import Array
from stationary.data.latency import bucket_names
from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.buckets import bins, increases, sorted_buckets
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.events import Progress
from stationary.ingest.gauge import Rate, check_samples, count_samples
from stationary.ingest.prometheus_client import Prometheus, Times, in_utc
from stationary.ingest.result import Ingested
from stationary.ingest.sweep import Swept
from stationary.ingest.tally import tally
from stationary.terms.categories import as_category, label

if TYPE_CHECKING:
    import pandas as pd


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
    import pandas as pd

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
    import pandas as pd

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
    import pandas as pd

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
