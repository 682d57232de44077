"""``stationary testbed``: a real server under load on this machine, recorded as windows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from stationary.cli._options import check_new, command_of
from stationary.cli._say import say
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
_EVERY = 10
"""Windows after which a recording without a terminal reports its progress."""


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
class Serving:
    """Service times.

    Options
    -------
    service: Service times of the server; deterministic by default, of gunicorn exponential. 'none'
        leaves Kamailio as it is.
    service_time: Mean service time; 330us by default, of gunicorn 8ms.
    variability: Squared coefficient of variation of gamma and lognormal service times.
    """

    service: Literal["deterministic", "exponential", "gamma", "lognormal", "none"] | None = None
    service_time: str | None = None
    variability: float | None = None

    def made(self, usual: Service) -> Service | None:
        """Return the service times, or None for a server that is left as it is."""
        from stationary.testbed import Service, Shape

        if self.service == "none":
            if self.service_time is not None or self.variability is not None:
                raise InputError(
                    "--service none leaves the server as it is: leave out --service-time and "
                    "--variability"
                )
            return None
        shape = usual.shape if self.service is None else Shape(self.service)
        mean = usual.mean
        if self.service_time is not None:
            mean = parse_span(self.service_time, "--service-time")
        return Service(shape, mean, self.variability)


@dataclass(frozen=True)
class OfKamailio:
    """Options of Kamailio alone.

    Options
    -------
    queue: Kamailio: requests that fit into its buffer; lost ones count as Q=this.
    late: Kamailio: time after which an answer is late.
    generator: Kamailio: SIPp, or our own generator ('native'), which is more precise.
    arrivals: Kamailio: at random, or at equal distances.
    limit_by: Kamailio: how the queue is limited: a shim (needs gcc), or a system setting that is
        put back (needs root); auto prefers the shim.
    """

    queue: int = 20
    late: str = "10ms"
    generator: Literal["sipp", "native"] = "sipp"
    arrivals: Literal["poisson", "constant"] = "poisson"
    limit_by: Literal["auto", "shim", "system"] = "auto"

    def made(self, serving: Serving, seconds: float | None, seed: int) -> System[Any]:
        """Return the system."""
        from stationary import testbed as bed
        from stationary.testbed.kamailio import USUAL_SERVICE

        buffers = {"auto": None, "shim": bed.shim, "system": bed.system_default}
        return bed.Kamailio(
            serving.made(USUAL_SERVICE),
            self.queue,
            bed.Arrivals(self.arrivals),
            1.0 if seconds is None else seconds,
            parse_span(self.late, "--late"),
            seed,
            bed.Native() if self.generator == "native" else bed.Sipp(),
            buffers[self.limit_by],
        )


@dataclass(frozen=True)
class OfGunicorn:
    """Options of gunicorn alone.

    Options
    -------
    cpu_share: gunicorn: share of the service time that burns CPU time; a worker sleeps for the
        rest, as while waiting for a database.
    workers: gunicorn: sync workers, each of which serves one request at a time.
    backlog: gunicorn: connections that may wait; the kernel adds one.
    patience: gunicorn: time after which the client gives a request up; above 1s TCP tries again by
        itself.
    """

    cpu_share: float = 1.0
    workers: int = 1
    backlog: int = 16
    patience: str = "0.9s"

    def made(self, serving: Serving, seconds: float | None, seed: int) -> System[Any]:
        """Return the system."""
        from stationary.testbed import Gunicorn
        from stationary.testbed.gunicorn import USUAL_SERVICE

        service = serving.made(USUAL_SERVICE)
        if service is None:
            raise InputError(
                "--service none goes with Kamailio; gunicorn needs a service time: leave it out"
            )
        patience = parse_span(self.patience, "--patience")
        seconds = 8.0 if seconds is None else seconds
        sizes = self.cpu_share, self.workers, self.backlog
        return Gunicorn(service, *sizes, seconds, patience, seed)


def _refuse_others(system: str, others: OfKamailio | OfGunicorn) -> None:
    """Raise for an option that belongs to another system."""
    for name, usual in asdict(type(others)()).items():
        if getattr(others, name) != usual:
            option = name.replace("_", "-")
            raise InputError(f"--{option} does not go with --system {system}: leave it out")


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
        from stationary.cli._parse import parse_range
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
    from stationary.cli._records import as_json
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
    system: Literal["kamailio", "gunicorn"] = "kamailio",
    loads: Loads,
    seconds: float | None = None,
    serving: Serving,
    of_kamailio: OfKamailio,
    of_gunicorn: OfGunicorn,
    raw: Path | None = None,
    seed: int = 0,
) -> None:
    """Record windows from light load to overload; takes a little longer than they last.

    A server runs with a short queue, on the loopback address. On Ctrl-C it is stopped and the
    windows so far are written.

    stationary testbed record -o windows.csv --profile day --windows 200 --service exponential

    stationary testbed record -o windows.csv --system gunicorn --workers 2 --raw requests.csv

    Exit codes: 0 done; 2 something is missing or failed; 130 interrupted.

    Options
    -------
    system: What is recorded: Kamailio, a SIP server, or gunicorn, a web server.
    seconds: Length of a window; 1 by default, of gunicorn 8.
    raw: Keep every request in this .parquet, .csv or .csv.gz file, too.
    seed: Seed of loads, arrivals and gunicorn's service times; the times of SIPp have none.
    """
    from contextlib import closing

    from stationary.cli._show import progress_bar
    from stationary.testbed.processes import interruptible, undisturbed

    files.check(raw)
    options: dict[str, OfKamailio | OfGunicorn] = {"kamailio": of_kamailio, "gunicorn": of_gunicorn}
    recorder = options.pop(system).made(serving, seconds, seed)
    for others in options.values():
        _refuse_others(system, others)
    rates = loads.made(recorder, seed)
    count = len(rates)
    recorded: list[Any] = []
    stopped: BaseException | None = None
    with interruptible():
        try:
            with (
                closing(recorder.record(rates)) as windows,
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
                    _say(recorder.write(recorded, files.output, raw), files.output)
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
    known = None if service_time is None else parse_span(service_time, "--service-time")
    recorder = Kamailio(queue=queue, late=parse_span(late, "--late"))
    _say(recorder.write(read_traces(traces), files.output, service=known), files.output)


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
