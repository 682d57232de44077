"""``stationary report``: a saved run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stationary.cli._options import Level, Present, command_line


def report(
    run: Annotated[Path, typer.Argument(help="Folder that 'stationary fit -o' wrote.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write, ending in .html.")
    ] = Path("report.html"),
    slo: Annotated[
        str | None,
        typer.Option(help="Limit to invert, as in 'loss<0.001', which is the usual one."),
    ] = None,
    present: Present = None,
    level: Level = 0.95,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare/--no-compare", help="Fit other models, too, and show how they compare."
        ),
    ] = True,
) -> None:
    """Write a report to mail around: one HTML file that needs no network and prints well.

    stationary report run/ -o report.html --slo 'loss<0.001' --present 120
    """
    from stationary.cli._parse import parse_bound
    from stationary.cli._show import progress_bar
    from stationary.ladder import ladder_of
    from stationary.report import answer, check_path, compared
    from stationary.runs import load

    check_path(output)
    bound = None if slo is None else parse_bound(slo)
    fit = load(run)
    said = answer(fit, bound, present, level)
    with progress_bar("model", len(ladder_of(fit))) as bar:
        fit.report(
            output,
            bound=bound,
            present=present,
            level=level,
            comparison=compared(fit, bar) if compare else None,
            compare=False,
            command=command_line(),
        )
    typer.echo(said.sentence)
    typer.echo(said.headroom)
    if said.limit is not None and not said.limit.trusted:
        typer.echo(f"WARNING: not to be trusted: {said.limit.reason}.")
    typer.echo(f"Wrote {output}.")
    missed = said.limit is not None and not said.limit.met_at(said.present)
    if not fit.converged or (slo is not None and missed):
        raise typer.Exit(1)
