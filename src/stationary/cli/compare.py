"""``stationary compare``: the model ladder, backtested on held-out heavier load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stationary.cli._options import (
    Cluster,
    Counts,
    DropEmpty,
    Duration,
    Jobs,
    Json,
    Level,
    Loads,
    Observe,
    Present,
    Sampling,
    Slo,
    WindowsFile,
    X,
    command_line,
    read,
)
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from stationary.limits import Limit
    from stationary.selection import Comparison


def compare(
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
    x: X = "load",
    counts: Counts = "Q={}",
    observe: Observe = None,
    loads: Loads = None,
    sampling: Sampling = None,
    duration: Duration = None,
    drop_empty: DropEmpty = False,
    ahead: Annotated[
        str | None,
        typer.Option(help="Also print the pooled forecast at these loads, as in 20:60:10."),
    ] = None,
    slo: Slo = None,
    present: Present = None,
    level: Level = 0.95,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for a run of the recommended model."),
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
    from dataclasses import replace

    from stationary.cli._parse import parse_bound, parse_loads, parse_model
    from stationary.cli._show import as_json, progress_bar
    from stationary.inference import check_level
    from stationary.ladder import ladder
    from stationary.limits import check_bound, check_present
    from stationary.runs import check_target
    from stationary.selection import compare as run

    check_level(level)
    if output is not None:
        check_target(output, overwrite)
    bound = None if slo is None else dict([parse_bound(slo)])
    if present is not None and bound is None:
        raise InputError("--present is the load that must meet a limit: give one with --slo")
    at = None if ahead is None else parse_loads(ahead)
    named = {text: parse_model(text) for text in model or []}
    states = next(iter(named.values())).states if named else ()
    data = read(windows, x, counts, observe, loads, sampling, duration, drop_empty, states=states)
    chains = named or ladder(data, servers, capacity)
    for measure, value in (bound or {}).items():
        check_bound(next(iter(chains.values())), measure, value)
    if present is not None:
        check_present(present)
    with progress_bar("model", len(chains)) as bar:
        found = run(
            chains, data, starts=starts, seed=seed, jobs=jobs, cluster=cluster, progress=bar
        )
    frame = None if at is None or not any(found.weights.values()) else found.forecast(at, level)
    limit = None
    if bound is not None and any(found.weights.values()):
        limit = found.max_load(level, present, **bound)
    if output is not None and found.recommended is not None:
        fit = found.fits[found.recommended]
        replace(fit, recipe={**fit.recipe, "command": command_line()}).save(output, overwrite)
    if json:
        typer.echo(as_json(_record(found, frame, limit)))
    else:
        _show(found, frame, limit, present, level)
        if output is not None and found.recommended is not None:
            typer.echo(f"\nsaved {found.recommended} in {output}")
    if found.recommended is None or (limit is not None and not limit.met_at(limit.present)):
        raise typer.Exit(1)


def _record(found: Comparison, frame: pd.DataFrame | None, limit: Limit | None) -> dict[str, Any]:
    from stationary.cli._show import limit_record

    return {
        "recommended": found.recommended,
        "reason": found.reason,
        "models": found.table.to_dict("records"),
        "forecast": [] if frame is None else frame.to_dict("records"),
        "limit": limit_record(limit),
    }


def _show(
    found: Comparison,
    frame: pd.DataFrame | None,
    limit: Limit | None,
    present: float | None,
    level: float,
) -> None:
    from textwrap import fill

    from stationary.cli._show import forecast_table, number, table, verdict

    best = found.table["backtest"].min()
    rows = []
    for row in found.table.to_dict("records"):
        cells = [number(row[name]) for name in ("parameters", "nll", "aic", "bic")]
        gap = row["backtest"] - best
        cells.append("equal" if gap < 1e-6 else f"{gap:.2g} +- {row['backtest_error']:.1g}")
        cells += [f"{row['misplaced']:.1%}", f"{row['weight']:.2f}"]
        shown = ["" if "nan" in cell else cell for cell in cells]  # what does not apply
        rows.append([row["model"], row["kind"], *shown, row["note"]])
    columns = [
        *("model", "kind", "parameters", "nll", "aic", "bic"),
        *("nats a count behind", "misplaced", "weight", "note"),
    ]
    table("Fitted to light load, scored on heavier", columns, rows, left=2)
    typer.echo("nll, aic and bic are of all windows and take counts as independent; the ranking is")
    typer.echo("by the held-out windows: nats a count behind the best, and counts put wrongly.")
    typer.echo(f"\n{fill(found.reason, 100)}")
    if frame is not None:
        typer.echo()
        forecast_table(frame, f"Pooled forecast with {100 * level:g}% intervals")
    if limit is not None:
        typer.echo(f"\nPooled over the models: {limit}.")
        typer.echo(verdict(limit, present))
