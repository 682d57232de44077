"""Options that several commands share, and the windows they lead to."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stationary.data.windows import Windows
    from stationary.terms.slo import Slo as Objective

WindowsFile = Annotated[Path, typer.Argument(help="CSV or Parquet file, one row a window.")]
X = Annotated[str, typer.Option(help="Column of the load; further inputs after commas.")]
Counts = Annotated[
    str,
    typer.Option(
        help="Columns of counts: a pattern whose {} is the state, or column=states,... as in "
        "idle=0,busy=1-20."
    ),
]
Observe = Annotated[
    str | None, typer.Option(help="States to learn from, as in 0,1 or 0-3; all by default.")
]
Loads = Annotated[str | None, typer.Option(help="Learn only from windows with a load in LOW:HIGH.")]
Sampling = Annotated[
    str | None,
    typer.Option(
        help="Who counted the states: 'time' (the clock) or 'arrival'; by default as the file "
        "says, and 'time' where it says nothing."
    ),
]
Duration = Annotated[
    float | None,
    typer.Option(
        help="Length of every window, in the unit of time of the loads (10, for loads per "
        "second and windows of ten): tells how much the counts of a slow system are worth. By "
        "default as the file says."
    ),
]
DropEmpty = Annotated[
    bool, typer.Option("--drop-empty", help="Leave out windows without observed counts.")
]
Pool = Annotated[
    bool,
    typer.Option(
        "--pool",
        help="Add up windows of equal load as they are read, for files larger than memory: the "
        "same fit, but no checks that need single windows.",
    ),
]
Slo = Annotated[
    list[str] | None,
    typer.Option(
        help="What must hold, as in 'loss<0.1%' or 'response_time<200ms': how much load meets it? "
        "Of several all must."
    ),
]
Present = Annotated[
    float | None,
    typer.Option(
        help="Load that must meet the --slo, such as today's peak; the heaviest in the data by "
        "default."
    ),
]
Level = Annotated[float, typer.Option(help="Coverage of the intervals.")]
RunLevel = Annotated[
    float | None,
    typer.Option(help="Coverage of the intervals; that of the run by default, mostly 0.95."),
]
Run = Annotated[
    Path, typer.Argument(help="Folder that 'stationary fit -o' or 'stationary compare -o' wrote.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file that is already there.")
]
Jobs = Annotated[int, typer.Option(help="Processes to use; -1 for one a core.")]
Cluster = Annotated[
    str | None, typer.Option(help="Run on a Dask cluster instead, as in tcp://host:8786.")
]


def read(
    file: Path,
    x: str,
    counts: str,
    observe: str | None,
    loads: str | None,
    sampling: str | None,
    duration: float | None,
    drop_empty: bool,
    pooled: bool = False,
    states: Sequence[str] = (),
) -> Windows:
    """Read windows as the options say; ``states`` are those that ``observe`` may name."""
    from stationary.cli._parse import parse_range, parse_states
    from stationary.data.readers import read_windows
    from stationary.terms.categories import parse_counts

    return read_windows(
        file,
        x=[name.strip() for name in x.split(",")],
        counts=parse_counts(counts),
        observe=None if observe is None else parse_states(observe, states),
        sampling=sampling,
        drop_empty=drop_empty,
        loads=parse_range(loads),
        duration=duration,
        pooled=pooled,
    )


def parse_slos(texts: Sequence[str] | None, present: float | None) -> tuple[Objective, ...]:
    """Return what must hold; a present load without it makes no sense."""
    from stationary.terms.slo import as_slos

    slos = as_slos(texts or [])
    if present is not None and not slos:
        raise InputError("--present is the load that must meet a limit: give one with --slo")
    return slos


def check_new(path: Path, overwrite: bool) -> None:
    """Raise where a file is already there, and nobody said that it may be replaced."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists; name another file, or pass --overwrite")


def command_line() -> str:
    """Return this command as a shell would take it."""
    return shlex.join(["stationary", *sys.argv[1:]])
