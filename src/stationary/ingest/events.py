"""Requests to windows, at any size, on any engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stationary._support.arguments import explained
from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.columns import Rows, find
from stationary.ingest.cut import Cut, Grid, lay
from stationary.ingest.engines import DuckDB, Engine, Postgres, Session
from stationary.ingest.lengths import choose
from stationary.ingest.occupancy import has_status, is_lost, query
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Source, open_requests, open_table
from stationary.ingest.sweep import SERVERS, OutOfOrderError, Requests, Sweep, Swept, in_order
from stationary.ingest.tally import tally
from stationary.words import seconds

if TYPE_CHECKING:
    import pandas as pd

_FAILURES = "^(5[0-9][0-9]|429)$"

_MOST_CLASSES = 10
_STEP = 1.0
"""Seconds that times must step back by, in the order of rows, for a clock to have been set back."""
_MOST_FALLS = 10
"""Rows that step back more often are not in order."""

_MOST_TWICE = 7200.0
"""Seconds by which a clock is set back at most. Longer times that came twice, or half of a log, are
those of several servers, whose logs stand one after the other in a file."""

Progress = Callable[[str], None]


@explained
def windows_from_events(
    source: Source, cut: Cut, engine: Engine | None = None, progress: Progress | None = None
) -> Ingested:
    r"""Count the requests in the system, at every arrival or at regular times, in every window.

    The engine is `DuckDB` by default, and a database where the source is one. ``progress`` is
    called with what is being done.

    Examples
    --------
    Three requests, 0.1 s apart, each served for 0.25 s, the third lost; then one per second:

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "requests.csv"
    >>> _ = file.write_text("arrival,response\n0,.25\n.1,.4\n.2,\n1.1,.25\n2.1,.25\n")
    >>> made = windows_from_events(Source(str(file)), Cut(window=1.0, capacity=2))
    >>> made.table[["load", "sent", "lost", "Q=0", "Q=1", "Q=2"]].to_numpy().tolist()
    [[3.0, 3.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]]
    """
    report = progress or (lambda _: None)
    with engine_for(source, engine).open() as session:
        report("reading the rows")
        made = _windows(session, open_requests(session, source), cut, report)
    return replace(made, notes=(*made.notes, *session.notes))


@explained
def windows_by(
    source: Source,
    cut: Cut,
    column: str,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[pd.DataFrame, dict[str, Ingested]]:
    """Make windows of each class of requests, such as each endpoint.

    The system of a class holds the requests of this class only. Numbers in a ``path`` are taken
    for one another.

    Returns a row per class, busiest first, with ``requests`` and their ``share`` of the time in the
    system; and the windows of the ten busiest.
    """
    report = progress or (lambda _: None)
    with engine_for(source, engine).open() as session:
        report("reading the rows")
        raw = open_table(session, source)
        value = find(raw, column, source.name).cast("string")
        if column == "path":
            value = value.re_replace("/[0-9]+", "/*")
        raw = raw.mutate(class_=value)
        name = source.columns.response or "response"
        timed = name in raw.columns and raw[name].type().is_numeric()
        time = raw[name].sum() if timed else raw.count()
        sums = raw.group_by("class_").aggregate(requests=raw.count(), share=time)
        found = session.fetch(sums, source.name).dropna(subset="class_").set_index("class_")
        found["share"] = found["share"].fillna(0).astype(float)
        found["share"] /= max(found["share"].sum(), 1e-300)
        found = found.sort_values(["share", "requests"], ascending=False)
        made, said = dict[str, Ingested](), list(session.notes)
        for each in found.index[:_MOST_CLASSES]:
            session.notes[:] = said
            part = raw.filter(raw.class_ == each)
            try:
                one = _windows(session, open_requests(session, source, part), cut, report)
            except InputError as error:
                found.loc[each, "skipped"] = str(error)
                continue
            made[each] = replace(one, notes=(*one.notes, *session.notes))
    if not made:
        raise InputError(f"{source.name}: no class of {column!r} has enough requests for windows")
    return found, made


def _windows(session: Session, requests: Rows, cut: Cut, report: Progress) -> Ingested:
    notes = _about_outcomes(session, requests, cut)
    if cut.window is None:
        report("choosing the length of a window")
        length, why = choose(session, requests)
        cut, notes = replace(cut, window=length), [why, *notes]
    if requests.mean:  # so that a wrong unit shows
        mean, longest = seconds(requests.mean), seconds(requests.longest)
        notes.insert(0, f"responses took {mean} on average, and {longest} at most")
    grid = lay(cut, requests)
    report(f"sorting {requests.count:,} requests into {grid.windows:,} windows")
    unusable = dict[str, list[int]]()
    if session.streams:
        found = _stream(session, requests, cut, grid, unusable)
    else:
        found = query(session, requests, cut, grid)
    report("counting")
    made = tally(found, cut, grid, requests, unusable=unusable)
    return replace(made, notes=(*made.notes, *notes))


def _stream(
    session: Session, requests: Rows, cut: Cut, grid: Grid, unusable: dict[str, list[int]]
) -> Swept:
    """Sweep over requests as they are read; they are sorted first unless they are in order.

    Windows of times that came twice are added to ``unusable``.
    """
    table = requests.table
    table = table.select("arrival", "departure", "response", lost=is_lost(table, cut))
    samples = cut.samples if cut.sampling is Sampling.TIME else 0
    falls = list[tuple[float, float]]()
    for ordered in (table, table.order_by("arrival")):
        sweep = Sweep(grid.origin, cut.length, grid.windows, samples, cut.servers or SERVERS)
        batches = _ahead(_requests(session, ordered, requests.name))
        if session.one_file and ordered is table:
            batches = _watched(batches, max(requests.longest, _STEP), falls)
        try:
            for rows in in_order(batches, requests.longest):
                sweep.add(rows)
        except OutOfOrderError:
            deque(batches, maxlen=0)  # which finds the other falls
            continue
        most = min(_MOST_TWICE, (requests.last - requests.first) / 2)
        for low, high in falls if len(falls) <= _MOST_FALLS else ():
            if high - low > most:
                continue
            first, last = (int((end - grid.origin) // cut.length) for end in (low, high))
            unusable.setdefault("the clock was set back", []).extend(range(first, last + 1))
            session.notes.append(
                f"the clock was set back by about {high - low:.0f} s; only the windows of times "
                "that came twice are left out"
            )
        return sweep.result()
    raise AssertionError("sorted rows were out of order")


def _watched(
    batches: Iterator[Requests], least: float, falls: list[tuple[float, float]]
) -> Iterator[Requests]:
    """Yield batches, and add to ``falls`` to which time and from which one the clock fell."""
    last = -np.inf
    for batch in batches:
        times = np.append(last, batch.arrival)
        at = np.flatnonzero(np.diff(times) < -least)[: _MOST_FALLS + 1]
        falls += zip(times[at + 1], times[at], strict=True)
        last = times[-1]
        yield batch


def _ahead(batches: Generator[Requests, None, None]) -> Iterator[Requests]:
    """Yield batches while a thread reads the next: the sweep leaves the interpreter to it."""
    with ThreadPoolExecutor(1) as reader:
        try:
            coming = reader.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = reader.submit(next, batches, None)
                yield batch
        finally:
            reader.submit(batches.close).result()  # an engine does one thing at a time


def _requests(session: Session, table: Any, name: str) -> Generator[Requests, None, None]:
    """Yield the rows of a table, a batch at a time."""
    for batch in session.stream(table, name):
        yield Requests._make(
            column.to_numpy(zero_copy_only=False).copy() for column in batch.columns
        )


def engine_for(source: Source, engine: Engine | None) -> Engine:
    """Return the engine that reads a source."""
    if not source.is_database:
        return engine or DuckDB()
    if engine is not None and not isinstance(engine, Postgres):
        raise InputError(
            f"a database runs its query itself; {engine!r} reads files: leave out --engine and "
            f"--memory, or engine="
        )
    return engine or Postgres(source.location)


def _about_outcomes(session: Session, requests: Rows, cut: Cut) -> list[str]:
    """Return notes on statuses; raise an error where they are needed and there are none."""
    asked = ",".join(cut.lost_status)
    if asked and not requests.has_status:
        raise InputError(
            f"{requests.name}: lost_status (--status-lost {asked}) needs outcomes, and there is no "
            f"column 'status'; name the column they are in with --status"
        )
    if not requests.has_status:
        return []
    table = requests.table
    found = table.filter(has_status(table, cut.lost_pattern or _FAILURES))
    if not asked:
        found = found.filter(found.response.notnull())
    count = session.fetch_row(found.aggregate(n=found.count()), requests.name)["n"]
    if asked:
        return [] if count else [f"no request has the status {asked}: is --status-lost right?"]
    if not count:
        return []
    return [
        f"{count} requests have a failure status (5xx or 429) and count as answered; say which "
        f"are lost with --status-lost, as in 5xx,429"
    ]
