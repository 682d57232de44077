"""``stationary testbed``: a real server under load on this machine, recorded as windows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from stationary.cli._options import check_new, command_of, refuse
from stationary.cli._parse import parse_range
from stationary.cli._records import as_json
from stationary.cli._say import say
from stationary.cli._show import progress_bar
from stationary.errors import InputError, ProgramError
from stationary.terms.spans import parse_span

if TYPE_CHECKING:
    from stationary.testbed import Service, Summary, System
    from stationary.testbed.profiles import Rates

testbed = typer.Typer(
    help="Record windows from a real server (Kamailio or gunicorn) under load, on this machine "
    "alone.",
    no_args_is_help=True,
)

_INTERRUPTED = 130
_EVERY = 10  # windows after which a recording without a terminal reports its progress

_PLAIN = ("seconds", "queue", "cpu_share", "workers", "backlog", "seed")
"""Options that a system takes as they are."""


@dataclass(frozen=True)
class Files:
    """Files of a recording.

    Options
    -------
    output: CSV file of windows to write.
    overwrite: Replace files that are already there.
    """

    output: Path
    overwrite: bool = False

    def check(self, raw: Path | None = None) -> None:
        """Raise unless the files can be written, before anything is recorded."""
        from stationary.testbed.traces import check_trace_path

        check_new(self.output, self.overwrite, ".csv")
        if raw is not None:
            check_trace_path(raw)
            check_new(raw, self.overwrite)
        if self.output == raw:
            raise InputError(f"--output and --raw are both {raw}; name two files")


@dataclass(frozen=True)
class Recorder:
    """What is recorded. Options that are left out take the values that are usual for the system.

    Options
    -------
    system: What is recorded: Kamailio, a SIP server, or gunicorn, a web server.
    seconds: Length of a window; 1 by default, of gunicorn 8.
    service: Service times of the server; deterministic by default, of gunicorn exponential. 'none'
        leaves Kamailio as it is.
    service_time: Mean service time; 330us by default, of gunicorn 8ms.
    variability: Squared coefficient of variation of gamma and lognormal service times.
    queue: Kamailio: requests that fit into its buffer [20]; lost ones count as Q=this.
    late: Kamailio: time after which an answer is late [10ms].
    generator: Kamailio: SIPp, or our own generator ('native'), which is more precise [sipp].
    arrivals: Kamailio: at random, or at equal distances [poisson].
    limit_by: Kamailio: how the queue is limited: a shim (needs gcc), or a system setting that is
        put back (needs root); auto prefers the shim [auto].
    cpu_share: gunicorn: share of the service time that burns CPU time; a worker sleeps for the
        rest, as while waiting for a database [1].
    workers: gunicorn: sync workers, each of which serves one request at a time [1].
    backlog: gunicorn: connections that may wait; the kernel adds one [16].
    patience: gunicorn: time after which the client gives a request up; above 1s TCP tries again by
        itself [0.9s].
    seed: Seed of loads, arrivals and gunicorn's service times; the times of SIPp have none.
    """

    system: Literal["kamailio", "gunicorn"] = "kamailio"
    seconds: float | None = None
    service: Literal["deterministic", "exponential", "gamma", "lognormal", "none"] | None = None
    service_time: str | None = None
    variability: float | None = None
    queue: int | None = None
    late: str | None = None
    generator: Literal["sipp", "native"] | None = None
    arrivals: Literal["poisson", "constant"] | None = None
    limit_by: Literal["auto", "shim", "system"] | None = None
    cpu_share: float | None = None
    workers: int | None = None
    backlog: int | None = None
    patience: str | None = None
    seed: int = 0

    def made(self) -> System[Any]:
        """Return the system; raise for an option that belongs to another one."""
        from stationary import testbed as bed

        kind: Any = {"kamailio": bed.Kamailio, "gunicorn": bed.Gunicorn}[self.system]
        sources = {"sipp": bed.Sipp(), "native": bed.Native()}
        buffers = {"auto": None, "shim": bed.shim, "system": bed.system_default}
        options = {
            **{name: getattr(self, name) for name in _PLAIN},
            "late": _span(self.late, "--late"),
            "patience": _span(self.patience, "--patience"),
            "arrivals": self.arrivals and bed.Arrivals(self.arrivals),
            "source": self.generator and sources[self.generator],
            "buffer": self.limit_by and buffers[self.limit_by],
        }
        given = {name: value for name, value in options.items() if value is not None}
        for name in given.keys() - {field.name for field in fields(kind)}:
            option = {"source": "generator", "buffer": "limit-by"}.get(name, name).replace("_", "-")
            raise InputError(f"--{option} does not go with --system {self.system}: leave it out")
        if self.system == "kamailio":
            given.setdefault("source", sources["sipp"])
        made: System[Any] = kind(service=self._service(kind.service), **given)
        return made

    def _service(self, usual: Service) -> Service | None:
        """Return the service times, or None for a server that is left as it is."""
        from stationary.testbed import Service, Shape

        if self.service == "none":
            refuse(
                (
                    self.service_time is not None or self.variability is not None,
                    "--service none leaves the server as it is: leave out --service-time and "
                    "--variability",
                ),
                (
                    self.system == "gunicorn",
                    "--service none goes with Kamailio; gunicorn needs a service time: leave it "
                    "out",
                ),
            )
            return None
        mean = _span(self.service_time, "--service-time")
        shape = usual.shape if self.service is None else Shape(self.service)
        return Service(shape, usual.mean if mean is None else mean, self.variability)


def _span(text: str | None, option: str) -> float | None:
    return None if text is None else parse_span(text, option)


@dataclass(frozen=True)
class Loads:
    """The loads of a recording.

    Options
    -------
    rates: Lowest and highest rate, requests per second; by default 300:5000 for Kamailio, and a
        tenth to one and a half times what the workers of gunicorn can do.
    profile: 'ramp' (rising), 'shuffled' (the same rates in random order), 'day' (a slow swing with
        noise), each between the --rates, or a CSV file with a column load; ramp by default.
    windows: Number of windows; 60 by default, of gunicorn 20, or as many as the profile has.
    """

    rates: str | None = None
    profile: str | None = None
    windows: int | None = None

    def made(self, system: System[Any], seed: int) -> Rates:
        """Return the rate of every window."""
        from stationary.testbed import day, ramp, read_rates

        if self.profile not in (None, "ramp", "shuffled", "day"):
            if self.rates is not None:
                raise InputError(f"--profile {self.profile} has its own rates: leave out --rates")
            return read_rates(self.profile, self.windows)
        given = system.usual_rates if self.rates is None else parse_range(self.rates)
        low, high = given or (None, None)
        if low is None or high is None:
            raise InputError(f"--rates needs both ends, as in 300:5000; got {self.rates!r}")
        count = system.usual_windows if self.windows is None else self.windows
        if self.profile == "day":
            return day(low, high, count, seed)
        return ramp(low, high, count, seed if self.profile == "shuffled" else None)


@testbed.command()
@command_of
def doctor(*, system: Literal["kamailio", "gunicorn"] = "kamailio", json: bool = False) -> None:
    """Say what the testbed needs, what is there, and how to get the rest. Changes nothing.

    Exit codes: 0 a recording can be made; 1 something required is missing.

    Options
    -------
    system: What is to be recorded.
    """
    from stationary.testbed import Gunicorn, Kamailio

    needs = (Kamailio() if system == "kamailio" else Gunicorn()).needs()
    ready = all(need.there for need in needs if need.required)
    if json:
        say(as_json({"ready": ready, "needs": [asdict(need) for need in needs]}))
    else:
        for need in needs:
            mark = "ok     " if need.there else "MISSING" if need.required else "without"
            say(f"{mark} {need.name}: {need.sentence}")
            if need.remedy:
                say(f"{'':8}{need.remedy}")
        say("A recording can be made." if ready else "No recording can be made yet.")
    if not ready:
        raise typer.Exit(1)


@testbed.command()
@command_of
def record(
    *,
    files: Files,
    loads: Loads,
    recorder: Recorder,
    raw: Path | None = None,
) -> None:
    """Record windows from light load to overload; takes a little longer than they last.

    A server runs with a short queue, on the loopback address. On Ctrl-C it is stopped and the
    windows so far are written.

    stationary testbed record -o windows.csv --profile day --windows 200 --service exponential

    stationary testbed record -o windows.csv --system gunicorn --workers 2 --raw requests.csv

    Exit codes: 0 done; 2 something is missing or failed; 130 interrupted.

    Options
    -------
    raw: Keep every request in this .parquet, .csv or .csv.gz file, too.
    """
    from stationary.testbed.processes import interruptible, undisturbed

    files.check(raw)
    system = recorder.made()
    rates = loads.made(system, recorder.seed)
    count = len(rates)
    recorded: list[Any] = []
    stopped: BaseException | None = None
    with interruptible():
        try:
            with (
                closing(system.record(rates)) as windows,
                progress_bar("windows", count, still=True) as report,
            ):
                for window in windows:
                    recorded.append(window)
                    if report is not None:
                        report(len(recorded), f"{window.rate:.0f} per second")
                    elif len(recorded) % _EVERY == 0:
                        say(f"{len(recorded)} of {count} windows", err=True)
        except (KeyboardInterrupt, ProgramError, OSError) as error:
            stopped = error  # what was recorded until then is written first
        if recorded:
            try:
                with undisturbed():
                    _say(system.write(recorded, files.output, raw), files.output)
            except KeyboardInterrupt as error:
                stopped = stopped or error
    if isinstance(stopped, KeyboardInterrupt):
        say(f"interrupted after {len(recorded)} of {count} windows", err=True)
        raise typer.Exit(_INTERRUPTED)
    if stopped is not None:
        raise stopped


@testbed.command()
@command_of
def replay(
    *,
    traces: Path,
    files: Files,
    queue: int = 20,
    late: str = "10ms",
    service_time: str | None = None,
) -> None:
    """Analyse raw traces of Kamailio again, without a server: other limits, a known service time.

    stationary testbed replay requests.parquet -o windows.csv --service-time 330us

    Arguments
    ---------
    traces: File that record --raw wrote; requests of gunicorn are read by stationary ingest.

    Options
    -------
    queue: Requests that fit into the server's buffer; lost ones count as Q=this.
    late: Time after which an answer is late.
    service_time: Mean service time for the paper's formula; by default it is found in each window.
    """
    from stationary.testbed import Kamailio, read_traces

    files.check()
    known = _span(service_time, "--service-time")
    system = Kamailio(queue=queue, late=parse_span(late, "--late"))
    _say(system.write(read_traces(traces), files.output, service=known), files.output)


def _say(made: Summary, output: Path) -> None:
    """Print what was written."""
    low, high = made.loads
    say(f"wrote {made.windows} windows to {output}: load {low:g} to {high:g} per second")
    dropped = "" if made.dropped is None else f"; the kernel dropped {made.dropped} at the server"
    lost = f"{made.lost} lost ({made.lost / max(made.sent, 1):.1%}{dropped})"
    late = "" if made.late is None else f", {made.late} late"
    stalled = f", {made.stalled} sent late" if made.stalled else ""
    say(f"{made.sent} requests, {lost}{late}{stalled}")
    if made.service is not None and made.overhead is not None:
        held = "" if made.held_up is None else f", held up by other programs {made.held_up:.1%}"
        say(
            f"service time {1e6 * made.service:.0f} us{held}, overhead {1e6 * made.overhead:.0f} us"
        )
    if made.full_at is not None:
        full = f"{made.full_at:.1f} in the system: capacity={made.full_at:.0f}"
        say(f"a lost request found {full}")
    elif made.capacity is not None:
        say(f"no request was lost; the system holds capacity={made.capacity}")
