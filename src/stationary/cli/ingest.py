"""``stationary ingest``: from a log of requests, or looks at a gauge, to windows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from stationary.cli._ingested import finish
from stationary.cli._options import Json, Overwrite, check_new
from stationary.cli.ingest_prometheus import prometheus
from stationary.errors import InputError
from stationary.ingest.formats import format_names

if TYPE_CHECKING:
    from stationary.ingest.engines import Engine
    from stationary.ingest.gauge import Load
    from stationary.terms.spans import Unit


class _RequestsUnlessNamed(TyperGroup):
    """Takes what is no command for the file of requests, which is what people come with."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = ["requests", *args]
        return super().parse_args(ctx, args)


ingest = typer.Typer(
    cls=_RequestsUnlessNamed,
    help="Make windows of logs, gauges or metrics: stationary ingest requests.parquet -o "
    "windows.csv. Without a command, 'requests' is meant.",
    no_args_is_help=True,
)
ingest.command()(prometheus)


@ingest.command()
def requests(
    source: Annotated[
        str,
        typer.Argument(
            help="File of requests (.parquet, .csv, .jsonl; 'logs/*.parquet' for several), or "
            "postgresql://user@host/database."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File of windows to write: .csv or .parquet.")
    ],
    window: Annotated[str, typer.Option(help="Length of a window: 500ms, 1s, 5m, 1h.")] = "1s",
    capacity: Annotated[
        int | None,
        typer.Option(help="Most requests in the system; lost ones are counted as Q=this."),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(help="Largest state with a column of its own; the others share one."),
    ] = None,
    sampling: Annotated[
        str,
        typer.Option(help="Count what each 'arrival' finds, or what a clock sees over 'time'."),
    ] = "arrival",
    every: Annotated[
        str | None,
        typer.Option(help="With --sampling time: time between looks; 1/1000 of a window."),
    ] = None,
    lost_status: Annotated[
        str | None,
        typer.Option(help="Statuses of lost requests, as in 5xx,429; unanswered ones are lost."),
    ] = None,
    warm_up: Annotated[str, typer.Option(help="Leave out windows that begin sooner.")] = "0s",
    align: Annotated[
        bool, typer.Option("--align", help="Begin windows at whole multiples of their length.")
    ] = False,
    steady_only: Annotated[
        bool, typer.Option("--steady-only", help="Leave out windows whose halves differ.")
    ] = False,
    bin_load: Annotated[
        float | None,
        typer.Option(help="Round loads to multiples of this, and add up windows of equal load."),
    ] = None,
    propagation: Annotated[
        str, typer.Option(help="Part of every response time that was spent on the way.")
    ] = "0s",
    arrival: Annotated[
        str, typer.Option(help="Column of arrival times, or of the times of looks.")
    ] = "arrival",
    response: Annotated[
        str | None, typer.Option(help="Column of response times; null without answer [response].")
    ] = None,
    completion: Annotated[
        str | None, typer.Option(help="Column of the times of answers, instead.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="Column of outcomes; 'status' if there is one.")
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of times that are numbers: s, ms, us, ns.")] = "s",
    response_unit: Annotated[
        str | None, typer.Option(help="Unit of response times, if another.")
    ] = None,
    gauge: Annotated[
        str | None,
        typer.Option(help="The rows are looks, not requests: column of requests in the system."),
    ] = None,
    load_rate: Annotated[
        str | None, typer.Option(help="With --gauge: column of requests per second.")
    ] = None,
    load_counter: Annotated[
        str | None, typer.Option(help="With --gauge: column of all requests so far.")
    ] = None,
    load_arrived: Annotated[
        str | None, typer.Option(help="With --gauge: column of requests since the look before.")
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(help=f"Format, if the ending does not say it: {', '.join(format_names())}."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table of the database.")] = None,
    query: Annotated[str | None, typer.Option(help="Query of the database, instead.")] = None,
    engine: Annotated[
        str, typer.Option(help="duckdb, spark or spark:MASTER, as in spark:spark://host:7077.")
    ] = "duckdb",
    memory: Annotated[
        str | None, typer.Option(help="Memory of the engine, as in 4GB; the rest goes to disk.")
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Turn requests, or looks at a gauge, into windows that `stationary fit` reads as they are.

    stationary ingest 'logs/*.parquet' -o windows.csv --window 1s --capacity 20 --lost-status 5xx

    stationary ingest metrics.csv -o windows.csv --window 1m --arrival time --gauge in_flight
    --load-counter requests_total

    Exit codes: 0 done; 2 bad input.
    """
    from stationary.cli._show import stages
    from stationary.data.states import Sampling, as_sampling
    from stationary.ingest import Columns, Cut, Source, windows_from_events, windows_from_gauge
    from stationary.ingest.result import check_output
    from stationary.terms.spans import parse_span

    check_output(output)
    check_new(output, overwrite)
    columns = Columns(
        arrival,
        response,
        completion,
        status,
        _unit(unit, "--unit"),
        None if response_unit is None else _unit(response_unit, "--response-unit"),
    )
    told = _load(gauge, load_rate, load_counter, load_arrived)
    cut = Cut(
        window=parse_span(window, "--window"),
        sampling=as_sampling(sampling) if gauge is None else Sampling.TIME,
        every=None if every is None else parse_span(every, "--every"),
        capacity=capacity,
        most=most,
        warm_up=parse_span(warm_up, "--warm-up"),
        align=align,
        propagation=parse_span(propagation, "--propagation"),
        lost_status=() if lost_status is None else tuple(lost_status.split(",")),
        bin_load=bin_load,
        steady_only=steady_only,
    )
    place = Source(source, columns, format, table, query)
    # A database is its own engine, unless somebody insists.
    where = None if (engine, memory) == ("duckdb", None) else _engine(engine, memory)
    with stages() as progress:
        if gauge is not None and told is not None:
            made = windows_from_gauge(place, gauge, told, cut, where, progress)
        else:
            made = windows_from_events(place, cut, where, progress)
    finish(made, output, capacity, json)


def _unit(text: str, what: str) -> Unit:
    from stationary.terms.spans import Unit

    try:
        return Unit(text)
    except ValueError:
        raise InputError(f"{what} is one of s, ms, us, ns; got {text!r}") from None


def _load(
    gauge: str | None, rate: str | None, counter: str | None, arrived: str | None
) -> Load | None:
    from stationary.ingest.gauge import Arrived, Counter, Rate

    kinds = ((Rate, rate), (Counter, counter), (Arrived, arrived))
    given = [kind(column) for kind, column in kinds if column is not None]
    if len(given) != (gauge is not None):
        raise InputError(
            "with --gauge, say once what tells the load: --load-rate, --load-counter or "
            "--load-arrived; without it, requests are counted"
        )
    return given[0] if given else None


def _engine(text: str, memory: str | None) -> Engine:
    from stationary.ingest import DuckDB, Spark

    name, _, master = text.partition(":")
    if name == "duckdb" and not master:
        return DuckDB(memory)
    if name == "spark":
        return Spark(master or None, memory)
    raise InputError(f"--engine is duckdb, spark or spark:MASTER; got {text!r}")
