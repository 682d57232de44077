"""``stationary testbed``: a real Kamailio under load on this machine, recorded as windows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stationary.cli._options import Json
from stationary.cli._recording import check_output, write
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
"""Windows after which a recording that has no terminal says how far it is."""


class ServiceName(StrEnum):
    """Service times of the server."""

    DETERMINISTIC = "deterministic"
    EXPONENTIAL = "exponential"
    NONE = "none"


class GeneratorName(StrEnum):
    """Who sends the requests."""

    SIPP = "sipp"
    NATIVE = "native"


class ArrivalsName(StrEnum):
    """How the requests of a window are spread."""

    POISSON = "poisson"
    CONSTANT = "constant"


class BufferName(StrEnum):
    """How the server's queue is limited."""

    AUTO = "auto"
    SHIM = "shim"
    SYSTEM = "system"


Output = Annotated[Path, typer.Option("--output", "-o", help="CSV file of windows to write.")]
Queue = Annotated[
    int, typer.Option(help="Requests that fit into the server's buffer; lost ones count as Q=this.")
]
Late = Annotated[float, typer.Option(help="Milliseconds after which an answer is late.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are already there.")
]


@testbed.command()
def doctor(json: Json = False) -> None:
    """Say what the testbed needs, what is there, and how to get the rest. Changes nothing.

    Exit codes: 0 a recording can be made; 1 something required is missing.
    """
    from dataclasses import asdict

    from stationary.cli._show import as_json
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
def record(
    output: Output,
    rates: Annotated[
        str | None,
        typer.Option(help="Lowest and highest rate, requests per second; 300:5000 by default."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="'day' (a slow swing with noise between the --rates), or a CSV file with a column "
            "load; a straight ramp by default."
        ),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(help="Number of windows; 60 by default, or as many as the profile has."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of a window.")] = 1.0,
    service: Annotated[
        ServiceName, typer.Option(help="Service times of the server.")
    ] = ServiceName.DETERMINISTIC,
    service_us: Annotated[
        float | None,
        typer.Option(help="Mean service time in microseconds, all in all; 330 by default."),
    ] = None,
    queue: Queue = 20,
    generator: Annotated[
        GeneratorName, typer.Option(help="SIPp, or our own generator, which is more precise.")
    ] = GeneratorName.SIPP,
    arrivals: Annotated[
        ArrivalsName, typer.Option(help="At random or at equal distances.")
    ] = ArrivalsName.POISSON,
    late_ms: Late = 10.0,
    limit_by: Annotated[
        BufferName,
        typer.Option(
            help="How the queue is limited: a shim (needs gcc), or a system setting that is put "
            "back (needs root); auto prefers the shim."
        ),
    ] = BufferName.AUTO,
    raw: Annotated[
        Path | None,
        typer.Option(help="Keep every request in this .parquet, .csv or .csv.gz file, too."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of loads and arrivals; the times of SIPp have none.")
    ] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Record windows from light load to overload; takes a little longer than they last.

    Kamailio runs with one worker and a short queue, on the loopback address. On Ctrl-C it is
    stopped and the windows so far are written.

    stationary testbed record -o windows.csv --profile day --windows 200 --service exponential

    Exit codes: 0 done; 2 something is missing or failed; 130 interrupted.
    """
    from contextlib import closing

    from stationary.cli._show import progress_bar
    from stationary.testbed.native import Native
    from stationary.testbed.processes import interruptible, undisturbed
    from stationary.testbed.record import record as run
    from stationary.testbed.settings import Arrivals, Settings
    from stationary.testbed.sipp import Sipp

    check_output(output, raw, overwrite)
    loads, count = _profile(rates, profile, windows, seed)
    settings = Settings(
        service=_service(service, service_us),
        queue=queue,
        arrivals=Arrivals(arrivals.value),
        seconds=seconds,
        late=late_ms / 1e3,
        seed=seed,
    )
    source = Sipp() if generator is GeneratorName.SIPP else Native()
    traces: list[Trace] = []
    stopped: BaseException | None = None
    with interruptible():
        try:
            with (
                closing(run(loads.rates(count), settings, source, _buffer(limit_by))) as recording,
                progress_bar("windows", count, still=True) as report,
            ):
                for trace in recording:
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
                    write(traces, output, raw, queue, late_ms / 1e3)
            except KeyboardInterrupt as error:
                stopped = stopped or error
    if isinstance(stopped, KeyboardInterrupt):
        typer.echo(f"interrupted after {len(traces)} of {count} windows", err=True)
        raise typer.Exit(_INTERRUPTED)
    if stopped is not None:
        raise stopped


@testbed.command()
def replay(
    traces: Annotated[Path, typer.Argument(help="File that record --raw wrote.")],
    output: Output,
    queue: Queue = 20,
    late_ms: Late = 10.0,
    service_us: Annotated[
        float | None,
        typer.Option(
            help="Mean service time in microseconds for the paper's formula; by default it is "
            "found in each window."
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Analyse raw traces again, without a server: other limits, a known service time.

    stationary testbed replay requests.parquet -o windows.csv --service-us 330
    """
    from stationary.testbed.traces import read_traces

    check_output(output, None, overwrite)
    known = None if service_us is None else service_us / 1e6
    write(read_traces(traces), output, None, queue, late_ms / 1e3, known)


def _profile(
    rates: str | None, profile: str | None, windows: int | None, seed: int
) -> tuple[Profile, int]:
    from stationary.cli._parse import parse_range
    from stationary.testbed.profiles import Day, Ramp, read_profile

    if profile not in (None, "day"):
        if rates is not None:
            raise InputError(f"--profile {profile} has its own rates: leave out --rates")
        given = read_profile(profile)
        return given, len(given.values) if windows is None else windows
    low, high = parse_range("300:5000" if rates is None else rates) or (None, None)
    if low is None or high is None:
        raise InputError(f"--rates needs both ends, as in 300:5000; got {rates!r}")
    count = _WINDOWS if windows is None else windows
    return (Ramp(low, high) if profile is None else Day(low, high, seed=seed)), count


def _service(name: ServiceName, mean_us: float | None) -> Service:
    from stationary.testbed.settings import Deterministic, Exponential, Unslowed

    if name is ServiceName.NONE:
        if mean_us is not None:
            raise InputError("--service none leaves Kamailio as it is: leave out --service-us")
        return Unslowed()
    kind = Deterministic if name is ServiceName.DETERMINISTIC else Exponential
    return kind() if mean_us is None else kind(mean_us)


def _buffer(name: BufferName) -> Buffer:
    from stationary.testbed.buffers import Shim, SystemDefault, best_buffer

    if name is BufferName.AUTO:
        return best_buffer()
    return Shim() if name is BufferName.SHIM else SystemDefault()
