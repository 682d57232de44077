"""``stationary ingest prometheus``: metrics that a Prometheus scraped, as windows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from stationary import ingest
from stationary.cli._options import check_new, command_of
from stationary.cli._show import stages
from stationary.cli._sources import Metrics
from stationary.cli.ingest import ENDINGS, finish
from stationary.terms.spans import parse_span


@command_of
def prometheus(
    *,
    url: str,
    output: Path,
    metrics: Metrics,
    latency: str | None = None,
    window: str = "5m",
    sampling: Literal["time", "arrival"] | None = None,
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
    output: File of windows to write: .csv or .parquet.
    load_expr (--load, --load-expr): Without a preset: load per second, as in
        'sum(rate(http_requests_total[10s]))'.
    start: From when: 2026-05-01T12:00 (UTC), now-1h, or seconds since 1970.
    latency: Buckets of response times in seconds, beside these or alone, as in
        'sum by (le) (increase(http_request_duration_seconds_bucket[W]))'; W is the window.
    window: Length of a window.
    sampling: How the histogram was observed: by arriving requests (the default) or at regular
        times.
    capacity: Most requests in the system, for the bucket +Inf, or the states above --most.
    most: Largest state of a gauge with a column of its own.
    timeout: How long to wait for an answer.
    retries: How often to ask again after a failure.
    """
    check_new(output, overwrite, *ENDINGS)
    length = parse_span(window, "--window")
    metrics.check(latency)

    from stationary.data.states import as_sampling

    how = metrics.sampling if sampling is None else as_sampling(sampling)
    cut = ingest.Cut(length, how, capacity=capacity, most=most)
    with stages() as progress:
        made = metrics.read(url, cut, latency, progress, timeout, retries)
    finish(made, output, capacity, json)
