"""gunicorn, a web server, with sync workers and a short backlog that the kernel keeps.

A worker serves one connection at a time, and the others wait in the backlog of the listening
socket. The kernel lets one more wait than it is told, so the system holds workers + backlog + 1
requests. Where it is full, the kernel ignores a request to connect; a client that waits longer than
a second would then try again by itself, as TCP does.

The steps of a recording follow one another without a break, as load does in life, so that windows
as long as a step are those of `stationary ingest`.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from stationary.errors import ProgramError
from stationary.ingest import Cut, RequestLog, Source, windows_from_events
from stationary.testbed.buffers import PROGRAMS
from stationary.testbed.client import Client, Request, http_request
from stationary.testbed.kernel import LOOPBACK, precedence
from stationary.testbed.processes import Process, last_words, running
from stationary.testbed.service import Service, Shape
from stationary.testbed.source import CORE, PRIORITY
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
from stationary.testbed.traces import write_requests

USUAL_SERVICE = Service(Shape.EXPONENTIAL, 0.008)

_REMEDY = "pip install 'stationary[testbed]'"
_LEAD = 0.2
_MARGIN = 0.02
"""Seconds after the last step at which one more request leaves, which shows that it is over."""

_PRIORITY, _HARMLESS = 25, 0.5
"""Of workers that mostly sleep, and the most cores they may keep busy to run before all others."""

_OTHER_FILES = 64  # open files of this process that are not connections


@dataclass(frozen=True)
class Step:
    """The requests of one step, answered or not; ``rate`` is the one that was asked for."""

    rate: float
    requests: list[Request]


@dataclass(frozen=True)
class Gunicorn(System[Step]):
    """gunicorn under load.

    A worker burns CPU time for a share of the service time, and sleeps for the rest, as while
    waiting for a database. More workers than cores need a small share, or they slow one another
    down.
    """

    usual_windows = 20  # of eight seconds each
    service: Service = USUAL_SERVICE  # time that a worker takes for a request
    cpu_share: float = 1.0
    workers: int = 1  # processes that serve, one request at a time each
    backlog: int = 16  # connections that may wait; the kernel adds one
    seconds: float = 8.0  # length of a step
    patience: float = 0.9  # seconds after which the client gives a request up
    seed: int = 0  # of arrivals and service times

    def __post_init__(self) -> None:
        check_settings(
            self.seed,
            seconds=(self.seconds, *SECONDS),
            cpu_share=(self.cpu_share, 0, 1),
            workers=(self.workers, 1, 64),
            backlog=(self.backlog, 1, 2048),
            patience=(self.patience, 0.01, 60),
        )

    @property
    def capacity(self) -> int:
        """Most requests in the system."""
        return self.workers + self.backlog + 1

    @property
    def usual_rates(self) -> tuple[float, float]:
        """From a tenth to one and a half times what the workers can do."""
        most = self.workers / self.service.mean
        return 0.1 * most, 1.5 * most

    def needs(self) -> list[Need]:
        """Examine whether gunicorn can be run."""
        there = _is_installed()
        state = "installed" if there else "not installed"
        return examined(Need("gunicorn", there, True, state, _REMEDY))

    def record(self, rates: Iterable[float]) -> Generator[Step, None, None]:
        """Record a step at each rate; a request of one may be answered during the next."""
        require_linux()
        steps = [self._step(float(rate), number) for number, rate in enumerate(rates)]
        _check_files(max(step.rate for step in steps) * self.patience)
        with (
            work_folder() as folder,
            self._server(folder) as (process, port),
            Client(port, self.patience) as client,
        ):
            begin = time.monotonic() + _LEAD
            end = begin + len(steps) * self.seconds + _MARGIN
            steps[-1].requests.append(self._request(end - begin, steps[-1].rate, 0.0))
            for number, step in enumerate(steps, 1):
                with precedence(PRIORITY, CORE):
                    client.send(step.requests, begin, begin + number * self.seconds)
                if number == len(steps):
                    client.finish()
                if process.poll() is not None:
                    said = last_words(folder / "gunicorn.log")
                    raise ProgramError(f"gunicorn stopped during the recording; {said}")
                yield step

    def write(self, recorded: Sequence[Step], output: Path, raw: Path | None = None) -> Summary:
        """Write requests as ``arrival, response, status, target``, and windows made of them."""
        import pandas as pd

        # Nobody knows what became of requests that were under way when a recording was broken off.
        requests = [asdict(each) for step in recorded for each in step.requests if each.status]
        frame = pd.DataFrame(requests).sort_values("arrival", ignore_index=True).round(6)
        with work_folder() as folder:
            file = folder / "requests.csv" if raw is None else raw
            write_requests(frame[["arrival", "response", "status", "target"]], file)
            cut = Cut(window=self.seconds, capacity=self.capacity, servers=(self.workers,))
            made = windows_from_events(Source(str(file)), cut)
        made.write(output)
        loads = made.table["load"]
        log = RequestLog(frame["arrival"].to_numpy(), frame["response"].to_numpy())
        lost, served = log.in_system[~log.answered], frame["took"] >= 0
        service, took = frame["service"][served].sum(), frame["took"][served].sum()
        # What a response takes beside its service is seen where nobody was in the way.
        overhead = (frame["response"] - frame["took"])[served & (log.in_system == 0)].median()
        return Summary(
            len(loads),
            (float(loads.min()), float(loads.max())),
            sent=len(log),
            lost=len(lost),
            stalled=int(frame["stalled"].sum()),
            service=float(service / served.sum()) if served.any() else None,
            overhead=None if np.isnan(overhead) else float(overhead),
            held_up=float(took / service - 1) if served.any() else None,
            capacity=self.capacity,
            full_at=float(lost.mean()) if len(lost) else None,
        )

    @contextmanager
    def _server(self, folder: Path) -> Iterator[tuple[Process, int]]:
        """Run gunicorn while the context is open; gives its process and its port."""
        if not _is_installed():
            raise ProgramError(
                f"gunicorn is not installed: {_REMEDY} (stationary testbed doctor --system "
                f"gunicorn shows what else is missing)"
            )
        log = folder / "gunicorn.log"
        with socket.socket() as door:
            # The port is taken before gunicorn starts, which inherits it: nobody else can have it.
            door.bind((LOOPBACK, 0))
            port = door.getsockname()[1]
            command: list[str | Path] = [sys.executable, "-m", "gunicorn", "burn:app"]
            command += ["--bind", f"fd://{door.fileno()}", "--backlog", str(self.backlog)]
            command += ["--workers", str(self.workers), "--worker-class", "sync", "--timeout", "0"]
            command += ["--pythonpath", PROGRAMS, "--worker-tmp-dir", folder, "--no-control-socket"]
            environment = {"GUNICORN_CMD_ARGS": "", "PYTHONDONTWRITEBYTECODE": "1"}
            harmless = self.workers * self.cpu_share <= _HARMLESS
            rank = (_PRIORITY, None) if harmless else None
            ready = partial(_answers, port, self.workers, log)
            with running(command, environment, log, [door.fileno()], rank, ready) as process:
                door.close()  # else it would hold connections when gunicorn is gone
                yield process, port

    def _step(self, rate: float, number: int) -> Step:
        """Return a step: Poisson arrivals, independent service times."""
        random = np.random.default_rng([self.seed, number])
        due = np.sort(random.uniform(0, self.seconds, random.poisson(rate * self.seconds)))
        if number == 0:
            due = np.append(0.0, due)  # windows begin with the first request of a file
        service = self.service.draw(random, len(due)).tolist()
        begin = number * self.seconds
        pairs = zip((begin + due).tolist(), service, strict=True)
        return Step(rate, [self._request(at, rate, takes) for at, takes in pairs])

    def _request(self, due: float, rate: float, takes: float) -> Request:
        burnt = takes * self.cpu_share
        return Request(due, rate, takes, f"/{burnt:.6f}/{takes - burnt:.6f}")


def _is_installed() -> bool:
    return importlib.util.find_spec("gunicorn") is not None


def _check_files(connections: float) -> None:
    import resource  # not on every system

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most != resource.RLIM_INFINITY and connections + _OTHER_FILES > most:
        raise ProgramError(
            f"up to {connections:.0f} connections would be open at a time, and this process may "
            f"have {most} open files: allow more (ulimit -n), or take a lower rate or patience"
        )


def _answers(port: int, workers: int, log: Path) -> bool:
    """Whether the server answers, and all of its workers have started."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), 1.0) as probe:
        probe.sendall(http_request("/0/0"))
        started = log.read_text(encoding="utf-8", errors="replace").count("Booting worker")
        return probe.recv(4096).startswith(b"HTTP/1.1 200") and started >= workers
    return False
