"""``stationary compare``: several models, tested on held-out heavier load."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import stationary as st
from stationary import words
from stationary.cli._models import ModelText
from stationary.cli._options import Asking, Reading, RunFolder, System, command_line, command_of
from stationary.cli._parse import parse_loads
from stationary.cli._records import as_json, comparison_record
from stationary.cli._say import prose, say
from stationary.cli._show import forecast_table, progress_bar, stages, table
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@command_of
def compare(
    *,
    windows: Path,
    model: list[str] | None = None,
    system: System,
    model_error: float | None = None,
    reading: Reading,
    ahead: str | None = None,
    asking: Asking,
    level: float = 0.95,
    folder: RunFolder,
    starts: int = 3,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | None = None,
    wide: bool = False,
    json: bool = False,
) -> None:
    """Compare models: fit each to the lightest loads, and score it on the heaviest measured.

    stationary compare windows.csv --servers 4 --capacity 24 --sampling arrival --slo 'loss<0.001'

    stationary compare windows.csv --model mmmk:capacity=20 --model erlang:phases=4,capacity=20

    Exit codes: 0 a model is recommended, and with --slo the present load meets the limit and the
    answer is to be trusted; 1 not so; 2 bad input.

    Options
    -------
    model: A model to compare, as in mmmk:servers=1,capacity=20 or tandem.toml; several times for
        several. By default those that suit --servers, --capacity and how the states were counted.
    servers: Servers of the default models, 1 by default; several candidates as 1,2,4.
    capacity: Most requests in the system, for the default models; a range as 17-21. Without it,
        the interval allows for what it may be.
    model_error: Standard deviation of the error of the speed in overload, as in 0.04; by default
        what recordings of real servers showed, see docs/trust.md.
    ahead: Also print the pooled forecast at these loads, as in 20:60:10.
    level: Coverage of the intervals.
    starts: Starting points of each fit.
    seed: Seed of the starts.
    """
    folder.check()
    if ahead is not None:
        parse_loads(ahead, 1.0)
    known = system.known()
    if model_error is not None and not 0 <= model_error < 1:
        raise InputError(f"--model-error is a share, as in 0.04; got {model_error!r}")
    texts = [ModelText(text) for text in model or []]
    for text in texts:
        text.check()
    asking.check(level, of_queues=all(text.is_queue for text in texts))
    reading.check(windows)

    from stationary.planning.limits import check_slos
    from stationary.trust.ladder import candidates, likely_capacities

    named = {text.text: text.model() for text in texts}
    data = reading.windows(windows, next(iter(named.values())).states if named else ())
    numbers, wait = known.get("servers", [1]), known.get("patience")
    likely = known.get("capacity") or likely_capacities(data, numbers, wait)
    chains = named or candidates(data, numbers, likely, wait)
    if asking.slos:
        check_slos(list(chains.values()), asking.slos)
    if not named and "capacity" not in known and wait is None:
        say(words.assumed_capacity(likely), err=True)
    with progress_bar("model", len(chains)) as bar:
        plan = st.compare(
            chains, data, starts=starts, seed=seed, jobs=jobs, cluster=cluster, progress=bar
        )
    guessed = tuple(name for name in ("capacity", "patience") if name not in known)
    missing = () if named else guessed
    question = replace(asking.question(level), missing=missing)
    usable = any(plan.weights.values())
    with stages() as progress:
        progress("pooling the models")
        plan = plan.having(recipe={"command": command_line()}, question=question)
        if model_error is not None and plan.discrepancy is not None:
            plan = plan.having(discrepancy=replace(plan.discrepancy, rate=model_error))
        frame = None
        if ahead is not None and usable:
            frame = plan.forecast(parse_loads(ahead, asking.present or plan.heaviest))
        limit = plan.limit if asking.slos and usable else None
        folder.save(plan)
    if json:
        say(as_json(comparison_record(plan, frame, limit)))
    else:
        _show(plan, frame, limit, wide)
        if folder.output is not None:
            say(f"\nsaved in {folder.output}; next: stationary report {folder.output}")
    if plan.recommended is None or (limit is not None and not limit.holds):
        raise typer.Exit(1)


def _show(plan: st.Plan, frame: pd.DataFrame | None, limit: st.Limit | None, wide: bool) -> None:
    ranking = plan.ranking()
    best = ranking["backtest"].min()
    rows = []
    for row in ranking.to_dict("records"):
        gap = row["backtest"] - best
        behind = "equal" if gap < 1e-6 else f"{gap:.2g} +- {row['backtest_error']:.1g}"
        cells = {name: words.number(row[name]) for name in ("parameters", "nll", "aic", "bic")}
        cells |= {"backtest": behind, "misplaced": f"{row['misplaced']:.1%}"}
        cells["weight"] = f"{row['weight']:.2f}"
        # What does not apply to a model stays empty.
        shown = ("" if math.isnan(row[name]) else text for name, text in cells.items())
        rows.append([row["model"], row["kind"], *shown])
    columns = [
        *("model", "kind", "parameters", "nll", "aic", "bic"),
        *("nats per count behind", "misplaced", "weight"),
    ]
    table("Fitted to light load, scored on heavier", columns, rows, 2, wide, more=columns[1:6])
    for name, note in zip(ranking["model"], ranking["note"], strict=True):
        if note:
            prose(f"{name}: {note}.")
    prose(words.RANKED)
    say()
    prose(words.choice(plan.comparison.choice))
    if frame is not None:
        say()
        title = f"Pooled forecast with {100 * plan.question.level:g}% intervals"
        forecast_table(frame, title, wide)
    if limit is not None:
        answering = [name for name, weight in plan.weights.items() if weight > 0]
        say()
        prose(words.limit_of(limit, answering))
        prose(words.headroom(limit))
        say()
        for line in words.grounds(plan, limit):
            say(line)
    for note in words.warned(plan):
        say("\n".join(words.bullet(words.sentence(note))))
