"""What every source of load does: send a window's requests, and say what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stationary.testbed.kernel import LOOPBACK

if TYPE_CHECKING:
    from stationary.testbed.kamailio import Kamailio

PRIORITY, CORE = 30, 0
"""Of a program that sends: below the server's priority, and not on its core."""


DIGITS = 7
"""Digits of a request's number in its Call-ID."""


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
    name, own = f"{tag}-{number:0{DIGITS}d}", f"{LOOPBACK}:{own_port}"
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
