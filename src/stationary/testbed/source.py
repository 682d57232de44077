"""Sources of load: what all of them do, and our own, whose requests leave at given microseconds.

Our own takes a request for sent just before the kernel gets it, and a reply for received when the
kernel got it, so that delays of this program between the two do not count.
"""

from __future__ import annotations

import gc
import select
import socket
import struct
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stationary.testbed.kernel import LOOPBACK, precedence

if TYPE_CHECKING:
    from stationary.testbed.kamailio import Kamailio

PRIORITY, CORE = 30, 0
"""Of a program that sends: below the server's priority, and not on its core."""

_DIGITS = 7  # of a request's number in its Call-ID
_SO_TIMESTAMPNS = 35
_STALL = 200e-6  # seconds by which a request that leaves late has been held up

_LEAD = 0.01
_SPIN = 150e-6
"""Seconds before a request is due during which this program looks at nothing but the clock."""

_MOST_UNCOLLECTED = 100
"""Answers that may wait in our own buffer, which holds some hundreds, however busy we are."""


class Arrivals(StrEnum):
    """How requests are spread over a window."""

    POISSON = "poisson"
    CONSTANT = "constant"


class Sent(NamedTuple):
    """Requests of one window.

    When each was sent, in seconds from the first; seconds until its answer, NaN where none came;
    and the number of signs that the source itself was held up.
    """

    arrival: NDArray[np.float64]
    response: NDArray[np.float64]
    stalled: int


class Source(ABC):
    """A program that sends requests."""

    @abstractmethod
    def window(self, port: int, rate: float, system: Kamailio, number: int, folder: Path) -> Sent:
        """Send one window to a port; ``number`` seeds its arrivals, ``folder`` is for files."""


def register(number: int, own_port: int, port: int, tag: str) -> bytes:
    """Return the REGISTER of this number, from one port of the loopback address to another."""
    name, own = f"{tag}-{number:0{_DIGITS}d}", f"{LOOPBACK}:{own_port}"
    lines = [
        f"REGISTER sip:{LOOPBACK}:{port} SIP/2.0",
        f"Via: SIP/2.0/UDP {own};branch=z9hG4bK-{name}",
        "Max-Forwards: 70",
        f"From: <sip:ue@{LOOPBACK}>;tag={name}",
        f"To: <sip:ue@{LOOPBACK}>",
        f"Call-ID: {name}",
        "CSeq: 1 REGISTER",
        f"Contact: <sip:ue@{own}>",
        "Expires: 3600",
        "Content-Length: 0",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def requests_of(rate: float, system: Kamailio, number: int) -> tuple[int, np.random.Generator]:
    """Return how many requests a window has, and the random numbers of their times."""
    random = np.random.default_rng([system.seed, number])
    mean = rate * system.seconds
    if system.arrivals is Arrivals.POISSON:
        return int(random.poisson(mean)), random
    return round(mean), random


@dataclass(frozen=True)
class Native(Source):
    """Poisson or constant arrivals, to the microsecond."""

    def window(self, port: int, rate: float, system: Kamailio, number: int, folder: Path) -> Sent:
        """Send the requests of one window, and wait for the last answers."""
        del folder
        count, random = requests_of(rate, system, number)
        due = np.arange(count) / rate
        if system.arrivals is Arrivals.POISSON:
            due = np.sort(random.uniform(0, system.seconds, count))
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire,
            precedence(PRIORITY, CORE),
        ):
            return _send(wire, port, due.tolist(), system.drain, f"w{number}")


def _send(wire: socket.socket, port: int, due: list[float], drain: float, tag: str) -> Sent:
    wire.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    wire.bind((LOOPBACK, 0))
    wire.setblocking(False)
    own = wire.getsockname()[1]
    requests = [register(k, own, port, tag) for k in range(len(due))]
    sent, received, stalled, uncollected = [0] * len(due), [0] * len(due), 0, 0
    mark = f"Call-ID: {tag}-".encode()
    target = (LOOPBACK, port)

    def collect() -> None:
        nonlocal uncollected
        uncollected = 0
        with suppress(BlockingIOError):
            while True:
                reply, ancillary, _, _ = wire.recvmsg(2048, 64)
                at = reply.find(mark)
                if at < 0 or not reply.startswith(b"SIP/2.0 200"):
                    continue
                first = at + len(mark)
                seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
                received[int(reply[first : first + _DIGITS])] = seconds * 10**9 + nanoseconds

    collecting = gc.isenabled()
    gc.disable()  # a collection takes milliseconds
    try:
        begin = time.monotonic() + _LEAD
        for k, offset in enumerate(due):
            wait = begin + offset - time.monotonic()
            while wait > 0:
                if wait > _SPIN:
                    select.select([wire], [], [], wait - 100e-6)
                    collect()
                wait = begin + offset - time.monotonic()
            stalled += wait < -_STALL
            sent[k] = time.time_ns()
            wire.sendto(requests[k], target)
            uncollected += 1
            if uncollected > _MOST_UNCOLLECTED:
                collect()
        end = time.monotonic() + drain
        while time.monotonic() < end:
            select.select([wire], [], [], 0.005)
            collect()
    finally:
        if collecting:
            gc.enable()
    start = np.array(sent, dtype=np.int64)
    took = np.where(received, np.array(received, dtype=np.int64) - start, 0) / 1e9
    first = start[0] if len(start) else 0
    return Sent(
        (start - first) / 1e9, np.where(received, np.maximum(took, 0), np.nan), int(stalled)
    )
