"""Kamailio, a SIP server, with one worker and a short queue that the kernel keeps."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import Template
from typing import NamedTuple

from stationary._support.files import replacing
from stationary.errors import InputError
from stationary.testbed.buffers import PROGRAMS, Buffer, best_buffer, may_change_default
from stationary.testbed.kernel import (
    COUNTERS,
    LOOPBACK,
    free_port,
    receive_errors,
    socket_drops,
)
from stationary.testbed.processes import find_program, need_program, running
from stationary.testbed.service import Service, Shape
from stationary.testbed.source import Arrivals, Native, Source, register
from stationary.testbed.system import (
    SECONDS,
    Need,
    Summary,
    System,
    check_settings,
    examined,
    require_linux,
    work_folder,
)
from stationary.testbed.traces import Trace, tabulate, write_traces

USUAL_SERVICE = Service(Shape.DETERMINISTIC, 330e-6)
OVERHEAD = 50e-6
"""Seconds that a request costs Kamailio beside its sleep: reading, replying, waking up."""

_LONGEST_SERVICE = 0.1
_SLICES = 512
_BYTES_PER_REQUEST = 1280
"""Receive memory the kernel charges for one REGISTER: 25,600 bytes hold 20 of them."""

_PRIORITY, _CORE = 40, 1
_MODULES = ("pv.so", "sl.so", "cfgutils.so")


class Server(NamedTuple):
    """A server that runs."""

    port: int  # a UDP port of the loopback address
    pid: int  # its main process


@dataclass(frozen=True)
class Kamailio(System[Trace]):
    """Kamailio under load.

    Its queue is as many requests as its receive buffer holds; a request that finds no space counts
    as this state.
    """

    service: Service | None = USUAL_SERVICE  # all in all; None leaves Kamailio as it is
    queue: int = 20
    arrivals: Arrivals = Arrivals.POISSON
    seconds: float = 1.0  # length of a window
    late: float = 0.010  # seconds after which an answer is late: the paper's 10 ms
    seed: int = 0  # of the arrivals
    source: Source = field(default_factory=Native)  # who sends
    buffer: Buffer | None = None  # how the queue is limited; by default the best way there is

    def __post_init__(self) -> None:
        check_settings(self.seed, seconds=(self.seconds, *SECONDS), queue=(self.queue, 2, 150))
        if not self.late > 0:
            raise InputError(f"late must be a positive time in seconds; got {self.late!r}")
        if self.service and not OVERHEAD <= self.service.mean <= _LONGEST_SERVICE:
            raise InputError(
                f"the mean service time of Kamailio must lie in {OVERHEAD:g}..{_LONGEST_SERVICE:g} "
                f"s, since it needs about {OVERHEAD:g} s for itself; got {self.service.mean!r}"
            )

    @property
    def drain(self) -> float:
        """Seconds after the last request of a window until no answer can come any more."""
        mean = OVERHEAD if self.service is None else self.service.mean
        return max(0.15, 3 * (self.queue + 2) * mean)

    @property
    def buffer_bytes(self) -> int:
        """Receive buffer that holds the queue."""
        return self.queue * _BYTES_PER_REQUEST

    @property
    def statements(self) -> str:
        """What Kamailio does before it answers: it sleeps as long as a row of a table says."""
        if self.service is None:
            return ""
        if self.service.shape is Shape.DETERMINISTIC:
            return _sleep(self.service.mean)
        rows = [
            f"\t\tcase {k}:{_sleep(total)} break;"
            for k, total in enumerate(self.service.slices(_SLICES))
        ]
        return "\n".join(
            [f"\t$var(k) = $RANDOM mod {_SLICES};", "\tswitch($var(k)) {", *rows, "\t}"]
        )

    @property
    def usual_rates(self) -> tuple[float, float]:
        """Up to far above what a service time of a third of a millisecond allows."""
        return 300.0, 5000.0

    def needs(self) -> list[Need]:
        """Examine programs, modules, counters of the kernel, and ways to limit the queue."""
        readable = all(os.access(path, os.R_OK) for path in COUNTERS)
        counters = f"{' and '.join(map(str, COUNTERS))} are {'' if readable else 'not '}readable"
        folder = modules_folder()
        lacking = [name for name in _MODULES if folder is None or not (folder / name).exists()]
        modules = f"{', '.join(lacking or _MODULES)} {'not ' if lacking else ''}in {folder}"
        queue = "by net.core.rmem_default, changed while the server starts"
        if find_program("gcc") is not None:
            queue = "by the shim, which leaves the system's settings alone"
        elif not may_change_default():
            queue = ""
        nothing = "no compiler for the shim, and net.core.rmem_default cannot be written"
        without_sipp = "not installed: only --generator native works"
        without_gcc = (
            "not installed: without it SIPp's clock is too coarse to be used, and only root can "
            "limit the queue"
        )
        debian = "apt-get install kamailio"
        return examined(
            Need("kernel counters", readable, True, counters, "mount /proc: it counts losses"),
            _program("kamailio", "kamailio", True, "not installed", r"kamailio (\d[\w.]*)"),
            Need("kamailio modules", not lacking, True, modules, debian),
            _program("sipp", "sip-tester", False, without_sipp, r"SIPp v(\d[\w.]*)"),
            _program("gcc", "gcc libc6-dev", False, without_gcc, r"(\d+\.[\d.]+)"),
            Need("queue limit", bool(queue), True, queue or nothing, "install gcc, or run as root"),
        )

    def record(self, rates: Iterable[float]) -> Generator[Trace, None, None]:
        """Record a window at each rate, and what the kernel dropped in it."""
        require_linux()
        with work_folder() as folder, self.server(folder) as server:
            for number, rate in enumerate(map(float, rates)):
                before = socket_drops(server.port), receive_errors()
                sent = self.source.window(server.port, rate, self, number, folder)
                drops = socket_drops(server.port) - before[0], receive_errors() - before[1]
                yield Trace(rate, self.seconds, *sent, *drops)

    @contextmanager
    def server(self, folder: Path) -> Iterator[Server]:
        """Run Kamailio while the context is open; its files are in ``folder``."""
        program = need_program("kamailio", "kamailio")
        port, size = free_port(), self.buffer_bytes
        configuration, log = folder / "kamailio.cfg", folder / "Kamailio.log"
        template = Template((PROGRAMS / "kamailio.cfg").read_text(encoding="utf-8"))
        # Kamailio's own $ signs are not ours, and `safe_substitute` leaves them.
        configuration.write_text(
            template.safe_substitute(port=port, service=self.statements), encoding="utf-8"
        )
        command: list[str | Path] = [program, "-DD", "-E", "-f", configuration, "-Y", folder]
        command += ["-b", str(size), "-m", "32", "-M", "8", "-P", folder / "kamailio.pid"]
        rank, ready = (_PRIORITY, _CORE), partial(_answers, port)
        with ExitStack() as stack:
            with (self.buffer or best_buffer())(size, folder) as environment:
                started = running(command, environment, log, rank=rank, answers=ready)
                process = stack.enter_context(started)
            yield Server(port, process.pid)

    def write(
        self,
        recorded: Sequence[Trace],
        output: Path,
        raw: Path | None = None,
        service: float | None = None,
    ) -> Summary:
        """Write windows, and the traces if asked; ``service`` is a mean service time if known."""
        if raw is not None:  # first, because it can be analysed again if anything goes wrong
            write_traces(recorded, raw)
        made = tabulate(recorded, self.queue, self.late, service)
        table, found = made.table, made.calibration
        with replacing(output) as part:
            table.to_csv(part, index=False)
        lost = int(table["unanswered"].sum())
        full_at = float((table["full_at"] * table["unanswered"]).sum() / lost) if lost else None
        return Summary(
            len(table),
            (float(table["load"].min()), float(table["load"].max())),
            sent=int(table["sent"].sum()),
            lost=lost,
            stalled=int(table["stalled"].sum()),
            late=int(table["late"].sum()),
            dropped=int(table["drops_socket"].sum()),
            service=found.service,
            overhead=found.propagation,
            full_at=full_at,
        )


def _answers(port: int) -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((LOOPBACK, 0))
        probe.settimeout(0.1)
        probe.sendto(register(0, probe.getsockname()[1], port, "ready"), (LOOPBACK, port))
        return probe.recv(2048).startswith(b"SIP/2.0 200")
    return False


def modules_folder() -> Path | None:
    """Return the folder in which the installed Kamailio looks for modules."""
    line = re.search(r"paths? to modules: *(\S+)", _output(find_program("kamailio"), "-I"))
    return Path(line[1].split(":")[0]) if line else None


def _program(name: str, package: str, required: bool, without: str, version: str) -> Need:
    """Return whether a program is installed, and its version by a pattern of what it prints."""
    path = find_program(name)
    found = re.search(version, _output(path, "--version" if name == "gcc" else "-v"))
    state = without if path is None else f"{path}, version {found[1] if found else 'unknown'}"
    return Need(name, path is not None, required, state, f"apt-get install {package}")


def _output(program: str | None, option: str) -> str:
    """Return what a program prints, whatever its exit code; nothing if there is no program."""
    if program is None:
        return ""
    done = subprocess.run([program, option], capture_output=True, text=True, timeout=20)  # noqa: S603
    return done.stdout + done.stderr


def _sleep(total: float) -> str:
    pause = round((total - OVERHEAD) * 1e6)
    return f'\tusleep("{pause}");' if pause > 0 else ""
