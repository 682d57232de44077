"""``stationary testbed``: a real Kamailio under load on this machine, recorded as windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from stationary.cli._options import check_new, command_of
from stationary.errors import InputError, ProgramError

if TYPE_CHECKING:
    from stationary.testbed.buffers import Buffer
    from stationary.testbed.profiles import Profile
    from stationary.testbed.record import Trace
    from stationary.testbed.settings import Service

testbed = typer.Typer(
    help="Record windows from a real SIP server (Kamailio) under load, on this machine alone.",
    no_args_is_help=True,
)

_WINDOWS = 60
_INTERRUPTED = 130
_EVERY = 10
"""Windows after which a recording without a terminal reports its progress."""


@dataclass(frozen=True)
class Recording:
    """Windows of a recording, and how requests are counted in them.

    Options
    -------
    output: CSV file of windows to write.
    queue: Requests that fit into the server's buffer; lost ones count as Q=this.
    late_ms: Milliseconds after which an answer is late.
    overwrite: Replace files that are already there.
    """

    output: Path
    queue: int = 20
    late_ms: float = 10.0
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

    def write(
        self, traces: Sequence[Trace], raw: Path | None = None, service: float | None = None
    ) -> None:
        """Write windows, and the raw traces if asked; say what is in them."""
        from stationary._support.files import replacing
        from stationary.testbed import tabulate, write_traces

        if raw is not None:  # first, because it can be analysed again if anything goes wrong
            write_traces(traces, raw)
        made = tabulate(traces, self.queue, self.late_ms / 1e3, service)
        table, found = made.table, made.calibration
        with replacing(self.output) as part:
            table.to_csv(part, index=False)
        sent, lost, late, dropped = (
            int(table[name].sum()) for name in ("sent", "unanswered", "late", "drops_socket")
        )
        loads = f"{table['load'].min():g} to {table['load'].max():g}"
        typer.echo(f"wrote {len(table)} windows to {self.output}: load {loads} per second")
        typer.echo(
            f"{sent} requests, {lost} lost ({lost / max(sent, 1):.1%}; the kernel dropped "
            f"{dropped} at the server), {late} late"
        )
        typer.echo(
            f"service time {found.service * 1e6:.0f} us, propagation "
            f"{found.propagation * 1e6:.0f} us"
        )
        if lost:
            full = float((table["full_at"] * table["unanswered"]).sum() / lost)
            typer.echo(f"a lost request found {full:.1f} in the system: capacity={full:.0f}")


@dataclass(frozen=True)
class Loads:
    """The loads of a recording.

    Options
    -------
    rates: Lowest and highest rate, requests per second; 300:5000 by default.
    profile: 'day' (a slow swing with noise between the --rates), or a CSV file with a column load;
        a straight ramp by default.
    windows: Number of windows; 60 by default, or as many as the profile has.
    """

    rates: str | None = None
    profile: str | None = None
    windows: int | None = None

    def made(self, seed: int) -> tuple[Profile, int]:
        """Return the profile and its number of windows."""
        from stationary.cli._parse import parse_range
        from stationary.testbed import Day, Ramp, read_profile

        if self.profile not in (None, "day"):
            if self.rates is not None:
                raise InputError(f"--profile {self.profile} has its own rates: leave out --rates")
            given = read_profile(self.profile)
            return given, len(given.values) if self.windows is None else self.windows
        low, high = parse_range(self.rates or "300:5000") or (None, None)
        if low is None or high is None:
            raise InputError(f"--rates needs both ends, as in 300:5000; got {self.rates!r}")
        count = _WINDOWS if self.windows is None else self.windows
        return (Ramp(low, high) if self.profile is None else Day(low, high, seed=seed)), count


@testbed.command()
@command_of
def doctor(*, json: bool = False) -> None:
    """Say what the testbed needs, what is there, and how to get the rest. Changes nothing.

    Exit codes: 0 a recording can be made; 1 something required is missing.
    """
    from dataclasses import asdict

    from stationary.cli._records import as_json
    from stationary.testbed.doctor import examine

    needs = examine()
    ready = all(need.there for need in needs if need.required)
    if json:
        typer.echo(as_json({"ready": ready, "needs": [asdict(need) for need in needs]}))
    else:
        for need in needs:
            mark = "ok     " if need.there else "MISSING" if need.required else "without"
            typer.echo(f"{mark} {need.name}: {need.sentence}")
            if need.remedy:
                typer.echo(f"{'':8}{need.remedy}")
        typer.echo("A recording can be made." if ready else "No recording can be made yet.")
    if not ready:
        raise typer.Exit(1)


@testbed.command()
@command_of
def record(
    *,
    recording: Recording,
    loads: Loads,
    seconds: float = 1.0,
    service: Literal["deterministic", "exponential", "none"] = "deterministic",
    service_us: float | None = None,
    generator: Literal["sipp", "native"] = "sipp",
    arrivals: Literal["poisson", "constant"] = "poisson",
    limit_by: Literal["auto", "shim", "system"] = "auto",
    raw: Path | None = None,
    seed: int = 0,
) -> None:
    """Record windows from light load to overload; takes a little longer than they last.

    Kamailio runs with one worker and a short queue, on the loopback address. On Ctrl-C it is
    stopped and the windows so far are written.

    stationary testbed record -o windows.csv --profile day --windows 200 --service exponential

    Exit codes: 0 done; 2 something is missing or failed; 130 interrupted.

    Options
    -------
    seconds: Length of a window.
    service: Service times of the server.
    service_us: Mean service time in microseconds, all in all; 330 by default.
    generator: SIPp, or our own generator, which is more precise.
    arrivals: At random or at equal distances.
    limit_by: How the queue is limited: a shim (needs gcc), or a system setting that is put back
        (needs root); auto prefers the shim.
    raw: Keep every request in this .parquet, .csv or .csv.gz file, too.
    seed: Seed of loads and arrivals; the times of SIPp have none.
    """
    from contextlib import closing

    from stationary.cli._show import progress_bar
    from stationary.testbed.native import Native
    from stationary.testbed.processes import interruptible, undisturbed
    from stationary.testbed.record import record as run
    from stationary.testbed.settings import Arrivals, Settings
    from stationary.testbed.sipp import Sipp

    recording.check(raw)
    profile, count = loads.made(seed)
    settings = Settings(
        service=_service(service, service_us),
        queue=recording.queue,
        arrivals=Arrivals(arrivals),
        seconds=seconds,
        late=recording.late_ms / 1e3,
        seed=seed,
    )
    source = Sipp() if generator == "sipp" else Native()
    traces: list[Trace] = []
    stopped: BaseException | None = None
    with interruptible():
        try:
            with (
                closing(run(profile.rates(count), settings, source, _buffer(limit_by))) as windows,
                progress_bar("windows", count, still=True) as report,
            ):
                for trace in windows:
                    traces.append(trace)
                    if report is not None:
                        report(len(traces), f"{trace.rate:.0f} per second")
                    elif len(traces) % _EVERY == 0:
                        typer.echo(f"{len(traces)} of {count} windows", err=True)
        except (KeyboardInterrupt, ProgramError, OSError) as error:
            stopped = error  # what was recorded until then is written first
        if traces:
            try:
                with undisturbed():
                    recording.write(traces, raw)
            except KeyboardInterrupt as error:
                stopped = stopped or error
    if isinstance(stopped, KeyboardInterrupt):
        typer.echo(f"interrupted after {len(traces)} of {count} windows", err=True)
        raise typer.Exit(_INTERRUPTED)
    if stopped is not None:
        raise stopped


@testbed.command()
@command_of
def replay(
    *,
    traces: Path,
    recording: Recording,
    service_us: float | None = None,
) -> None:
    """Analyse raw traces again, without a server: other limits, a known service time.

    stationary testbed replay requests.parquet -o windows.csv --service-us 330

    Arguments
    ---------
    traces: File that record --raw wrote.

    Options
    -------
    service_us: Mean service time in microseconds for the paper's formula; by default it is found in
        each window.
    """
    from stationary.testbed import read_traces

    recording.check()
    known = None if service_us is None else service_us / 1e6
    recording.write(read_traces(traces), service=known)


def _service(name: str, mean_us: float | None) -> Service:
    from stationary.testbed.settings import Deterministic, Exponential, Unslowed

    if name == "none":
        if mean_us is not None:
            raise InputError("--service none leaves Kamailio as it is: leave out --service-us")
        return Unslowed()
    kind = Deterministic if name == "deterministic" else Exponential
    return kind() if mean_us is None else kind(mean_us)


def _buffer(name: str) -> Buffer:
    from stationary.testbed.buffers import Shim, SystemDefault, best_buffer

    return {"auto": best_buffer, "shim": Shim, "system": SystemDefault}[name]()
