"""Kamailio, a SIP server, with one worker and a short queue that the kernel keeps."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from string import Template

from stationary._support.files import replacing
from stationary.errors import InputError
from stationary.testbed.kernel import (
    COUNTERS,
    LOOPBACK,
    free_port,
    receive_errors,
    socket_drops,
)
from stationary.testbed.processes import (
    PROGRAMS,
    Process,
    compiled,
    find_program,
    need_program,
    running,
)
from stationary.testbed.service import Service, Shape
from stationary.testbed.source import Native, Source, register
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


@dataclass(frozen=True)
class Kamailio(System[Trace]):
    """Kamailio under load.

    Its queue is as many requests as its receive buffer holds; a request that finds no space counts
    as this state.
    """

    service: Service = USUAL_SERVICE  # all in all
    queue: int = 20
    seconds: float = 1.0  # length of a window
    late: float = 0.010  # seconds after which an answer is late: the paper's 10 ms
    seed: int = 0  # of the arrivals
    source: Source = field(default_factory=Native)  # who sends

    def __post_init__(self) -> None:
        check_settings(self.seed, seconds=(self.seconds, *SECONDS), queue=(self.queue, 2, 150))
        if not self.late > 0:
            raise InputError(f"late must be a positive time in seconds; got {self.late!r}")
        if not OVERHEAD <= self.service.mean <= _LONGEST_SERVICE:
            raise InputError(
                f"the mean service time of Kamailio must lie in {OVERHEAD:g}..{_LONGEST_SERVICE:g} "
                f"s, since it needs about {OVERHEAD:g} s for itself; got {self.service.mean!r}"
            )

    @property
    def drain(self) -> float:
        """Seconds after the last request of a window until no answer can come any more."""
        return max(0.15, 3 * (self.queue + 2) * self.service.mean)

    @property
    def buffer_bytes(self) -> int:
        """Receive buffer that holds the queue."""
        return self.queue * _BYTES_PER_REQUEST

    @property
    def statements(self) -> str:
        """What Kamailio does before it answers: it sleeps as long as a row of a table says."""
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
        """Examine programs and counters of the kernel."""
        readable = all(os.access(path, os.R_OK) for path in COUNTERS)
        counters = f"{COUNTERS[0]} and {COUNTERS[1]} are {'' if readable else 'not '}readable"
        return examined(
            Need("kernel counters", readable, True, counters, "mount /proc: it counts losses"),
            _program("kamailio", "kamailio", True),
            _program("gcc", "gcc libc6-dev", True, "it builds what limits the queue"),
            _program("sipp", "sip-tester", False, "only --generator native works"),
        )

    def record(self, rates: Iterable[float]) -> Generator[Trace, None, None]:
        """Record a window at each rate, and what the kernel dropped in it."""
        require_linux()
        with work_folder() as folder, self.server(folder) as (_, port):
            for number, rate in enumerate(map(float, rates)):
                before = socket_drops(port), receive_errors()
                sent = self.source.window(port, rate, self, number, folder)
                drops = socket_drops(port) - before[0], receive_errors() - before[1]
                yield Trace(rate, self.seconds, *sent, *drops)

    @contextmanager
    def server(self, folder: Path) -> Iterator[tuple[Process, int]]:
        """Run Kamailio while the context is open; gives its process and its UDP port."""
        program = need_program("kamailio", "kamailio")
        shim = compiled("smallbuf", folder)
        port, size = free_port(), str(self.buffer_bytes)
        configuration, log = folder / "kamailio.cfg", folder / "Kamailio.log"
        template = Template((PROGRAMS / "kamailio.cfg").read_text(encoding="utf-8"))
        # Kamailio's own $ signs are not ours, and `safe_substitute` leaves them.
        configuration.write_text(
            template.safe_substitute(port=port, service=self.statements), encoding="utf-8"
        )
        command: list[str | Path] = [program, "-DD", "-E", "-f", configuration, "-Y", folder]
        command += ["-b", size, "-m", "32", "-M", "8", "-P", folder / "kamailio.pid"]
        rank, ready = (_PRIORITY, _CORE), partial(_answers, port)
        # Kamailio's own -b can only enlarge the buffer that the shim gives it.
        environment = {"LD_PRELOAD": str(shim), "RCVBUF": size}
        with running(command, environment, log, rank=rank, answers=ready) as process:
            yield process, port

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


def _program(name: str, package: str, required: bool, why: str = "") -> Need:
    path = find_program(name)
    state = path or "not installed" + (f": {why}" if why else "")
    return Need(name, path is not None, required, state, f"apt-get install {package}")


def _sleep(total: float) -> str:
    pause = round((total - OVERHEAD) * 1e6)
    return f'\tusleep("{pause}");' if pause > 0 else ""
