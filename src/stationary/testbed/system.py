"""What every system of the testbed can do: say what it needs, and be recorded.

A system is one file with a subclass of `System`; the command line offers its options.
"""

from __future__ import annotations

import os
import platform
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from stationary.errors import InputError, ProgramError
from stationary.testbed.kernel import may_run_first

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
SECONDS = (0.05, 60.0)  # that a window may last

Recorded = TypeVar("Recorded")
"""What a system records in one window."""


@dataclass(frozen=True)
class Need:
    """One thing that the testbed needs, or works better with, and how it is on this machine.

    Nothing can be recorded where something ``required`` is not ``there``; the ``remedy`` is empty
    where nothing is to be done.
    """

    name: str
    there: bool
    required: bool
    sentence: str
    remedy: str


@dataclass(frozen=True)
class Summary:
    """What was written; None where a system does not know."""

    windows: int
    loads: tuple[float, float]  # the lowest and the highest
    sent: int  # requests
    lost: int  # those without an answer
    stalled: int  # those that left late themselves
    late: int | None = None  # those with a late answer
    dropped: int | None = None  # losses that the kernel counted
    service: float | None = None  # its mean time in seconds
    overhead: float | None = None  # seconds that a response takes beside its service
    held_up: float | None = None  # share of the service time in which other programs ran
    capacity: int | None = None  # most requests in the system
    full_at: float | None = None  # mean number in the system when a request was lost


class System(ABC, Generic[Recorded]):
    """A server and its client on the loopback address."""

    usual_windows: ClassVar[int] = 60
    """Windows of a recording, unless it is said how many."""

    @abstractmethod
    def needs(self) -> list[Need]:
        """Examine this machine, without changing anything."""

    @property
    @abstractmethod
    def usual_rates(self) -> tuple[float, float]:
        """Requests per second from light load to overload."""

    @abstractmethod
    def record(self, rates: Iterable[float]) -> Generator[Recorded, None, None]:
        """Record a window at each rate; yields each when it is done.

        The server runs from the first window until the iterator is used up or closed, so close it
        whatever happens: ``with contextlib.closing(system.record(...)) as windows``.
        """

    @abstractmethod
    def write(self, recorded: Sequence[Recorded], output: Path, raw: Path | None) -> Summary:
        """Write the windows, and every request to ``raw`` if it is given."""


def examined(*needs: Need) -> list[Need]:
    """Return the needs of a system with those of every system, or only that this is no Linux."""
    try:
        require_linux()
    except ProgramError as error:
        return [Need("Linux", False, True, str(error), "use a Linux machine, real or virtual")]
    first, cores = may_run_first(), len(os.sched_getaffinity(0))
    real_time = "allowed" if first else "not allowed: other programs disturb the recording"
    shared = "" if cores > 1 else ": server and client share it"
    priority = "run as root, or raise the limit: ulimit -r 40"
    more = "use a machine with two cores or more"
    every = [
        *needs,
        Need("real-time priority", first, False, real_time, priority),
        Need("cores", cores > 1, False, f"{cores} to run on{shared}", more),
    ]
    return [replace(need, remedy="") if need.there else need for need in every]


def require_linux() -> None:
    """Raise on any other system: it has no such priorities, counters and sockets."""
    if platform.system() != "Linux":
        raise ProgramError(f"the testbed runs on Linux alone, and this is {platform.system()}")


def check_settings(seed: int, **ranges: tuple[float, float, float]) -> None:
    """Raise for a seed, or for a value outside of its range, which are given together."""
    if seed < 0:
        raise InputError(f"seed must be zero or more; got {seed!r}")
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise InputError(f"{name} must lie in {low:g}..{high:g}; got {value!r}")


@contextmanager
def work_folder() -> Iterator[Path]:
    """Make a folder for the files of a run, in memory where that is possible: disks stall."""
    memory = MEMORY if os.access(MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="stationary-testbed-", dir=memory) as name:
        yield Path(name)
