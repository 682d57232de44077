"""Requests to windows, at any size, on any engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stationary.errors import InputError
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, lay
from stationary.ingest.engines import DuckDB, Engine, Postgres, Session
from stationary.ingest.occupancy import has_status, sweep
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Source, open_requests
from stationary.ingest.tally import tally

_FAILURES = "^(5[0-9][0-9]|429)$"

Progress = Callable[[str], None]


def windows_from_events(
    source: Source, cut: Cut, engine: Engine | None = None, progress: Progress | None = None
) -> Ingested:
    r"""Count the requests in the system, at every arrival or at regular times, in every window.

    Parameters
    ----------
    source : Source
        Where the requests are.
    cut : Cut
        Which windows, which states.
    engine : Engine, optional
        Where the query runs: `DuckDB` by default, a database where the source is one.
    progress : callable, optional
        Called with what is being done.

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
        report("checking the rows")
        requests = open_requests(session, source)
        notes = _about_outcomes(session, requests, cut)
        grid = lay(cut, requests)
        report(f"sorting {requests.count:,} requests into {grid.windows:,} windows")
        levels = sweep(session, requests, cut, grid)
        report("counting")
        made = tally(session, levels, cut, grid, requests)
    return replace(made, notes=(*made.notes, *notes))


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
            f"{requests.name}: lost_status (--lost-status {asked}) needs outcomes, and there is no "
            f"column 'status'; name the column they are in with --status"
        )
    if not requests.has_status:
        return []
    table = requests.table
    if cut.lost_pattern is not None:
        lost = table.filter(has_status(table, cut.lost_pattern)).limit(1)
        if len(session.fetch(lost, requests.name)):
            return []
        return [f"no request has the status {asked}: is --lost-status right?"]
    failed = table.filter(table.response.notnull() & has_status(table, _FAILURES))
    count = session.fetch_row(failed.aggregate(n=failed.count()), requests.name)["n"]
    if not count:
        return []
    return [
        f"{count} requests have a status of failure (5xx or 429) and count as answered; say which "
        f"are lost with --lost-status, as in 5xx,429"
    ]
