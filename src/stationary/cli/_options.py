"""How the options of commands are declared, and groups of options that several commands share.

A command is a function with plain types and defaults. Its docstring has a section ``Arguments`` and
a section ``Options``, with one entry ``name: help`` for each; `command_of` turns them into what
typer needs. A group of options is a dataclass with such a docstring: a command that has a parameter
of that type takes all options of the group and gets them as one object. Where the group has a
``panel``, the help shows its options under that title.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

import typer

import stationary as st
from stationary.cli._parse import check_changes, parse_range, parse_states
from stationary.errors import InputError, hide_passwords
from stationary.ingest.formats import format_names
from stationary.terms.candidates import parse_system
from stationary.terms.measures import USUAL, check_bounds, check_measures
from stationary.terms.slo import as_slos, check_level, check_positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stationary.planning.record import Question
    from stationary.terms.slo import Slo

_ENTRY = re.compile(r"^(\w+)(?: \((--.+)\))?: (.*(?:\n[ ].*)*)", re.MULTILINE)
"""A name, its flags if they are others, and help on indented lines."""

_SHARED = {
    "windows": "CSV or Parquet file, one row per window.",
    "run": "Folder that 'stationary plan -o', 'fit -o' or 'compare -o' wrote.",
    "slo": "What must hold, as in 'loss<0.1%' or 'response_time<200ms': how much load meets it? "
    "Given several times, all must hold.",
    "level": "Coverage of the intervals; that of the run by default, mostly 0.95.",
    "wide": "Show all columns of a table, however wide.",
    "json": "Print JSON for programs.",
    "overwrite": "Replace a file that is already there.",
    "jobs": "Processes to use; -1 for one per core.",
    "cluster": "Run on a Dask cluster instead, as in tcp://host:8786.",
    "format": f"Format, if the ending does not say it: {', '.join(format_names())}.",
}
"""Help for options that mean the same in every command."""

_COMPLETED = {
    "slo": ("loss<0.1%", "p99<200ms", "response_time<50ms"),
    "measures": USUAL,
    "gradient": ("exact", "infinity:p=auto", "bptt:steps=16", "dc-bptt:steps=128"),
    "errors": ("best", "sandwich", "correlated", "dispersed", "information"),
    "method": ("best", "paper"),
    "what_if": ("servers=+1", "capacity=+50%", "faster=1.2"),
    "format": tuple(format_names()),
    "engine": ("duckdb", "spark"),
    "growth": ("3%/month",),
    "preset": ("http", "opentelemetry", "spring", "ingress-nginx", "traefik"),
}
"""Values that a shell completes, by the name of the option; names of models are read when asked."""


def _complete(name: str) -> Callable[[str], list[str]] | None:
    """Return what completes the last of several values, which commas separate."""
    if name != "model" and name not in _COMPLETED:
        return None

    def complete(incomplete: str) -> list[str]:
        from stationary.models.registry import names

        first, comma, last = incomplete.rpartition(",")
        values = _COMPLETED[name] if name in _COMPLETED else names()
        return [f"{first}{comma}{value}" for value in values if value.startswith(last)]

    return complete


def command_of(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command that a function and its docstring declare."""
    text, own = _read(function)
    hints = get_type_hints(function)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: list[inspect.Parameter] = []
    for given in inspect.signature(function).parameters.values():
        if given.name not in groups:
            options.append(_parameter(given.name, hints[given.name], given.default, own))
            continue
        kind = groups[given.name]
        entries, types = {**_read(kind)[1], **own}, get_type_hints(kind)
        for each in fields(kind):
            default = inspect.Parameter.empty if each.default is MISSING else each.default
            panel = getattr(kind, "panel", None)
            options.append(_parameter(each.name, types[each.name], default, entries, panel))

    @wraps(function)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        function(**given)

    vars(run)["__signature__"] = inspect.Signature(options)
    run.__annotations__ = {option.name: option.annotation for option in options}
    run.__doc__ = text
    return run


def _read(documented: Any) -> tuple[str, dict[str, tuple[bool, str, str]]]:
    """Return the text of a docstring, and of each option: is it an argument, its flag, its help."""
    text, *sections = re.split(
        r"\n(Arguments|Options)\n-+\n", inspect.cleandoc(documented.__doc__ or "")
    )
    entries: dict[str, tuple[bool, str, str]] = {}
    for title, section in zip(sections[::2], sections[1::2], strict=True):
        for name, flag, said in _ENTRY.findall(section):
            entries[name] = (title == "Arguments", flag, " ".join(said.split()))
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text), entries  # the help breaks lines by itself


def _parameter(
    name: str,
    kind: Any,
    default: Any,
    entries: dict[str, tuple[bool, str, str]],
    panel: str | None = None,
) -> inspect.Parameter:
    is_argument, flag, text = entries.get(name, (name in ("windows", "run"), "", ""))
    text = (text or _SHARED[name]).replace("[", r"\[")  # which would be taken for markup
    made: Any
    if is_argument:
        made = typer.Argument(help=text)
    else:
        flags = flag.split(", ") if flag else []
        if name == "output":
            flags = ["--output", "-o"]
        elif kind is bool and not default:  # without --no-...
            flags = [f"--{name.replace('_', '-')}"]
        complete = _complete(name)
        made = typer.Option(*flags, help=text, autocompletion=complete, rich_help_panel=panel)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, made],
    )


@dataclass(frozen=True)
class Reading:
    """How a file of windows is read.

    Options
    -------
    x: Column of the load; further inputs after commas.
    counts: Columns of counts: a pattern whose {} is the state, or columns, as in idle=0,busy=1-20.
    latency: Columns of a latency histogram: a pattern whose {} is the upper edge of a bucket, as in
        rt_{} for rt_0.1ms, ..., rt_more; by default rt_{}, where there are such columns. For a
        Prometheus, an expression: 'sum by (le) (increase(request_seconds_bucket[W]))', where W is
        the window.
    observe: States to learn from, as in 0,1 or 0-3; all by default. Service times and latencies in
        the file come before states.
    loads: Learn only from windows with a load in LOW:HIGH.
    sampling: How states were counted: at regular times or by arriving requests; by default as the
        file says, else at regular times.
    duration: Length of every window, in the unit of time of the loads; by default as the file says.
    drop_empty: Leave out windows without observed counts.
    leave_out: Windows to leave out, by their numbers in the answer, as in 3,17, whatever the
        source.
    """

    panel: ClassVar[str] = "How a file of windows is read"

    x: str = "load"
    counts: str = "Q={}"
    latency: str | None = None
    observe: str | None = None
    loads: str | None = None
    sampling: Literal["time", "arrival"] | None = None
    duration: float | None = None
    drop_empty: bool = False
    leave_out: str | None = None

    def check(self, file: Path, x: str | None = None) -> None:
        """Raise for what the file's header and the options alone tell; loads no torch."""
        from stationary.data.columns import about, choose_columns
        from stationary.data.tables import check_file, open_table
        from stationary.terms.categories import parse_counts

        check_file(file)
        parse_range(self.loads)
        self.left_out()
        table = open_table(file)
        with about(table):
            names = list(filter(None, map(str.strip, (x or self.x).split(","))))
            # Which other observations than states there are is known when torch is loaded.
            optional = self.counts == type(self).counts
            choose_columns(table, names, parse_counts(self.counts), optional)

    def windows(
        self, file: Path, states: Sequence[str] = (), pooled: bool = False, x: str | None = None
    ) -> st.Windows:
        """Read windows; ``states`` are those that ``observe`` may name, ``x`` other columns."""
        from stationary.terms.categories import parse_counts

        found = st.read_windows(
            file,
            x=[name.strip() for name in (x or self.x).split(",")],
            counts=parse_counts(self.counts),
            latency=self.latency,
            observe=None if self.observe is None else parse_states(self.observe, states),
            sampling=self.sampling,
            drop_empty=self.drop_empty,
            loads=parse_range(self.loads),
            duration=self.duration,
            pooled=pooled,
        )
        return self.without(found)

    def without(self, found: st.Windows) -> st.Windows:
        """Return the windows but for those to leave out."""
        which = [number - 1 for number in self.left_out()]
        if not which:
            return found
        found.check_single("--leave-out")
        if max(which) >= len(found):
            raise InputError(f"--leave-out: there are {len(found)} windows; got {max(which) + 1}")
        return found.select([k for k in range(len(found)) if k not in which])

    def left_out(self) -> tuple[int, ...]:
        """Return the numbers of the windows to leave out."""
        try:
            numbers = tuple(map(int, filter(None, (self.leave_out or "").split(","))))
        except ValueError:
            numbers = (0,)
        if any(number < 1 for number in numbers):
            raise InputError(
                f"--leave-out takes numbers of windows, counted from 1, as in 3,17; got "
                f"{self.leave_out!r}"
            )
        return numbers


@dataclass(frozen=True)
class System:
    """The system that is planned for, as far as it is known.

    Options
    -------
    servers: Servers of the system, such as worker processes; several candidates as 2,4.
    capacity: Most requests in the system, those in service included; a range as 17-21.
    patience: How long a request waits before its client gives up, as in 30s; for ever by default.
    """

    servers: str | None = None
    capacity: str | None = None
    patience: str | None = None

    def known(self) -> dict[str, Any]:
        """Return what is given, as arguments of `stationary.plan`; loads no torch."""
        return parse_system(self.servers, self.capacity, self.patience, "--")


@dataclass(frozen=True)
class Asking:
    """What must hold, and at which load.

    Options
    -------
    present: Load that must meet the --slo, such as today's peak; the heaviest in the data by
        default.
    """

    slo: list[str] | None = None
    present: float | None = None

    @property
    def slos(self) -> tuple[Slo, ...]:
        """The objectives."""
        return as_slos(self.slo or [])

    def check(self, level: float | None, of_run: bool = False, of_queues: bool = False) -> None:
        """Raise for what is wrong with the question alone; loads no torch.

        There may be objectives in a run (``of_run``); measures are known where all models are
        queues (``of_queues``).
        """
        slos = self.slos
        if of_queues:
            check_bounds(slos)
        if self.present is not None and not slos and not of_run:
            raise InputError("--present is the load that must meet a limit: give one with --slo")
        if self.present is not None:
            check_positive(self.present, "the present load")
        if level is not None:
            check_level(level)

    def question(self, level: float) -> Question:
        """Return the question that a plan is made for."""
        from stationary.planning.record import Question

        return Question(self.slos, self.present, level)


@dataclass(frozen=True)
class RunFolder:
    """Where a run is saved.

    Options
    -------
    output: Folder for the run.
    overwrite: Replace a run that is already in the folder.
    """

    output: Path | None = None
    overwrite: bool = False

    def check(self) -> None:
        """Raise unless the run may be written; loads no torch."""
        from stationary.output.folders import check_target

        if self.output is not None:
            check_target(self.output, self.overwrite)

    def save(self, plan: st.Plan) -> None:
        """Write the run, if a folder is given."""
        if self.output is not None:
            plan.save(self.output, self.overwrite)


def check_saved(
    run: Path, asking: Asking, measures: Sequence[str] = (), changed: Sequence[str] = ()
) -> None:
    """Raise unless there is a run, which has these measures and options; loads no torch.

    What a run of other models than queues has is known when it is loaded.
    """
    from stationary.models.queues import options as queue_options
    from stationary.models.registry import names
    from stationary.output.folders import check_run, described

    check_run(run)
    use_one_thread()
    models = described(run)
    if not models or any(each.get("name") not in names() for each in models):
        return
    check_bounds(asking.slos)
    check_measures(measures)
    options = {**models[0], "faster": 1.0}
    del options["name"]
    check_changes(set(changed) - {*queue_options(models[0]["name"])}, options)


def use_one_thread() -> None:
    """Keep torch from starting threads: for chains of this size they take three times as long."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def refuse(*cases: tuple[Any, str]) -> None:
    """Raise the first message whose condition holds: options that do not go together."""
    for wrong, message in cases:
        if wrong:
            raise InputError(message)


def check_new(path: Path, overwrite: bool, *endings: str) -> None:
    """Raise unless a file with one of these endings may be written."""
    if endings and path.suffix.lower() not in endings:
        listed = " or ".join(filter(None, (", ".join(endings[:-1]), endings[-1])))
        raise InputError(f"{path}: give the file the ending {listed}")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists; name another file, or pass --overwrite")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")


def plan_command(file: Path, servers: int | None, capacity: int | None) -> str:
    """Return the command that plans from a file, with as much of the system as is known."""
    known = {"--servers": servers, "--capacity": capacity}
    given = [text for name, value in known.items() if value for text in (name, str(value))]
    words = ["stationary", "plan", str(file), *given, "--slo", "loss<0.1%", "-o", "plan/"]
    return shlex.join(words)


def command_line() -> str:
    """Return this command as a shell would take it, without passwords."""
    return shlex.join(["stationary", *map(hide_passwords, sys.argv[1:])])
