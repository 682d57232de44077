"""``stationary reproduce``: the paper's tables, figures and examples, beside the exact optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stationary.errors import InputError

_PARTS = ("mape", "mse", "gap", "alpha", "p", "curves", "testbed", "examples", "all")


def reproduce(
    part: Annotated[
        str, typer.Argument(help=f"What to make: {', '.join(_PARTS)}.", metavar="[PART]")
    ] = "all",
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for numbers, tables and figures.")
    ] = Path("results"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Few repeats and epochs: minutes, not the paper.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(help="Repeats of every run; the paper's 20 by default.", min=1)
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Only this row; may be given several times. See --rows."),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="List the rows and exit.")] = False,
    recording: Annotated[
        Path | None,
        typer.Option(
            help="The paper's testbed recording, a CSV that is not shipped.",
            envvar="STATIONARY_RECORDING",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for one a core.")] = -1,
    cluster: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, tcp://host:8786.")
    ] = None,
) -> None:
    """Run the paper's experiments and set every printed number beside ours.

    Every repeat is kept: a run that was interrupted goes on where it was. The full setting takes
    under half an hour on two cores, --quick under three minutes.

    stationary reproduce mape --quick
    """
    from stationary.cli._show import progress_bar
    from stationary.experiments import plan, runner, settings, testbed
    from stationary.experiments.report import Report

    if rows:
        _list_rows()
        return
    if part not in _PARTS:
        raise InputError(f"there is no part {part!r}; choose one of {', '.join(_PARTS)}")
    unknown = set(row or ()) - set(settings.rows())
    if unknown:
        raise InputError(f"there is no row {sorted(unknown)[0]!r}; `--rows` lists them")
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; name a folder for the results")
    if jobs == 0:
        raise InputError("--jobs must be a number of processes, or -1 for one a core; got 0")
    wanted = plan.Part(part)
    file = testbed.find_recording(recording)
    data = testbed.read_recording(file) if file is not None else None
    if data is None:
        hint = f"give the testbed recording with --recording, or set {testbed.VARIABLE}"
        if wanted is plan.Part.TESTBED:
            raise InputError(f"the testbed study needs its data: {hint}")
        if plan.shows_testbed(wanted, row or ()):
            typer.echo(f"without the testbed rows: {hint}", err=True)
    tasks = plan.tasks(
        wanted,
        row or (),
        quick=quick,
        repeats=repeats,
        recorded=testbed.problems(data) if data is not None else None,
    )
    if row and not tasks:
        raise InputError(f"{part} has none of these rows: {', '.join(row)}; `--rows` lists them")
    missing = runner.to_do(tasks, output)
    kept = len(tasks) - len(missing)
    if kept:
        typer.echo(f"{kept} of {len(tasks)} runs are kept from before", err=True)
    try:
        with progress_bar("runs", len(missing)) as bar:
            runner.run(tasks, output, jobs, cluster, bar)
        with progress_bar("testbed ladder", len(testbed.candidates())) as bar:
            records = runner.read(tasks, output)
            page = Report(output, records, row or (), data, quick, bar).write(wanted)
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    typer.echo(f"wrote {page}")


def _list_rows() -> None:
    from stationary.cli._show import table
    from stationary.experiments.settings import rows

    lines = [[row.name, row.title, ", ".join(row.studies), row.reading] for row in rows().values()]
    table("Rows for --row", ["row", "what it is", "parts", "reading"], lines, left=4)
