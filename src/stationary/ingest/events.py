"""Requests to windows, at any size, on any engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stationary.errors import InputError
from stationary.ingest.cut import Cut, lay
from stationary.ingest.engines import DuckDB, Engine, Postgres, Session
from stationary.ingest.occupancy import levels, refused
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Requests, Source, open_source
from stationary.ingest.tally import Origin, tally

_FAILURES = "^(5[0-9][0-9]|429)$"

Progress = Callable[[str], None]


def windows_from_events(
    source: Source, cut: Cut, engine: Engine | None = None, progress: Progress | None = None
) -> Ingested:
    r"""Count what the requests of a log found, or what a clock would have seen, in every window.

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
    Three requests a tenth apart, each served 0.25, the third of them lost; then one a second:

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "requests.csv"
    >>> _ = file.write_text("arrival,response\n0,.25\n.1,.4\n.2,\n1.1,.25\n2.1,.25\n")
    >>> made = windows_from_events(Source(str(file)), Cut(window=1.0, capacity=2))
    >>> made.table[["load", "sent", "lost", "Q=0", "Q=1", "Q=2"]].to_numpy().tolist()
    [[3.0, 3.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]]
    """
    said = progress or (lambda _: None)
    with engine_for(source, engine).open() as session:
        said("checking the rows")
        requests = open_source(session, source)
        notes = _about_outcomes(session, requests, cut)
        grid = lay(cut, requests.rows, requests.first, requests.last, requests.base, requests.name)
        said(f"sorting {requests.rows:,} requests into {grid.windows:,} windows")
        met = levels(session, requests, cut, grid)
        said("counting")
        origin = Origin(requests.name, requests.rows, requests.base)
        made = tally(session, met, cut, grid, origin)
    return replace(made, notes=(*made.notes, *notes))


def engine_for(source: Source, engine: Engine | None) -> Engine:
    """Return the engine that reads a source."""
    if not source.is_database:
        return DuckDB() if engine is None else engine
    if engine is not None and not isinstance(engine, Postgres):
        raise InputError(
            f"a database runs its query itself; {engine!r} reads files: leave out --engine and "
            f"--memory, or engine="
        )
    return Postgres(source.location) if engine is None else engine


def _about_outcomes(session: Session, requests: Requests, cut: Cut) -> list[str]:
    """Return what to say where no outcome is that of a lost request; raise where there are none."""
    if cut.lost_pattern is None:
        if not requests.told:
            return []
        answered = requests.table.filter(requests.table.response.notnull())
        failed = answered.filter(refused(answered, _FAILURES))
        many = int(session.fetch(failed.aggregate(n=failed.count()), requests.name)["n"].iloc[0])
        if not many:
            return []
        return [
            f"{many} requests have a status of failure (5xx or 429) and count as answered; say "
            f"which are lost with --lost-status, as in 5xx,429"
        ]
    asked = ",".join(cut.lost_status)
    if not requests.told:
        raise InputError(
            f"{requests.name}: lost_status (--lost-status {asked}) needs outcomes, and there is no "
            f"column 'status'; name the column they are in with --status"
        )
    lost = requests.table.filter(refused(requests.table, cut.lost_pattern))
    if len(session.fetch(lost.limit(1), requests.name)):
        return []
    return [f"no request has the status {asked}: is --lost-status right?"]
