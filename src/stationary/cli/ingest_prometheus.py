"""``stationary ingest prometheus``: metrics that a Prometheus scraped, as windows."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

from stationary.cli._options import check_new, command_of
from stationary.cli.ingest import ENDINGS, finish
from stationary.errors import InputError
from stationary.terms.spans import parse_span


@command_of
def prometheus(
    *,
    url: str,
    load: str,
    start: str,
    output: Path,
    end: str = "now",
    gauge: str | None = None,
    histogram: str | None = None,
    latency: str | None = None,
    step: str = "15s",
    window: str = "5m",
    sampling: str | None = None,
    capacity: int | None = None,
    most: int | None = None,
    timeout: str = "30s",
    retries: int = 3,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Make windows from what a Prometheus scraped: load, Q=0, Q=1, ...

    stationary ingest prometheus http://127.0.0.1:9090 --load 'sum(rate(requests_total[10s]))'
    --gauge 'sum(inflight)' --start now-6h --step 1s --window 30s -o windows.csv

    Arguments
    ---------
    url: Its address, as in http://127.0.0.1:9090.

    Options
    -------
    load: Load per second in PromQL, as in 'sum(rate(requests_total[10s]))'.
    start: From when: 2026-05-01T12:00 (UTC), now-1h, or seconds since 1970.
    output: File of windows to write: .csv or .parquet.
    end: Until when.
    gauge: Requests in the system, in PromQL, as in 'sum(inflight)'.
    histogram: Instead of --gauge: buckets of queue lengths, as in
        'sum by (le) (queue_length_bucket)'.
    latency: Beside these, or alone: buckets of response times in seconds, as in
        'sum by (le) (increase(http_request_duration_seconds_bucket[W]))'; W is the window.
    step: Time between samples: the scrape interval.
    window: Length of a window.
    sampling: How the histogram was observed: by 'arrival' (the default) or at regular times
        ('time').
    capacity: Most requests in the system, for the bucket +Inf, or the states above --most.
    most: Largest state of a gauge with a column of its own.
    timeout: How long to wait for an answer.
    retries: How often to ask again after a failure.
    """
    check_new(output, overwrite, *ENDINGS)
    length, now = parse_span(window, "--window"), time.time()

    from stationary.ingest import Prometheus

    place = Prometheus(
        url,
        parse_time(start, now, "--start"),
        parse_time(end, now, "--end"),
        parse_span(step, "--step"),
        parse_span(timeout, "--timeout"),
        retries,
    )

    from stationary.cli._show import stages
    from stationary.data.states import as_sampling
    from stationary.ingest import Cut, windows_from_prometheus

    how = as_sampling(sampling or ("arrival" if gauge is None else "time"))
    with stages() as progress:
        made = windows_from_prometheus(
            place,
            Cut(length, how, capacity=capacity, most=most),
            load=load,
            gauge=gauge,
            histogram=histogram,
            latency=latency,
            progress=progress,
        )
    finish(made, output, capacity, json)


def parse_time(text: str, now: float, what: str) -> float:
    """Read ``now``, ``now-6h``, seconds since 1970, or a date and time, UTC where no zone is."""
    text = text.strip()
    if text == "now":
        return now
    if text.startswith("now-"):
        return now - parse_span(text.removeprefix("now-"), what)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{what} is a time, as in 2026-05-01T12:00, now-6h, or seconds since 1970; got {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
