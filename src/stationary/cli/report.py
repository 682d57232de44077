"""``stationary report``: a saved run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.cli._options import Asking, Run, RunLevel, command_line, grouped
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.facade import Plan


@grouped
def report(
    *,
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, ending in .html.")
    ] = Path("report.html"),
    asking: Asking,
    level: RunLevel = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare/--no-compare",
            help="Fit other models, too, and show how they compare; done once and kept in the run.",
        ),
    ] = True,
) -> None:
    """Write a report to mail around: one HTML file that needs no network and prints well.

    stationary report run/ -o report.html --slo 'loss<0.1%' --present 120

    Without --slo the report is on that of the run, or on a loss of at most 0.1 %.
    """
    from stationary.terms.slo import as_slos

    slos = as_slos(asking.slo) if asking.slo else None

    from stationary import words
    from stationary.output.report import check_path, write_report
    from stationary.planner import load

    check_path(output)
    plan = load(run)
    plan.asking(slos or plan.question.slos, level, asking.present)  # fails before models are fitted
    if compare:
        plan = _compared(plan, run)
    said = write_report(
        plan, output, slos=slos, present=asking.present, level=level, command=command_line()
    )
    typer.echo(said.sentence)
    typer.echo(said.headroom)
    limit = said.limit
    if limit is not None and limit.doubt is not None:
        typer.echo(f"WARNING: not to be trusted: {words.doubt(limit.doubt)}.")
    typer.echo(f"Wrote {output}.")
    asked = slos or plan.question.slos
    missed = limit is not None and not limit.met_at(limit.present)
    if plan.doubt is not None or (asked and missed):
        raise typer.Exit(1)


def _compared(plan: Plan, run: Path) -> Plan:
    """Return the plan beside other models; they are fitted once, and kept in the run."""
    from stationary.cli._show import progress_bar
    from stationary.trust.ladder import ladder_of

    others = len(ladder_of(plan.estimate.model, plan.windows)) - 1
    done = len(plan.fitted) > 1 or plan.failed
    if done or not others or len(plan.windows.inputs) > 1:
        return plan
    with progress_bar("model", others) as bar:
        plan = plan.compared(progress=bar)
    try:
        plan.save(run, overwrite=True)
    except InputError as error:  # such as a folder that may only be read
        typer.echo(f"warning: the other models are not kept: {error}", err=True)
    return plan
