"""``stationary forecast``: measures over load, and the largest load, from a saved run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

import stationary as st
from stationary import words
from stationary._support.files import replacing
from stationary.cli._options import Asking, check_new, check_saved, command_of, refuse
from stationary.cli._parse import parse_changes, parse_grid, parse_loads, parse_pairs
from stationary.cli._records import as_json, forecast_record
from stationary.cli._say import prose, say
from stationary.cli._show import forecast_table, stages, table
from stationary.errors import InputError
from stationary.terms.spans import parse_span

if TYPE_CHECKING:
    import pandas as pd

    from stationary.planning.experiment import Experiment


@command_of
def forecast(
    *,
    run: Path,
    x: list[str] | None = None,
    measures: str | None = None,
    window: str | None = None,
    asking: Asking,
    what_if: list[str] | None = None,
    next_experiment: bool = False,
    level: float | None = None,
    wide: bool = False,
    json: bool = False,
    csv: bool = False,
    output: Path | None = None,
    plot: Path | None = None,
    overwrite: bool = False,
) -> None:
    """Forecast loss, queue, throughput, response time and utilisation at loads of your choice.

    stationary forecast run/ --x 10:60:2

    stationary forecast run/ --slo 'loss<0.001' --present 130 --what-if servers=+1

    Without --x, or with --present, a run that was saved with --slo is asked for that limit.

    Exit codes: 0 fine; 1 the present load misses the limit, or the limit is not to be trusted; 2
    bad input. Without a limit, rows that are not to be trusted are marked, and no failure.

    Options
    -------
    x (--x, --loads): Loads: 10:60:2 or 10,20,30; 120% is a fifth more than the present load, by
        default the heaviest in the data; name=loads for each of several inputs.
    measures: Measures to forecast, as in loss,p99,p97.5; the usual ones by default, of which a
        table shows loss, response_time and p99.
    window: Also say what a single window of this length will show, as in 10s.
    what_if: Forecast a changed system: servers=5 or servers=+1, capacity=+50%, patience=200ms,
        faster=1.2 (every server); several after commas, or the option several times.
    next_experiment: With --slo: at which load would ten more windows narrow the limit most?
    csv: Print CSV for programs.
    output: Also write it here, as .csv, .json or .parquet.
    plot: Also draw the first of the measures here, as .png, .svg or .pdf.
    """
    # Without loads, the answer is a limit: on the SLOs that are given, or on those of the run.
    slos = asking.slos
    limited = bool(asking.slo) or asking.present is not None or next_experiment or not x
    tables = [str(output)] if output and output.suffix.lower() in (".csv", ".parquet") else []
    tables += ["--csv"] if csv else []
    shown = tables if plot is None else [*tables, str(plot)]
    refuse(
        (json and csv, "choose one of --json and --csv"),
        (
            not x and bool(shown),
            f"{' and '.join(shown)} would hold measures over load: give loads, as in --x 10:60",
        ),
        (
            limited and bool(tables),
            f"{' and '.join(tables)} would have no room for the limit of --slo or --present: take "
            f"JSON, or ask twice",
        ),
        (
            next_experiment and bool(what_if),
            "--next-experiment is made on the system as it is: leave out --what-if, or ask twice",
        ),
    )
    asking.check(level, of_run=True)
    names = None if measures is None else measures.split(",")
    length = None if window is None else parse_span(window, "--window")
    if output is not None:
        check_new(output, overwrite, ".csv", ".json", ".parquet")
    if plot is not None:
        check_new(plot, overwrite, ".png", ".svg", ".pdf")
    for text in x or ():
        parse_loads(text.rpartition("=")[2], 1.0)
    changed = ",".join(what_if or ())
    changes = parse_pairs(changed, "--what-if", "servers=+1") if what_if else ()
    check_saved(run, asking, names or (), list(changes))

    saved = st.load(run)
    slos = slos or (saved.question.slos if limited else ())
    if limited and not slos:
        asking.check(level)  # a present load is compared with a limit
        raise InputError(
            "say what to forecast: loads, as in --x 10:60:2, or a limit, as in --slo 'loss<0.001'"
        )
    present = asking.present or saved.question.present or saved.heaviest
    observed = saved.having(question=saved.asking(slos, level, asking.present))
    plan = observed
    if what_if:
        plan = observed.what_if(**parse_changes(changed, observed.draws.first.changeable))
    frame = None
    with stages() as progress:
        if x:
            progress("solving the chain at these loads")
            at = parse_grid(x, plan.model.inputs, present)
            frame = plan.forecast(at, measures=names, window=length)
        progress("finding the limit")
        limit = plan.limit if slos else None
        now = observed.limit if slos and plan.change is not None else None
        test = observed.next_experiment() if next_experiment else None
    low, high = float(plan.windows.loads.min()), plan.heaviest
    if plot is not None and frame is not None:
        from stationary.output.plots import plot_forecast, save_figure

        drawn = names[0] if names else "loss"
        line = next((slo.bound for slo in slos if slo.measure == drawn), None)
        save_figure(plot_forecast(frame, drawn, fitted=(low, high), bound=line), plot)
    rows = [] if frame is None else frame.to_dict("records")
    answer = as_json(rows if limit is None else forecast_record(plan, rows, limit, now, test))
    if output is not None:
        _write(output, frame, answer)
    if json:
        say(answer)
    elif csv and frame is not None:
        say(frame.to_csv(index=False), nl=False)
    else:
        if frame is not None:
            answering = {part.name for part in plan.draws.parts}
            whose = "several models" if len(answering) > 1 else plan.name
            title = f"Forecast of {whose} with {100 * plan.question.level:g}% intervals"
            title += f"; the fit saw loads {words.load_range(low, high)}"
            units = saved.in_seconds or plan.in_seconds
            forecast_table(frame, title, wide, named=names is not None, units=units)
        if words.unobserved(plan):
            prose(words.sentence(words.unobserved(plan)))
        if plan.change is not None:
            prose(f"WARNING: {words.what_if(plan.change)}")
        if limit is not None:
            prose(words.plan_answer(limit, reason=True))
            if now is not None and plan.change is not None:
                prose(words.changed_limit(now, limit, plan.change))
            prose(words.headroom(limit))
        if test is not None:
            _show(test)
    if limit is not None and not limit.holds:
        raise typer.Exit(1)


def _write(output: Path, frame: pd.DataFrame | None, answer: str) -> None:
    """Write the rows as a table, or all of the answer as JSON."""
    with replacing(output) as part:
        if output.suffix.lower() == ".json" or frame is None:
            part.write_text(f"{answer}\n", encoding="utf-8")
        elif output.suffix.lower() == ".csv":
            frame.to_csv(part, index=False)
        else:
            frame.to_parquet(part, index=False)


def _show(test: Experiment) -> None:
    """Print where a short test would narrow the answer most."""
    columns = ["load", "interval of the limit then", "width then / now", "meets the limit"]
    rows = [
        [
            words.number(row["load"]),
            f"{words.number(row['low'])} to {words.number(row['high'])}",
            f"{row['ratio']:.2f}",
            "yes" if row["meets"] else "no",
        ]
        for row in test.rows()
    ]
    table(f"{test.windows} more windows at one load", columns, rows, left=0)
    prose(words.sentence(words.experiment(test)))
