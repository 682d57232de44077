"""``stationary ingest``: from a log of requests, or samples of a gauge, to windows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from typer.core import TyperGroup

import stationary as st
from stationary.cli._options import check_new, command_of, plan_command
from stationary.cli._records import as_json
from stationary.cli._say import say
from stationary.cli._show import stages
from stationary.cli._show import table as show_table
from stationary.errors import InputError
from stationary.terms.candidates import parse_candidates
from stationary.terms.spans import Unit, parse_span
from stationary.words import sentence

if TYPE_CHECKING:
    import pandas as pd

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
    window: Length of a window: 500ms, 1s, 5m, 1h; for requests, one is chosen by default.
    capacity: Most requests in the system; lost ones are counted as Q=this.
    most: Largest state with a column of its own; the others share one.
    sampling: Count the state that each arriving request finds, or the state at regular times.
    every: With --sampling time: time between samples; 1/1000 of a window by default.
    status_lost: Statuses of lost requests, as in 5xx,429; unanswered ones are lost.
    warm_up: Leave out windows that begin sooner.
    align: Begin windows at whole multiples of their length.
    steady_only: Leave out windows whose halves differ.
    servers: Numbers of servers for which service times are written, as in 4 or 1,2,4.
    """

    window: str | None = None
    capacity: int | None = None
    most: int | None = None
    sampling: Literal["arrival", "time"] = "arrival"
    every: str | None = None
    status_lost: str | None = None
    warm_up: str = "0s"
    align: bool = False
    steady_only: bool = False
    servers: str | None = None

    def spans(self) -> dict[str, Any]:
        """Return the lengths of time, in seconds."""
        texts = {"window": self.window, "every": self.every, "warm-up": self.warm_up}
        return {
            name.replace("-", "_"): parse_span(text, f"--{name}")
            for name, text in texts.items()
            if text is not None
        }

    def cut(self, gauge: bool) -> st.ingest.Cut:
        """Return how to cut requests, or samples of a gauge, which are taken at regular times."""
        from stationary.data.states import Sampling, as_sampling

        return st.ingest.Cut(
            sampling=Sampling.TIME if gauge else as_sampling(self.sampling),
            lost_status=() if self.status_lost is None else tuple(self.status_lost.split(",")),
            capacity=self.capacity,
            most=self.most,
            align=self.align,
            steady_only=self.steady_only,
            servers=() if self.servers is None else parse_candidates(self.servers, "--servers"),
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
    unit: Unit of times that are numbers; found by their size by default.
    response_unit: Unit of response times, if another.
    """

    arrival: str = "arrival"
    response: str | None = None
    completion: str | None = None
    status: str | None = None
    unit: Unit | None = None
    response_unit: Unit | None = None


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
        if self == Running():
            return None
        name, _, master = self.engine.partition(":")
        if name == "duckdb" and not master:
            return st.ingest.DuckDB(self.memory)
        if name == "spark":
            return st.ingest.Spark(master or None, self.memory)
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
    where: list[str] | None = None,
    by: str | None = None,
    running: Running,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Turn requests, or samples of a gauge, into windows that `stationary fit` reads as they are.

    stationary ingest 'logs/*.parquet' -o windows.csv --window 1s --capacity 20 --status-lost 5xx

    stationary ingest '/var/log/haproxy.log*' -o windows.csv --where 'path ~ ^/api' --by backend

    stationary ingest metrics.csv -o windows.csv --window 1m --arrival time --gauge in_flight
    --load-counter requests_total

    Exit codes: 0 done; 2 bad input.

    Arguments
    ---------
    source: File of requests ('logs/*.parquet' for several), access log, or
        postgresql://user@host/database.

    Options
    -------
    output: File of windows to write: .csv or .parquet.
    table: Table of the database.
    query: Query of the database, instead.
    where: Condition on a column that rows must meet, as in 'path ~ ^/api' or 'status < 500'; given
        several times, rows must meet all.
    by: Column whose values are classes of requests, such as path; each gets a file of windows.
    """
    check_new(output, overwrite, *ENDINGS)
    cutting.spans()
    gauging.check()

    columns = st.ingest.Columns(**asdict(naming))
    place = st.ingest.Source(source, columns, format, table, query, tuple(where or ()))
    place.check()
    cut, engine = cutting.cut(gauging.gauge is not None), running.made()
    with stages() as progress:
        if gauging.gauge is not None:
            made = st.ingest.windows_from_gauge(
                place, gauging.gauge, gauging.load(), cut, engine, progress
            )
        elif by is not None:
            classes, each = st.ingest.windows_by(place, cut, by, engine, progress)
        else:
            made = st.ingest.windows_from_events(place, cut, engine, progress)
    if by is None or gauging.gauge is not None:
        finish(made, output, cutting.capacity, json)
    else:
        _finish_classes(classes, each, output, by, overwrite, json)


def _finish_classes(
    classes: pd.DataFrame,
    each: Mapping[str, st.ingest.Ingested],
    output: Path,
    by: str,
    overwrite: bool,
    json: bool,
) -> None:
    """Write a file of windows per class, and say which classes matter."""
    files = dict[str, Path]()
    for name in each:
        plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:80] or "other"
        # Names may differ only in what is left out here.
        stems = (f"{plain}-{k}".removesuffix("-1") for k in range(1, 2 + len(each)))
        paths = (output.with_stem(f"{output.stem}-{stem}") for stem in stems)
        files[name] = next(path for path in paths if path not in files.values())
    for file in files.values():
        check_new(file, overwrite, *ENDINGS)
    for name, made in each.items():
        made.write(files[name])
    if json:
        records = {n: {**made.record(), "output": str(files[n])} for n, made in each.items()}
        say(as_json({"by": by, "classes": records}))
        return
    head: list[str] = [by, "requests", "share of the time in the system", "file"]
    rows = []
    for name, row in classes.head(20).iterrows():
        made_of = files[name].name if name in files else ""
        rows.append([str(name), f"{row['requests']:.0f}", f"{row['share']:.1%}", made_of])
    show_table(f"requests by {by}", head, rows)
    if len(classes) > len(files):
        left = classes.drop(index=list(files))
        say(f"no file for {len(left)} more, with {left['share'].sum():.1%} of the time")


def finish(made: st.ingest.Ingested, output: Path, capacity: int | None, json: bool) -> None:
    """Write windows; say what is in them, for people or for programs."""
    made.write(output)
    if json:
        say(as_json({**made.record(), "output": str(output)}))
        return
    loads = made.table["load"]
    say(
        f"wrote {len(made.table)} windows to {output}: load {loads.min():g} to {loads.max():g}, "
        f"of {made.rows} rows; sampling={made.sampling}"
        f", duration={made.duration:g}"
    )
    rows = [[item.why, str(item.windows), str(item.rows)] for item in made.dropped]
    if rows:
        show_table("left out", ["why", "windows", "rows"], rows)
    for note in made.notes:
        say(sentence(note))
    if "start" in made.table and len(made.table) > 1:
        say(f"load over time: {_sparkline(made.table['start'], loads)}")
    say(f"next: {plan_command(output, made.likely_servers(), capacity or made.likely_capacity())}")


def _sparkline(start: pd.Series, load: pd.Series, width: int = 60) -> str:
    """Return the load over time in one line of text, from the least to the most; gaps are blank."""
    begin, end = start.min(), start.max()
    width = min(width, 1 + round((end - begin) / start.diff().median()))
    place = ((start - begin) / max(end - begin, 1e-9) * (width - 1)).round().astype(int)
    means = load.groupby(place).mean()
    low, high = means.min(), means.max()
    marks = "▁▂▃▄▅▆▇█"
    steps = ((means - low) / max(high - low, 1e-9) * (len(marks) - 1)).round().astype(int)
    line = "".join(marks[steps[k]] if k in steps.index else " " for k in range(width))
    return f"{line} ({low:.3g} to {high:.3g})"
