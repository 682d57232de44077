"""What a recording is made of: the server's service times, its queue, who sends and how."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum

from stationary.errors import InputError

_OVERHEAD_US = 50.0
"""What a request costs Kamailio beside its sleep: reading, parsing, replying, waking up."""

_QUANTILES = 512
_BYTES_PER_REQUEST = 1280
"""Receive memory the kernel charges for one REGISTER: 25,600 bytes hold 20 of them."""

LONGEST_QUEUE = 150
MOST_SECONDS = 60.0
HIGHEST_RATE = 20_000.0


class Arrivals(StrEnum):
    """How requests are spread over a window."""

    POISSON = "poisson"
    CONSTANT = "constant"


class Service(ABC):
    """Service times, as statements of Kamailio's configuration.

    Attributes
    ----------
    mean_us : float
        Mean, microseconds.
    """

    mean_us: float

    @abstractmethod
    def statements(self) -> str:
        """What the route SERVICE does before it returns."""


@dataclass(frozen=True)
class Unslowed(Service):
    """Kamailio as it is: about 25 microseconds per request, and its waking up."""

    mean_us: float = field(default=_OVERHEAD_US, init=False)

    def statements(self) -> str:
        """Do nothing."""
        return ""


@dataclass(frozen=True)
class Deterministic(Service):
    """Every request takes the same time, all in all.

    Parameters
    ----------
    mean_us : float
        Microseconds.
    """

    mean_us: float = 330.0

    def __post_init__(self) -> None:
        _check_service(self.mean_us)

    def statements(self) -> str:
        """One sleep."""
        return _sleep(self.mean_us)


@dataclass(frozen=True)
class Exponential(Service):
    """Exponential service times, from a table of 512 equally likely ones.

    Parameters
    ----------
    mean_us : float
        Mean, microseconds.
    """

    mean_us: float = 330.0

    def __post_init__(self) -> None:
        _check_service(self.mean_us)

    def statements(self) -> str:
        """Draw a row of the table, and sleep as long as it says."""
        rows = [
            f"\t\tcase {k}:{_sleep(self.mean_us * value)} break;"
            for k, value in enumerate(_exponential_slices(_QUANTILES))
        ]
        return "\n".join(
            [f"\t$var(k) = $RANDOM mod {_QUANTILES};", "\tswitch($var(k)) {", *rows, "\t}"]
        )


@dataclass(frozen=True)
class Settings:
    """How a recording is made.

    Parameters
    ----------
    service : Service
        Service times of the server.
    queue : int
        Requests that its receive buffer holds; a request that finds no room counts as this state.
    arrivals : Arrivals
        Poisson, or at equal distances.
    seconds : float
        Length of a window.
    late : float
        Seconds after which an answer is late: the paper's 10 ms.
    seed : int
        Of the arrivals.
    """

    service: Service = field(default_factory=Deterministic)
    queue: int = 20
    arrivals: Arrivals = Arrivals.POISSON
    seconds: float = 1.0
    late: float = 0.010
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.queue <= LONGEST_QUEUE:
            raise InputError(f"queue must lie in 2..{LONGEST_QUEUE}; got {self.queue!r}")
        if not 0.05 <= self.seconds <= MOST_SECONDS:
            raise InputError(f"seconds must lie in 0.05..{MOST_SECONDS:g}; got {self.seconds!r}")
        if not self.late > 0:
            raise InputError(f"late must be a positive time in seconds; got {self.late!r}")
        if self.seed < 0:
            raise InputError(f"seed must be zero or more; got {self.seed!r}")

    @property
    def drain(self) -> float:
        """Seconds after the last request of a window until no answer can come any more."""
        return max(0.15, 3 * (self.queue + 2) * self.service.mean_us / 1e6)

    @property
    def buffer_bytes(self) -> int:
        """Receive buffer that holds the queue."""
        return self.queue * _BYTES_PER_REQUEST


def _check_service(mean_us: float) -> None:
    if not _OVERHEAD_US <= mean_us <= 100_000:
        raise InputError(
            f"the mean service time must lie in {_OVERHEAD_US:g}..100000 microseconds, since "
            f"Kamailio needs about {_OVERHEAD_US:g} for itself; got {mean_us!r}"
        )


def _sleep(total_us: float) -> str:
    pause = round(total_us - _OVERHEAD_US)
    return f'\tusleep("{pause}");' if pause > 0 else ""


def _exponential_slices(n: int) -> list[float]:
    """Means of the n equally likely slices of the standard exponential: their own mean is 1."""

    def integral(u: float) -> float:
        return (1 - u) * (math.log1p(-u) - 1) if u < 1 else 0.0

    return [n * (integral((k + 1) / n) - integral(k / n)) for k in range(n)]
