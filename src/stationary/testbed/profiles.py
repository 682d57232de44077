"""Loads over time: the offered rate of every window of a recording."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stationary.data.tables import open_table
from stationary.errors import InputError
from stationary.testbed.settings import HIGHEST_RATE

Rates = NDArray[np.float64]

MOST_WINDOWS = 10_000


class Profile(ABC):
    """Offered rates, requests per second."""

    @abstractmethod
    def rates(self, windows: int) -> Rates:
        """Rates of so many windows, in the order in which they are recorded."""


@dataclass(frozen=True)
class Ramp(Profile):
    """From one rate to another in equal steps.

    Parameters
    ----------
    low, high : float
        Rates of the first and of the last window.
    """

    low: float = 300.0
    high: float = 5000.0

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)

    def rates(self, windows: int) -> Rates:
        """Equally spaced rates."""
        return np.linspace(self.low, self.high, _checked(windows))


@dataclass(frozen=True)
class Day(Profile):
    """A day of a video service: quiet night, slow swing to the evening's peak, with noise.

    The swing is a daily wave and its second harmonic, which makes the rise slow and the fall steep;
    the noise is autoregressive, so that neighbouring windows have similar loads.

    Parameters
    ----------
    low, high : float
        Rates of the quietest and of the busiest window.
    noise : float
        Standard deviation of the noise, as a share of the range.
    seed : int
        Of the noise.
    """

    low: float = 300.0
    high: float = 5000.0
    noise: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)
        if not 0 <= self.noise < 1:
            raise InputError(f"noise must lie in [0, 1); got {self.noise!r}")

    def rates(self, windows: int) -> Rates:
        """One day, whatever the number of windows."""
        day = 2 * math.pi * np.arange(_checked(windows)) / windows
        swing = -np.cos(day) - 0.3 * np.sin(2 * day)
        draws = np.random.default_rng(self.seed).standard_normal(windows)
        noise, kept = np.empty(windows), 0.7
        level = draws[0]
        for k, draw in enumerate(draws):
            level = kept * level + math.sqrt(1 - kept**2) * draw
            noise[k] = level
        shape = (swing - swing.min()) / max(np.ptp(swing), 1e-12) + self.noise * noise
        shape = (shape - shape.min()) / max(np.ptp(shape), 1e-12)
        return np.asarray(self.low + (self.high - self.low) * shape)


@dataclass(frozen=True, eq=False)
class Given(Profile):
    """Given rates, one per window.

    Parameters
    ----------
    values : array [M]
        The rates.
    """

    values: Rates

    def __post_init__(self) -> None:
        _checked(len(self.values))
        for k, rate in enumerate(self.values):
            if not 1 <= rate <= HIGHEST_RATE:
                raise InputError(
                    f"window {k}: the rate must lie in 1..{HIGHEST_RATE:g} per second; got {rate:g}"
                )

    def rates(self, windows: int) -> Rates:
        """Return the first rates, or all of them."""
        if windows > len(self.values):
            raise InputError(
                f"the profile has {len(self.values)} rates, fewer than {windows} windows"
            )
        return self.values[: _checked(windows)]


def read_profile(path: str | os.PathLike[str], column: str = "load") -> Given:
    """Read rates from a table with a column ``load``: a recorded window file will do."""
    table = open_table(path)
    if column not in table.columns:
        raise InputError(
            f"{path}: there is no column {column!r}; the columns are {', '.join(table.columns)}"
        )
    values = table.numbers([column])
    try:
        return Given(values[:, 0])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_range(low: float, high: float) -> None:
    if not 1 <= low <= high <= HIGHEST_RATE:
        raise InputError(
            f"rates must lie in 1..{HIGHEST_RATE:g} per second, the low one first; got "
            f"{low:g}:{high:g}"
        )


def _checked(windows: int) -> int:
    if not 1 <= windows <= MOST_WINDOWS:
        raise InputError(f"the number of windows must lie in 1..{MOST_WINDOWS}; got {windows}")
    return windows
