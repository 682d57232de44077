"""``stationary compare``: the model ladder, backtested on held-out heavier load."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stationary.cli._options import (
    Asking,
    Cluster,
    Jobs,
    Json,
    Level,
    Reading,
    WindowsFile,
    command_line,
    grouped,
)

if TYPE_CHECKING:
    import pandas as pd

    from stationary.facade import Plan
    from stationary.planning.limits import Limit


@grouped
def compare(
    *,
    windows: WindowsFile,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A model of the ladder, as in mmmk:servers=1,capacity=20 or tandem.toml; several "
            "times for several. By default those that go with --servers, --capacity and who "
            "counted."
        ),
    ] = None,
    servers: Annotated[int, typer.Option(help="Servers of the default ladder.")] = 1,
    capacity: Annotated[
        int, typer.Option(help="Most requests in the system, for the default ladder.")
    ] = 20,
    reading: Reading,
    ahead: Annotated[
        str | None,
        typer.Option(help="Also print the pooled forecast at these loads, as in 20:60:10."),
    ] = None,
    asking: Asking,
    level: Level = 0.95,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for a run of all models."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run that is already in the folder.")
    ] = False,
    starts: Annotated[int, typer.Option(help="Starting points of each fit.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the starts.")] = 0,
    jobs: Jobs = -1,
    cluster: Cluster = None,
    json: Json = False,
) -> None:
    """Compare models: fit each to the lightest loads, and score it on the heaviest measured.

    stationary compare windows.csv --servers 4 --capacity 24 --sampling arrival --slo 'loss<0.001'

    stationary compare windows.csv --model mmmk:capacity=20 --model erlang:phases=4,capacity=20

    Exit codes: 0 a model is recommended, and the present load meets the limit, if one is given; 1
    not so; 2 bad input.
    """
    slos, present = asking.slos, asking.present

    from stationary.cli._parse import parse_loads, parse_model
    from stationary.cli._show import as_json, progress_bar, stages
    from stationary.output.folders import check_target
    from stationary.planner import compare as run
    from stationary.planning.limits import check_slos
    from stationary.planning.record import Question
    from stationary.terms.slo import check_level, check_present
    from stationary.trust.ladder import ladder

    check_level(level)
    if output is not None:
        check_target(output, overwrite)
    if present is not None:
        check_present(present)
    at = None if ahead is None else parse_loads(ahead)
    named = {text: parse_model(text) for text in model or []}
    states = next(iter(named.values())).states if named else ()
    data = reading.windows(windows, states)
    chains = named or ladder(data, servers, capacity)
    if slos:
        check_slos(list(chains.values()), slos)
    with progress_bar("model", len(chains)) as bar:
        plan = run(chains, data, starts=starts, seed=seed, jobs=jobs, cluster=cluster, progress=bar)
    usable = any(plan.weights.values())
    with stages() as say:
        say("pooling the models")
        plan = plan.having(
            recipe={"command": command_line()}, question=Question(slos, present, level)
        )
        frame = plan.forecast(at) if at is not None and usable else None
        limit = plan.limit if slos and usable else None
        if output is not None:
            plan.save(output, overwrite)
    if json:
        typer.echo(as_json(_record(plan, frame, limit)))
    else:
        _show(plan, frame, limit)
        if output is not None:
            typer.echo(f"\nsaved in {output}; next: stationary report {output}")
    if plan.recommended is None or (limit is not None and not limit.met_at(limit.present)):
        raise typer.Exit(1)


def _record(plan: Plan, frame: pd.DataFrame | None, limit: Limit | None) -> dict[str, Any]:
    from stationary import words
    from stationary.cli._show import limit_record

    return {
        "recommended": plan.recommended,
        "reason": words.choice(plan.comparison.choice),
        "models": plan.ranking().to_dict("records"),
        "forecast": [] if frame is None else frame.to_dict("records"),
        "limit": limit_record(limit),
    }


def _show(plan: Plan, frame: pd.DataFrame | None, limit: Limit | None) -> None:
    from textwrap import fill

    from stationary import words
    from stationary.cli._show import forecast_table, table

    ranking = plan.ranking()
    best = ranking["backtest"].min()
    rows = [
        [row["model"], row["kind"], *_cells(row, best), row["note"]]
        for row in ranking.to_dict("records")
    ]
    columns = [
        *("model", "kind", "parameters", "nll", "aic", "bic"),
        *("nats per count behind", "misplaced", "weight", "note"),
    ]
    table("Fitted to light load, scored on heavier", columns, rows, left=2)
    typer.echo("nll, aic and bic are of all windows and take counts as independent; the ranking is")
    typer.echo("by the held-out windows: nats per count behind the best, and counts put wrongly.")
    typer.echo(f"\n{fill(words.choice(plan.comparison.choice), 100)}")
    if frame is not None:
        typer.echo()
        forecast_table(frame, f"Pooled forecast with {100 * plan.question.level:g}% intervals")
    if limit is not None:
        typer.echo(f"\nPooled over the models: {words.limit(limit)}.")
        typer.echo(words.verdict(limit))


def _cells(row: Mapping[str, float], best: float) -> list[str]:
    """Return the numbers of a model; what does not apply to it stays empty."""
    from stationary.words import number

    def shown(name: str, text: Callable[[float], str]) -> str:
        return "" if math.isnan(row[name]) else text(row[name])

    def behind(score: float) -> str:
        gap = score - best
        return "equal" if gap < 1e-6 else f"{gap:.2g} +- {row['backtest_error']:.1g}"

    return [
        *(shown(name, number) for name in ("parameters", "nll", "aic", "bic")),
        shown("backtest", behind),
        shown("misplaced", "{:.1%}".format),
        shown("weight", "{:.2f}".format),
    ]
