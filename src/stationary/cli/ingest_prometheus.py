"""``stationary ingest prometheus``: metrics that a Prometheus scraped, as windows."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from stationary.errors import InputError

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def prometheus(
    url: Annotated[str, typer.Argument(help="Its address, as in http://127.0.0.1:9090.")],
    load: Annotated[
        str,
        typer.Option(help="Load per second in PromQL, as in 'sum(rate(requests_total[10s]))'."),
    ],
    start: Annotated[
        str, typer.Option(help="From when: 2026-05-01T12:00 (UTC), now-1h, or seconds since 1970.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="CSV file to write.")],
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
        int | None, typer.Option(help="Most requests in the system, for the bucket +Inf.")
    ] = None,
    timeout: Annotated[str, typer.Option(help="How long to wait for an answer.")] = "30s",
    retries: Annotated[int, typer.Option(help="How often to ask again after a failure.")] = 3,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file that is already there.")
    ] = False,
) -> None:
    """Read windows from a Prometheus and write them as CSV: load, Q=0, Q=1, ...

    stationary ingest prometheus http://127.0.0.1:9090 --load 'sum(rate(requests_total[10s]))'
    --gauge 'sum(inflight)' --start now-6h --step 1s --window 30s -o windows.csv
    """
    from stationary.ingest.prometheus import windows_from_prometheus

    if output.suffix.lower() != ".csv":
        raise InputError(f"{output}: windows are written as CSV; give the file the ending .csv")
    if output.exists() and not overwrite:
        raise InputError(f"{output} exists; name another file, or pass --overwrite")
    now = time.time()
    windows = windows_from_prometheus(
        url,
        load=load,
        gauge=gauge,
        histogram=histogram,
        start=parse_time(start, now, "--start"),
        end=parse_time(end, now, "--end"),
        step=parse_seconds(step, "--step"),
        window=parse_seconds(window, "--window"),
        sampling=sampling,
        capacity=capacity,
        timeout=parse_seconds(timeout, "--timeout"),
        retries=retries,
    )
    windows.to_csv(output)
    typer.echo(
        f"wrote {len(windows)} windows to {output}: load {windows.loads.min():g} to "
        f"{windows.loads.max():g} per second, {windows.counts.sum():.0f} counts; fit them with "
        f"--sampling {windows.sampling} --duration {windows.duration:g}"
    )


def parse_seconds(text: str, what: str) -> float:
    """Read ``100ms``, ``1.5s``, ``5m``, ``6h`` or ``2d``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if not found:
        raise InputError(f"{what} is a number and a unit, as in 100ms, 15s, 5m, 6h; got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def parse_time(text: str, now: float, what: str) -> float:
    """Read ``now``, ``now-6h``, seconds since 1970, or a date and time, UTC where no zone is."""
    text = text.strip()
    if text == "now":
        return now
    if text.startswith("now-"):
        return now - parse_seconds(text.removeprefix("now-"), what)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{what} is a time, as in 2026-05-01T12:00, now-6h, or seconds since 1970; got {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
