"""What every source of load does: send a window's requests, and say what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stationary.testbed.server import Server
from stationary.testbed.settings import Arrivals, Settings

PRIORITY, CORE = 30, 0
"""Of a program that sends: below the server's priority, and not on its core."""


@dataclass(frozen=True, eq=False)
class Sent:
    """Requests of one window.

    Attributes
    ----------
    arrival : array [N]
        When each was sent, in seconds from the first.
    response : array [N]
        Seconds until its answer came, NaN where none did.
    stalled : int
        Signs that the source itself was held up.
    """

    arrival: NDArray[np.float64]
    response: NDArray[np.float64]
    stalled: int


class Source(ABC):
    """A program that sends requests."""

    @abstractmethod
    def window(
        self, server: Server, rate: float, settings: Settings, number: int, folder: Path
    ) -> Sent:
        """Send one window at a rate; ``number`` seeds its arrivals, ``folder`` is for files."""


def requests_of(rate: float, settings: Settings, number: int) -> tuple[int, np.random.Generator]:
    """Return how many requests a window has, and the random numbers of their times."""
    random = np.random.default_rng([settings.seed, number])
    mean = rate * settings.seconds
    if settings.arrivals is Arrivals.POISSON:
        return int(random.poisson(mean)), random
    return round(mean), random
