"""Options that several commands share, alone or in groups.

A group is a dataclass whose fields are options. A command that has a parameter of that type, and is
decorated with `grouped`, takes all options of the group and gets them as one object.
"""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from stationary.errors import InputError, hide_passwords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stationary.data.windows import Windows
    from stationary.terms.slo import Slo

WindowsFile = Annotated[Path, typer.Argument(help="CSV or Parquet file, one row per window.")]
Objectives = Annotated[
    list[str] | None,
    typer.Option(
        "--slo",
        help="What must hold, as in 'loss<0.1%' or 'response_time<200ms': how much load meets it? "
        "Of several all must.",
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
Jobs = Annotated[int, typer.Option(help="Processes to use; -1 for one per core.")]
Cluster = Annotated[
    str | None, typer.Option(help="Run on a Dask cluster instead, as in tcp://host:8786.")
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Spread the groups of options among a command's parameters over the command line."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for given in inspect.signature(command).parameters.values():
        kind = hints[given.name]
        if not is_dataclass(kind):
            flat.append(given.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[given.name] = kind
        types = get_type_hints(kind, include_extras=True)
        for option in fields(kind):
            default = inspect.Parameter.empty if option.default is MISSING else option.default
            flat.append(
                inspect.Parameter(
                    option.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=types[option.name],
                )
            )

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{option.name: given.pop(option.name) for option in fields(kind)})
        command(**given)

    vars(run)["__signature__"] = inspect.Signature(flat)
    run.__annotations__ = {option.name: option.annotation for option in flat}
    return run


@dataclass(frozen=True)
class Reading:
    """How a file of windows is read."""

    x: Annotated[str, typer.Option(help="Column of the load; further inputs after commas.")] = (
        "load"
    )
    counts: Annotated[
        str,
        typer.Option(
            help="Columns of counts: a pattern whose {} is the state, or column=states,... as in "
            "idle=0,busy=1-20."
        ),
    ] = "Q={}"
    observe: Annotated[
        str | None, typer.Option(help="States to learn from, as in 0,1 or 0-3; all by default.")
    ] = None
    loads: Annotated[
        str | None, typer.Option(help="Learn only from windows with a load in LOW:HIGH.")
    ] = None
    sampling: Annotated[
        str | None,
        typer.Option(
            help="Whether states were counted at regular times ('time') or by arriving requests "
            "('arrival'); by default as the file says, and 'time' where it says nothing."
        ),
    ] = None
    duration: Annotated[
        float | None,
        typer.Option(
            help="Length of every window, in the unit of time of the loads (10, for loads per "
            "second and windows of ten): tells how much the counts of a slow system are worth. By "
            "default as the file says."
        ),
    ] = None
    drop_empty: Annotated[
        bool, typer.Option("--drop-empty", help="Leave out windows without observed counts.")
    ] = False

    def windows(
        self, file: Path, states: Sequence[str] = (), pooled: bool = False, x: str | None = None
    ) -> Windows:
        """Read windows; ``states`` are those that ``observe`` may name, ``x`` other columns."""
        from stationary.cli._parse import parse_range, parse_states
        from stationary.data import read_windows
        from stationary.terms.categories import parse_counts

        return read_windows(
            file,
            x=[name.strip() for name in (x or self.x).split(",")],
            counts=parse_counts(self.counts),
            observe=None if self.observe is None else parse_states(self.observe, states),
            sampling=self.sampling,
            drop_empty=self.drop_empty,
            loads=parse_range(self.loads),
            duration=self.duration,
            pooled=pooled,
        )


@dataclass(frozen=True)
class Asking:
    """What must hold, and at which load."""

    slo: Objectives = None
    present: Annotated[
        float | None,
        typer.Option(
            help="Load that must meet the --slo, such as today's peak; the heaviest in the data by "
            "default."
        ),
    ] = None

    @property
    def slos(self) -> tuple[Slo, ...]:
        """The objectives; a present load without any makes no sense."""
        from stationary.terms.slo import as_slos

        slos = as_slos(self.slo or [])
        if self.present is not None and not slos:
            raise InputError("--present is the load that must meet a limit: give one with --slo")
        return slos


def check_new(path: Path, overwrite: bool) -> None:
    """Raise where a file is already there, and nobody said that it may be replaced."""
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists; name another file, or pass --overwrite")


def command_line() -> str:
    """Return this command as a shell would take it, without passwords."""
    return shlex.join(["stationary", *map(hide_passwords, sys.argv[1:])])
