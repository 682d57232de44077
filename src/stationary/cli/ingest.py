"""``stationary ingest``: from a log of requests, or samples of a gauge, to windows."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from stationary.cli._options import check_new, command_of
from stationary.errors import InputError
from stationary.terms.spans import Unit, parse_span

if TYPE_CHECKING:
    from stationary.ingest import Columns, Cut, Ingested
    from stationary.ingest.engines import Engine
    from stationary.ingest.gauge import Load

ENDINGS = (".csv", ".parquet")


class _RequestsUnlessNamed(TyperGroup):
    """Takes a first word that is no command for the file of requests."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["requests", *args]
        return super().parse_args(ctx, args)


ingest = typer.Typer(
    cls=_RequestsUnlessNamed,
    help="Make windows from logs, gauges or metrics: stationary ingest requests.parquet -o "
    "windows.csv. The command 'requests' may be left out.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class Cutting:
    """How time is cut into windows, and what is counted in them.

    Options
    -------
    window: Length of a window: 500ms, 1s, 5m, 1h.
    capacity: Most requests in the system; lost ones are counted as Q=this.
    most: Largest state with a column of its own; the others share one.
    sampling: Count the state that each 'arrival' finds, or the state at regular times ('time').
    every: With --sampling time: time between samples; 1/1000 of a window by default.
    lost_status: Statuses of lost requests, as in 5xx,429; unanswered ones are lost.
    warm_up: Leave out windows that begin sooner.
    align: Begin windows at whole multiples of their length.
    steady_only: Leave out windows whose halves differ.
    bin_load: Round loads to multiples of this, and add up windows of equal load.
    propagation: Part of every response time that was spent on the way.
    """

    window: str = "1s"
    capacity: int | None = None
    most: int | None = None
    sampling: str = "arrival"
    every: str | None = None
    lost_status: str | None = None
    warm_up: str = "0s"
    align: bool = False
    steady_only: bool = False
    bin_load: float | None = None
    propagation: str = "0s"

    def spans(self) -> dict[str, float]:
        """Return the lengths of time, in seconds."""
        names = ("window", "every", "warm_up", "propagation")
        texts = {name: getattr(self, name) for name in names}
        return {
            name: parse_span(text, f"--{name.replace('_', '-')}")
            for name, text in texts.items()
            if text is not None
        }

    def cut(self, gauge: bool) -> Cut:
        """Return how to cut requests, or samples of a gauge, which are taken at regular times."""
        from stationary.data.states import Sampling, as_sampling
        from stationary.ingest import Cut

        return Cut(
            sampling=Sampling.TIME if gauge else as_sampling(self.sampling),
            lost_status=() if self.lost_status is None else tuple(self.lost_status.split(",")),
            capacity=self.capacity,
            most=self.most,
            align=self.align,
            bin_load=self.bin_load,
            steady_only=self.steady_only,
            **self.spans(),
        )


@dataclass(frozen=True)
class Naming:
    """The columns of a table of requests or samples.

    Options
    -------
    arrival: Column of arrival times, or of the times of samples.
    response: Column of response times; null without answer [response].
    completion: Column of the times of answers, instead.
    status: Column of outcomes; 'status' if there is one.
    unit: Unit of times that are numbers: s, ms, us, ns.
    response_unit: Unit of response times, if another.
    """

    arrival: str = "arrival"
    response: str | None = None
    completion: str | None = None
    status: str | None = None
    unit: str = "s"
    response_unit: str | None = None

    def columns(self) -> Columns:
        """Return the names and units of the columns."""
        from stationary.ingest import Columns

        return Columns(
            self.arrival,
            self.response,
            self.completion,
            self.status,
            _unit(self.unit, "--unit"),
            None if self.response_unit is None else _unit(self.response_unit, "--response-unit"),
        )


@dataclass(frozen=True)
class Gauging:
    """Columns of a gauge and of the load, where the rows are samples and not requests.

    Options
    -------
    gauge: The rows are samples, not requests: column of requests in the system.
    load_rate: With --gauge: column of requests per second.
    load_counter: With --gauge: column of all requests so far.
    load_arrived: With --gauge: column of requests since the row before.
    """

    gauge: str | None = None
    load_rate: str | None = None
    load_counter: str | None = None
    load_arrived: str | None = None

    def check(self) -> None:
        """Raise unless the load is named once with a gauge, and not at all without."""
        given = (self.load_rate, self.load_counter, self.load_arrived)
        if sum(column is not None for column in given) != (self.gauge is not None):
            raise InputError(
                "with --gauge, name the column of the load once: --load-rate, --load-counter or "
                "--load-arrived; without --gauge, requests are counted"
            )

    def load(self) -> Load:
        """Return how the load is read."""
        from stationary.ingest.gauge import Arrived, Counter, Rate

        if self.load_rate is not None:
            return Rate(self.load_rate)
        if self.load_counter is not None:
            return Counter(self.load_counter)
        return Arrived(str(self.load_arrived))


@dataclass(frozen=True)
class Running:
    """Which engine counts.

    Options
    -------
    engine: duckdb, spark or spark:MASTER, as in spark:spark://host:7077.
    memory: Memory of the engine, as in 4GB; the rest goes to disk.
    """

    engine: str = "duckdb"
    memory: str | None = None

    def made(self) -> Engine | None:
        """Return the engine; None for that of the source: a database counts by itself."""
        from stationary.ingest import DuckDB, Spark

        if self == Running():
            return None
        name, _, master = self.engine.partition(":")
        if name == "duckdb" and not master:
            return DuckDB(self.memory)
        if name == "spark":
            return Spark(master or None, self.memory)
        raise InputError(f"--engine is duckdb, spark or spark:MASTER; got {self.engine!r}")


@ingest.command()
@command_of
def requests(
    *,
    source: str,
    output: Path,
    cutting: Cutting,
    naming: Naming,
    gauging: Gauging,
    format: str | None = None,  # noqa: A002 - the option's name
    table: str | None = None,
    query: str | None = None,
    running: Running,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Turn requests, or samples of a gauge, into windows that `stationary fit` reads as they are.

    stationary ingest 'logs/*.parquet' -o windows.csv --window 1s --capacity 20 --lost-status 5xx

    stationary ingest metrics.csv -o windows.csv --window 1m --arrival time --gauge in_flight
    --load-counter requests_total

    Exit codes: 0 done; 2 bad input.

    Arguments
    ---------
    source: File of requests (.parquet, .csv, .jsonl; 'logs/*.parquet' for several), or
        postgresql://user@host/database.

    Options
    -------
    output: File of windows to write: .csv or .parquet.
    table: Table of the database.
    query: Query of the database, instead.
    """
    check_new(output, overwrite, *ENDINGS)
    cutting.spans()
    gauging.check()

    from stationary.ingest import Source

    place = Source(source, naming.columns(), format, table, query)
    place.check()

    from stationary.cli._show import stages
    from stationary.ingest import windows_from_events, windows_from_gauge

    cut, where = cutting.cut(gauging.gauge is not None), running.made()
    with stages() as progress:
        if gauging.gauge is not None:
            made = windows_from_gauge(place, gauging.gauge, gauging.load(), cut, where, progress)
        else:
            made = windows_from_events(place, cut, where, progress)
    finish(made, output, cutting.capacity, json)


def _unit(text: str, what: str) -> Unit:
    try:
        return Unit(text)
    except ValueError:
        raise InputError(f"{what} is one of {', '.join(Unit)}; got {text!r}") from None


def finish(made: Ingested, output: Path, capacity: int | None, json: bool) -> None:
    """Write windows; say what is in them, for people or for programs."""
    from stationary.cli._records import as_json
    from stationary.cli._show import table
    from stationary.words import sentence

    made.write(output)
    if json:
        typer.echo(as_json({**made.record(), "output": str(output)}))
        return
    loads = made.table["load"]
    typer.echo(
        f"wrote {len(made.table)} windows to {output}: load {loads.min():g} to {loads.max():g}, "
        f"of {made.rows} rows; sampling={made.sampling}"
        + ("" if made.duration is None else f", duration={made.duration:g}")
    )
    rows = [[item.why, str(item.windows), str(item.rows)] for item in made.dropped]
    if rows:
        table("left out", ["why", "windows", "rows"], rows)
    for note in made.notes:
        typer.echo(sentence(note))
    # Short queues are seen at light load and determine the service rate.
    short = [k for k in range(4) if f"Q={k}" in made.table and k != capacity]
    observe = f" --observe 0-{short[-1]}" if len(short) > 1 else ""
    model = f"mmmk:servers=SERVERS,capacity={capacity or 'CAPACITY'}"
    typer.echo(f"next: stationary fit {shlex.quote(str(output))} --model {model}{observe}")
