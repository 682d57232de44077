"""``stationary report``: a saved run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.cli._options import Present, Run, RunLevel, Slo, command_line
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.planner import Plan

_USUAL = "loss<0.1%"
"""What must hold where nothing else was asked for and the models have a loss."""


def report(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, ending in .html.")
    ] = Path("report.html"),
    slo: Slo = None,
    present: Present = None,
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
    from stationary.slo import as_slos

    given = as_slos(slo or [])

    from stationary import words
    from stationary.planner import load
    from stationary.report import check_path

    check_path(output)
    plan = load(run)
    asked = given or plan.question.slos
    question = plan.asking(asked or _usual(plan), level, present)
    limit = plan.limit_of(question) if question.slos else None
    if compare:
        plan = _compared(plan, run)
    plan.report(
        output,
        compare=False,
        slos=question.slos,
        present=question.present,
        level=question.level,
        command=command_line(),
    )
    if limit is not None:
        typer.echo(words.sentence(words.limit(limit, reason=False)))
        typer.echo(words.verdict(limit))
        if limit.doubt is not None:
            typer.echo(f"WARNING: not to be trusted: {words.doubt(limit.doubt)}.")
    typer.echo(f"Wrote {output}.")
    missed = limit is not None and not limit.met_at(limit.present)
    if plan.doubt is not None or (asked and missed):
        raise typer.Exit(1)


def _usual(plan: Plan) -> tuple[str, ...]:
    """Return the usual SLO, where the models can be asked for it."""
    has = "loss" in plan.draws.measures and len(plan.draws.first.inputs) == 1
    return (_USUAL,) if has else ()


def _compared(plan: Plan, run: Path) -> Plan:
    """Return the plan beside other models; they are fitted once, and kept in the run."""
    from stationary.cli._show import progress_bar
    from stationary.ladder import ladder_of

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
