"""``stationary ingest prometheus``: metrics that a Prometheus scraped, as windows."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stationary.cli._ingested import finish
from stationary.cli._options import Json, Overwrite, check_new
from stationary.errors import InputError


def prometheus(
    url: Annotated[str, typer.Argument(help="Its address, as in http://127.0.0.1:9090.")],
    load: Annotated[
        str,
        typer.Option(help="Load per second in PromQL, as in 'sum(rate(requests_total[10s]))'."),
    ],
    start: Annotated[
        str, typer.Option(help="From when: 2026-05-01T12:00 (UTC), now-1h, or seconds since 1970.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of windows to write: .csv or .parquet.")
    ],
    end: Annotated[str, typer.Option(help="Until when.")] = "now",
    gauge: Annotated[
        str | None, typer.Option(help="Requests in the system, in PromQL, as in 'sum(inflight)'.")
    ] = None,
    histogram: Annotated[
        str | None,
        typer.Option(
            help="Instead of --gauge: buckets of queue lengths, as in "
            "'sum by (le) (queue_length_bucket)'."
        ),
    ] = None,
    step: Annotated[str, typer.Option(help="Time between looks: the scrape interval.")] = "15s",
    window: Annotated[str, typer.Option(help="Length of a window.")] = "5m",
    sampling: Annotated[
        str | None,
        typer.Option(help="Who observed the histogram: 'arrival' (by default) or 'time'."),
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option(
            help="Most requests in the system, for the bucket +Inf, or the states above --most."
        ),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(help="Largest state of a gauge with a column of its own."),
    ] = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for an answer.")] = "30s",
    retries: Annotated[int, typer.Option(help="How often to ask again after a failure.")] = 3,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Make windows of what a Prometheus scraped: load, Q=0, Q=1, ...

    stationary ingest prometheus http://127.0.0.1:9090 --load 'sum(rate(requests_total[10s]))'
    --gauge 'sum(inflight)' --start now-6h --step 1s --window 30s -o windows.csv
    """
    from stationary.cli._show import stages
    from stationary.data.states import as_sampling
    from stationary.ingest import Cut, Prometheus, windows_from_prometheus
    from stationary.ingest.result import check_output
    from stationary.terms.spans import parse_span

    check_output(output)
    check_new(output, overwrite)
    now = time.time()
    place = Prometheus(
        url,
        parse_time(start, now, "--start"),
        parse_time(end, now, "--end"),
        parse_span(step, "--step"),
        parse_span(timeout, "--timeout"),
        retries,
    )
    cut = Cut(
        parse_span(window, "--window"),
        as_sampling(sampling or ("arrival" if gauge is None else "time")),
        capacity=capacity,
        most=most,
    )
    with stages() as progress:
        made = windows_from_prometheus(
            place, cut, load=load, gauge=gauge, histogram=histogram, progress=progress
        )
    finish(made, output, capacity, json)


def parse_time(text: str, now: float, what: str) -> float:
    """Read ``now``, ``now-6h``, seconds since 1970, or a date and time, UTC where no zone is."""
    text = text.strip()
    if text == "now":
        return now
    if text.startswith("now-"):
        from stationary.terms.spans import parse_span

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
