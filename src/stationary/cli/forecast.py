"""``stationary forecast``: measures over load, and the largest load, from a saved run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stationary.cli._options import Asking, Json, Overwrite, Run, RunLevel, check_new, grouped
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from stationary.planning.experiment import Experiment
    from stationary.planning.limits import Limit
    from stationary.planning.what_if import Change


@grouped
def forecast(
    *,
    run: Run,
    x: Annotated[
        list[str] | None,
        typer.Option(help="Loads: 10:60:2 or 10,20,30; name=loads for each of several inputs."),
    ] = None,
    asking: Asking,
    what_if: Annotated[
        str | None,
        typer.Option(
            help="Forecast a changed system: servers=5 or servers=+1, capacity=+50%, faster=1.2 "
            "(every server), several after commas."
        ),
    ] = None,
    next_experiment: Annotated[
        bool,
        typer.Option(
            "--next-experiment",
            help="With --slo: at which load would ten more windows narrow the limit most?",
        ),
    ] = False,
    level: RunLevel = None,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV for programs.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also write it here, as .csv, .json or .parquet."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw the measure here, as .png, .svg or .pdf.")
    ] = None,
    measure: Annotated[str, typer.Option(help="Measure to draw.")] = "loss",
    overwrite: Overwrite = False,
) -> None:
    """Forecast loss, queue, throughput, response time and utilisation at loads of your choice.

    stationary forecast run/ --x 10:60:2

    stationary forecast run/ --slo 'loss<0.001' --present 130 --what-if servers=+1

    Without --x, a run that was saved with --slo is asked for that limit. The exit code is 1 where
    the present load misses the limit.
    """
    slos, present = asking.slos, asking.present
    # Without loads, the answer is a limit: on the SLOs that are given, or on those of the run.
    limited = bool(slos) or next_experiment or not x
    _check_options(x, limited, what_if, next_experiment, json, csv, plot)
    _check_output(x, limited, output)
    if output is not None:
        check_new(output, overwrite)

    from stationary import words
    from stationary.cli._parse import parse_changes, parse_grid
    from stationary.cli._show import as_json, forecast_table
    from stationary.planner import load

    saved = load(run)
    slos = slos or (saved.question.slos if limited else ())
    if limited and not slos:
        raise InputError(
            "say what to forecast: loads, as in --x 10:60:2, or a limit, as in --slo 'loss<0.001'"
        )
    observed = saved.having(question=saved.asking(slos, level, present))
    plan = observed
    if what_if is not None:
        plan = observed.what_if(**parse_changes(what_if, observed.draws.first.changeable))
    frame = None if not x else plan.forecast(parse_grid(x, plan.model.inputs))
    limit = plan.limit if slos else None
    now = observed.limit if slos and plan.change is not None else None
    test = observed.next_experiment() if next_experiment else None
    low, high = float(plan.windows.loads.min()), float(plan.windows.loads.max())
    if plot is not None and frame is not None:
        from stationary.output.plots import plot_forecast, save_figure

        line = next((slo.bound for slo in slos if slo.measure == measure), None)
        save_figure(plot_forecast(frame, measure, fitted=(low, high), bound=line), plot)
    rows = [] if frame is None else frame.to_dict("records")
    answer = as_json(rows if limit is None else _record(limit, now, plan.change, rows, test))
    if output is not None:
        _write(output, frame, answer)
    if json:
        typer.echo(answer)
    elif csv and frame is not None:
        typer.echo(frame.to_csv(index=False), nl=False)
    else:
        if frame is not None:
            whose = "several models" if plan.pooled else plan.name
            title = f"Forecast of {whose} with {100 * plan.question.level:g}% intervals"
            forecast_table(frame, f"{title}; the fit saw loads {low:g} to {high:g}")
        if plan.change is not None:
            typer.echo(f"WARNING: {words.what_if(plan.change)}")
        if limit is not None:
            _show(limit, now, plan.change, test)
    if limit is not None and not limit.met_at(limit.present):
        raise typer.Exit(1)


def _check_options(
    x: list[str] | None,
    limited: bool,
    what_if: str | None,
    next_experiment: bool,
    json: bool,
    csv: bool,
    plot: Path | None,
) -> None:
    """Raise where options do not go together."""
    if json and csv:
        raise InputError("choose one of --json and --csv")
    if not x and (csv or plot is not None):
        raise InputError("--csv and --plot show measures over load: give loads, as in --x 10:60:2")
    if csv and limited:
        raise InputError("--csv has no room for the limit of --slo: take --json, or leave out one")
    if next_experiment and not limited:
        raise InputError("--next-experiment narrows a limit: give one, as in --slo 'loss<0.001'")
    if next_experiment and what_if is not None:
        raise InputError(
            "--next-experiment is made on the system as it is: leave out --what-if, or ask twice"
        )


def _check_output(x: list[str] | None, limited: bool, output: Path | None) -> None:
    """Raise unless the answer can be written to this file."""
    if output is None:
        return
    ending = output.suffix.lower()
    if ending not in (".csv", ".json", ".parquet"):
        raise InputError(f"{output}: give the file the ending .csv, .json or .parquet")
    if ending != ".json" and not x:
        raise InputError(f"{output} holds measures over load: give loads, as in --x 10:60:2")
    if ending != ".json" and limited:
        raise InputError(f"{output} has no room for the limit of --slo: take .json, or ask twice")


def _write(output: Path, frame: pd.DataFrame | None, answer: str) -> None:
    """Write the rows as a table, or all of the answer as JSON."""
    from stationary._support.files import replacing

    with replacing(output) as part:
        if output.suffix.lower() == ".json" or frame is None:
            part.write_text(f"{answer}\n", encoding="utf-8")
        elif output.suffix.lower() == ".csv":
            frame.to_csv(part, index=False)
        else:
            frame.to_parquet(part, index=False)


def _record(
    limit: Limit,
    now: Limit | None,
    change: Change | None,
    rows: list[dict[str, Any]],
    test: Experiment | None,
) -> dict[str, Any]:
    from stationary import words
    from stationary.cli._show import limit_record

    return {
        "limit": limit_record(limit),
        "what_if": [] if change is None else [words.change(change)],
        "limit_now": limit_record(now),
        "forecast": rows,
        "next_experiment": [] if test is None else test.rows(),
    }


def _show(limit: Limit, now: Limit | None, change: Change | None, test: Experiment | None) -> None:
    from stationary import words
    from stationary.cli._show import table

    number = words.number
    typer.echo(words.sentence(words.limit(limit)))
    if now is not None and change is not None:
        new = f"with {words.change(change)}: {number(limit.load)}"
        typer.echo(f"Limit now {number(now.load)}; {new}.")
    typer.echo(words.verdict(limit))
    if test is not None:
        columns = ["load", "interval of the limit then", "width then / now", "meets the limit"]
        rows = [
            [
                number(row["load"]),
                f"{number(row['low'])} to {number(row['high'])}",
                f"{row['ratio']:.2f}",
                "yes" if row["meets"] else "no",
            ]
            for row in test.rows()
        ]
        table(f"{test.windows} more windows at one load", columns, rows, left=0)
        typer.echo(words.sentence(words.experiment(test)))
