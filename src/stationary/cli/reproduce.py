"""``stationary reproduce``: the paper's tables, figures and examples, beside the exact optimum."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stationary.cli._options import command_of, refuse
from stationary.cli._say import say
from stationary.cli._show import progress_bar
from stationary.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from stationary.paper.plan import Part
    from stationary.paper.testbed import Recording

_VARIABLE = "STATIONARY_RECORDING"


@command_of
def reproduce(
    *,
    part: str = "all",
    output: Path | None = None,
    quick: bool = False,
    repeats: int | None = None,
    row: list[str] | None = None,
    recording: Path | None = None,
    jobs: int = -1,
    cluster: str | None = None,
) -> None:
    """Run the paper's experiments and set every printed number beside ours.

    Finished tasks are kept: an interrupted run goes on where it was, and another folder begins
    anew. The full setting takes under half an hour on two cores, --quick under three minutes.

    stationary reproduce mape --quick

    Arguments
    ---------
    part: What to make: mape, mse, gap, alpha, p, curves, testbed, text, examples, all. The page
        text, on what the paper says without a table, is not part of all.

    Options
    -------
    output: Folder for runs, numbers, tables and figures; results, or results-quick with --quick, by
        default.
    quick: Few repeats and epochs: minutes, not the paper.
    repeats: Repeats of every run; the paper's 20, or 3 with --quick.
    row: Only this row, as in gap-mm1k; may be given several times.
    recording: The paper's testbed recording, a CSV that is not shipped; STATIONARY_RECORDING in the
        environment by default.
    """
    from stationary.paper import chains, plan, runner, testbed
    from stationary.paper.page import Page
    from stationary.paper.report import Report

    if repeats is not None and repeats < 1:
        raise InputError(f"--repeats must be at least 1; got {repeats}")
    names = row or []
    wanted = _checked(part, names, jobs)
    folder = output or Path("results-quick" if quick else "results")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder for the results")
    data = _recording(recording, wanted, names)
    tasks = plan.tasks(
        wanted,
        names,
        quick=quick,
        repeats=repeats,
        recorded=testbed.problems(data) if data is not None else None,
    )
    missing = [task for task in tasks if not task.kept(folder)]
    kept = len(tasks) - len(missing)
    if kept:
        say(f"{kept} of {len(tasks)} tasks are kept from before", err=True)
    if missing:
        say(f"{len(missing)} tasks to run; results go to {folder}", err=True)
    try:
        with progress_bar("tasks", len(missing), at_once=bool(missing)) as bar:
            runner.run(missing, folder, jobs, cluster, bar)
        with progress_bar("testbed ladder", len(chains.candidates())) as bar:
            page = Page(folder, "" if wanted is plan.Part.ALL else str(wanted))
            records = [record for task in tasks for record in task.kept(folder)]
            written = Report(page, records, names, data, quick, bar).write(wanted)
    except KeyboardInterrupt:
        say("interrupted; the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    if wanted is plan.Part.EXAMPLES:
        say(written.read_text(encoding="utf-8"))
    say(f"wrote {written}")


def _checked(part: str, names: list[str], jobs: int) -> Part:
    """Return the part, once it, the rows and the number of processes make sense."""
    from stationary.paper import plan, settings

    unknown = next((name for name in names if name not in settings.rows()), None)
    refuse(
        (
            part not in list(plan.Part),
            f"there is no part {part!r}; choose one of {', '.join(plan.Part)}",
        ),
        (
            unknown is not None,
            f"there is no row {unknown!r}{did_you_mean(str(unknown), settings.rows())}",
        ),
        (jobs == 0, "--jobs must be a number of processes, or -1 for one per core; got 0"),
    )
    wanted = plan.Part(part)
    if names and not any(plan.rows_of(each, names) for each in plan.parts(wanted)):
        raise InputError(f"{part} has none of these rows: {', '.join(names)}")
    return wanted


def _recording(file: Path | str | None, part: Part, names: list[str]) -> Recording | None:
    """Return the testbed recording, if rows of the part need it and it is given."""
    from stationary.paper import plan, testbed

    rows = [row for each in plan.parts(part) for row in plan.rows_of(each, names)]
    needed = list(dict.fromkeys(row.name for row in rows if not row.simulated))
    if not needed:
        return None
    file = file or os.environ.get(_VARIABLE)
    if file:
        return testbed.read_recording(file)
    hint = (
        f"give the testbed recording, the CSV published with the paper's program, with --recording "
        f"or in {_VARIABLE}"
    )
    if names or part is plan.Part.TESTBED:
        raise InputError(f"{', '.join(needed)}: {hint}")
    say(f"without the testbed rows: {hint}", err=True)
    return None
