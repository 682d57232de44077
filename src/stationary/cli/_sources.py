"""Where a plan's data are: a log, a table of requests or of windows, a database, a Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from stationary import ingest
from stationary.cli._options import Reading, refuse
from stationary.cli._parse import parse_pairs
from stationary.errors import InputError
from stationary.terms.spans import Unit, parse_span

if TYPE_CHECKING:
    from stationary.data.states import Sampling
    from stationary.ingest import Cut, Ingested, Source
    from stationary.ingest.found import Found

Progress = Callable[[str], None]

_PRESETS = {
    "http": "http_request_duration_seconds",
    "opentelemetry": "http_server_request_duration_seconds",
    "spring": "http_server_requests_seconds",
    "ingress-nginx": "nginx_ingress_controller_request_duration_seconds",
    "traefik": "traefik_service_request_duration_seconds",
}
"""Histograms of response times in seconds, by what exports them."""

_NAMES = ("arrival", "response", "completion", "status")


@dataclass(frozen=True)
class Requests:
    """How requests are read, and cut into windows.

    Options
    -------
    window: Length of a window, as in 10s; chosen to suit the data by default.
    status_lost: Statuses of lost requests, as in 5xx,429; unanswered ones are lost.
    columns: Columns of a table of requests, as in arrival=time,response=took,status=code.
    time_unit: Unit of times that are numbers; found by their size by default.
    table: Table of a database.
    query: Query of a database, instead.
    """

    panel: ClassVar[str] = "How requests are read, and cut into windows"

    window: str | None = None
    status_lost: str | None = None
    columns: str | None = None
    time_unit: Unit | None = None
    format: str | None = None
    table: str | None = None
    query: str | None = None


@dataclass(frozen=True)
class Metrics:
    """What is read of a Prometheus.

    Options
    -------
    preset: What exports the metrics: http, opentelemetry, spring, ingress-nginx or traefik; with
        labels to select by, as in 'http{job="api"}'.
    load_expr: Without a preset: load per second, as in 'sum(rate(http_requests_total[10s]))'.
    gauge: Without a preset: requests in the system, as in 'sum(inflight)'.
    histogram: Instead of --gauge: buckets of queue lengths, as in
        'sum by (le) (queue_length_bucket)'.
    start: From when, as in now-6h.
    end: Until when.
    step: The scrape interval.
    """

    panel: ClassVar[str] = "What is read of a Prometheus"

    preset: str | None = None
    load_expr: str | None = None
    gauge: str | None = None
    histogram: str | None = None
    start: str = "now-6h"
    end: str = "now"
    step: str = "15s"

    def check(self, latency: str | None) -> None:
        """Raise unless they say what the load is, and what was observed."""
        observed = (self.gauge, self.histogram, latency)
        if self.preset is not None:
            if any((*observed, self.load_expr)):
                raise InputError(
                    "--preset says all of the metrics: leave out --load-expr, --gauge, "
                    "--histogram and --latency, or --preset"
                )
            self.expressions(None)
            return
        refuse(
            (
                self.load_expr is None,
                "of a Prometheus, give the load: --load-expr 'sum(rate(requests_total[10s]))', or "
                "--preset",
            ),
            (
                not any(observed) or bool(self.gauge and self.histogram),
                "of a Prometheus, give what was observed: --gauge or --histogram (requests in the "
                "system), --latency (response times), or --preset",
            ),
        )

    @property
    def sampling(self) -> Sampling:
        """A gauge is read at regular times; a histogram is mostly filled by arriving requests."""
        from stationary.data.states import Sampling

        return Sampling.ARRIVAL if self.gauge is None else Sampling.TIME

    def read(
        self,
        url: str,
        cut: Cut,
        latency: str | None,
        progress: Progress,
        timeout: str = "30s",
        retries: int = 3,
    ) -> Ingested:
        """Read windows from the Prometheus at this address."""
        now = time.time()
        place = ingest.Prometheus(
            url,
            parse_time(self.start, now, "--start"),
            parse_time(self.end, now, "--end"),
            parse_span(self.step, "--step"),
            parse_span(timeout, "--timeout"),
            retries,
        )
        asked: dict[str, Any] = self.expressions(latency)
        return ingest.windows_from_prometheus(place, cut, progress=progress, **asked)

    def expressions(self, latency: str | None) -> dict[str, str | None]:
        """Return what `windows_from_prometheus` reads."""
        if self.preset is None:
            seen = {"gauge": self.gauge, "histogram": self.histogram, "latency": latency}
            return {"load": self.load_expr, **seen}
        name, brace, labels = self.preset.partition("{")
        if name not in _PRESETS or (brace and not labels.endswith("}")):
            raise InputError(
                f"--preset is one of {', '.join(_PRESETS)}, perhaps with labels, as in "
                f"'http{{job=\"api\"}}'; got {self.preset!r}"
            )
        metric, where = _PRESETS[name], f"{brace}{labels}"
        return {
            "load": f"sum(rate({metric}_count{where}[W]))",
            "latency": f"sum by (le) (increase({metric}_bucket{where}[W]))",
        }


@dataclass(frozen=True)
class Place:
    """A source, checked as far as the options and the names of columns tell; loads no torch."""

    location: str
    requests: Requests
    metrics: Metrics
    reading: Reading

    @property
    def is_prometheus(self) -> bool:
        """Whether this is the address of a Prometheus."""
        return self.location.startswith(("http://", "https://"))

    def check(self) -> None:
        """Raise for what is wrong with the location and the options."""
        if self.requests.window is not None:
            parse_span(self.requests.window, "--window")
        self.reading.left_out()
        of_any = replace(self.reading, x="load", latency=None, leave_out=None) == Reading()
        if not of_any and not self.holds_windows:
            raise InputError(
                "--counts, --observe, --loads, --sampling, --duration and --drop-empty are of "
                "files of windows: make one with 'stationary ingest', and plan it"
            )
        if self.is_prometheus:
            self.metrics.check(self.reading.latency)
            return
        refuse(
            (
                self.metrics != Metrics(),
                "--load-expr, --gauge, --histogram, --latency, --preset, --start, --end and --step "
                "are of a Prometheus: give its address, as in http://127.0.0.1:9090",
            ),
            (
                Path(self.location, "plan.json").exists(),
                f"{self.location} is a saved plan: ask it with 'stationary forecast' or "
                f"'stationary explain'",
            ),
        )
        self.source().check()
        if self.holds_windows:
            self.reading.check(Path(self.location))
            if self.requests != Requests():
                raise InputError(
                    f"{self.location} holds windows, one row each: leave out the options that cut "
                    f"requests into windows"
                )

    @property
    def holds_windows(self) -> bool:
        """Whether a file has one row per window; otherwise it has one per request."""
        if self.requests.format is not None or self.is_prometheus:
            return False
        from stationary.ingest.contents import holds_windows

        load, arrival = self.reading.x.split(",")[0].strip(), self._columns().get("arrival")
        return holds_windows(self.location, load, arrival or "arrival")

    def read(self, servers: Sequence[int], capacities: Sequence[int], progress: Progress) -> Found:
        """Return the windows, and what a reader should know of how they were made.

        Of servers and capacity it takes what may be, as far as it is known.
        """
        from stationary.ingest.found import Found, cut_requests

        if self.holds_windows:
            return Found(self.reading.windows(Path(self.location)), self.location)
        window, lost = self.requests.window, self.requests.status_lost
        cut = ingest.Cut(
            None if window is None else parse_span(window, "--window"),
            capacity=capacities[0] if len(capacities) == 1 else None,
            lost_status=() if lost is None else tuple(lost.split(",")),
        )
        if self.is_prometheus:
            sampling = self.metrics.sampling
            cut = replace(cut, window=cut.window or 300.0, sampling=sampling, lost_status=())
            made = self.metrics.read(self.location, cut, self.reading.latency, progress)
        else:
            made = cut_requests(self.source(), cut, servers, progress)
        found = Found.of(made, self.location)
        return replace(found, windows=self.reading.without(found.windows))

    def source(self) -> Source:
        """Return the requests of a file or a database."""
        given = self.requests
        names: dict[str, Any] = self._columns()
        columns = ingest.Columns(**names, unit=given.time_unit)
        return ingest.Source(self.location, columns, given.format, given.table, given.query)

    def _columns(self) -> dict[str, str]:
        named = parse_pairs(self.requests.columns or "", "--columns", "arrival=time")
        for name in named:
            if name not in _NAMES:
                raise InputError(f"--columns names {', '.join(_NAMES)}; got {name!r}")
        return named


def parse_time(text: str, now: float, what: str) -> float:
    """Read ``now``, ``now-6h``, seconds since 1970, or a date and time, UTC where no zone is."""
    text = text.strip()
    if text == "now" or text.startswith("now-"):
        return now - parse_span(text[len("now-") :] or "0s", what)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{what} is a time, as in 2026-05-01T12:00, now-6h, or seconds since 1970; got {text!r}"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
