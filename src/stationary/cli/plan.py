"""``stationary plan``: from a log, a table or a Prometheus to an answer and a report."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import stationary as st
from stationary import words
from stationary.cli._options import (
    Asking,
    Reading,
    RunFolder,
    System,
    command_line,
    command_of,
    use_one_thread,
)
from stationary.cli._records import as_json, plan_record
from stationary.cli._say import say
from stationary.cli._show import progress_bar, stages
from stationary.cli._sources import Metrics, Place, Requests
from stationary.output.folders import REPORT
from stationary.terms.growth import Growth
from stationary.terms.measures import check_times
from stationary.terms.slo import as_slos

if TYPE_CHECKING:
    from collections.abc import Sequence

_USUAL = "loss<0.1%"  # the SLO of a plan for which none was given


@command_of
def plan(
    *,
    source: str,
    system: System,
    asking: Asking,
    growth: str | None = None,
    title: str = "",
    unit: str = "",
    requests: Requests,
    metrics: Metrics,
    reading: Reading,
    level: float = 0.95,
    folder: RunFolder,
    json: bool = False,
    seed: int = 0,
) -> None:
    """Say how much load a system takes: from a log to an answer and a report to mail.

    stationary plan access.log --servers 4 --capacity 68 --slo 'p99<200ms' --slo 'loss<0.1%'
    -o plan/

    stationary plan windows.csv --servers 1 --capacity 20 --slo 'loss<1%' --growth 3%/month

    Exit codes: 0 the present load meets every SLO; 1 it does not, or the answer is not to be
    trusted; 2 bad input.

    Arguments
    ---------
    source: An access log, a CSV or Parquet file of requests or of windows,
        postgresql://user@host/database, or the address of a Prometheus, http://...

    Options
    -------
    growth: How the load grows, as in 3%/month: when is the limit reached?
    title: Title of the report.
    unit: Unit of the loads in the answer; req/s by default, but for windows.
    level: Coverage of the intervals.
    output: Folder for the plan and its report.html.
    seed: Seed of draws and starts.
    """
    asking.check(level, of_run=True, of_queues=True)
    grows = None if growth is None else Growth.parse(growth)
    known = system.known()
    folder.check()
    place = Place(source, requests, metrics, reading)
    place.check()
    if not place.holds_windows:  # times of requests and of a Prometheus are in seconds
        check_times(asking.slos)
    use_one_thread()

    with stages() as progress:
        progress("reading the data")
        found = place.read(known.get("servers", []), known.get("capacity", []), progress)
    slos = asking.slos or as_slos(_USUAL)
    with progress_bar("model", 4) as bar:
        made = st.plan(
            found, slo=slos, present=asking.present, level=level, seed=seed, progress=bar, **known
        )
    said = {"title": title, "unit": unit, "growth": growth or ""}
    given = {"command": command_line(), **{name: text for name, text in said.items() if text}}
    with stages() as progress:
        progress("finding the limit of each SLO")
        made = made.having(recipe={**made.recipe, **given})
        limit, alone = made.limit, made.limits
        folder.save(made)
        if folder.output is not None:
            progress("writing the report")
            made.report(folder.output / REPORT)
    if json:
        rows = made.forecast(_loads(limit)).to_dict("records")
        say(as_json(plan_record(made, limit, alone, rows, found.notes)))
    else:
        notes = [*words.warned(made), *found.notes]
        if not asking.slo:
            notes.insert(
                0, f"no SLO was given: this is for {_USUAL}; give yours, as in --slo 'p99<200ms'"
            )
        missing = [f"--{name}" for name in made.question.missing if name != "patience"]
        advice = _advice(folder.output, limit.trusted, missing)
        say(words.plan_screen(made, limit, alone, notes, advice, grows))
    if not limit.holds:
        raise typer.Exit(1)


def _advice(folder: Path | None, trusted: bool, missing: Sequence[str]) -> str:
    """Say what to do with the answer: first of all, to give what only the user knows."""
    parts = [f"plan again with {' and '.join(missing)}"] if missing else []
    if folder is None:
        return "; ".join([*parts, "add -o plan/ to keep this plan and to write a report to mail"])
    name = shlex.quote(str(folder))
    then = f"forecast {name} --what-if servers=+1" if trusted else f"explain {name}"
    return "; ".join([*parts, f"open {folder / REPORT}", f"stationary {then}"])


def _loads(limit: st.Limit) -> list[float]:
    """Return round loads from below the present one to beyond the limit, for programs."""
    from stationary.output.report.forecasts import round_loads

    high = limit.high if 0 < limit.high < math.inf else 2 * limit.present
    return round_loads(0.5 * min(limit.present, high), 1.2 * max(limit.present, high))
