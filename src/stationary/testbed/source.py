"""What every source of load does: send a window's requests, and say what became of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stationary.testbed.server import Server
from stationary.testbed.settings import Settings


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
