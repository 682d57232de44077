"""Loads over time: the offered rate of every window of a recording, in requests per second."""

from __future__ import annotations

import math
import os

import numpy as np
from numpy.typing import NDArray

from stationary.data.tables import open_table
from stationary.errors import InputError

Rates = NDArray[np.float64]

MOST_WINDOWS = 10_000
HIGHEST_RATE = 20_000.0
_KEPT = 0.7  # share of the noise of one window that the next one has, too


def ramp(low: float, high: float, windows: int, seed: int | None = None) -> Rates:
    """Return rates that rise in equal steps, or come in random order if there is a seed."""
    _check(low, high, windows)
    rates = np.linspace(low, high, windows)
    return rates if seed is None else np.random.default_rng(seed).permutation(rates)


def day(low: float, high: float, windows: int, seed: int = 0, noise: float = 0.05) -> Rates:
    """Return a day of a video service: quiet night, slow swing to the evening's peak, with noise.

    The swing is a daily wave and its second harmonic, which makes the rise slow and the fall steep.
    The noise is autoregressive, so that neighbouring windows have similar loads; ``noise`` is its
    standard deviation as a share of the range. There is one day, whatever the number of windows.
    """
    from scipy.signal import lfilter

    _check(low, high, windows)
    time = 2 * math.pi * np.arange(windows) / windows
    swing = -np.cos(time) - 0.3 * np.sin(2 * time)
    draws = np.random.default_rng(seed).standard_normal(windows)
    draws[1:] *= math.sqrt(1 - _KEPT**2)
    wandering = lfilter([1.0], [1.0, -_KEPT], draws)
    return np.asarray(low + (high - low) * _unit(_unit(swing) + noise * wandering))


def read_rates(path: str | os.PathLike[str], windows: int | None = None) -> Rates:
    """Read rates from the column ``load`` of a table, the first ones or all.

    A file of recorded windows will do.
    """
    table = open_table(path)
    if "load" not in table.columns:
        raise InputError(
            f"{path}: there is no column 'load'; the columns are {', '.join(table.columns)}"
        )
    rates = table.numbers(["load"])[:, 0]
    for k in np.flatnonzero(~((rates >= 1) & (rates <= HIGHEST_RATE)))[:1]:
        raise InputError(
            f"{path}: window {k}: the rate must lie in 1..{HIGHEST_RATE:g} per second; got "
            f"{rates[k]:g}"
        )
    windows = len(rates) if windows is None else windows
    if windows > len(rates):
        raise InputError(f"{path} has {len(rates)} rates, fewer than {windows} windows")
    _check(1, 1, windows)
    return rates[:windows]


def _unit(values: Rates) -> Rates:
    """Return values stretched to lie from 0 to 1."""
    return (values - values.min()) / max(np.ptp(values), 1e-12)


def _check(low: float, high: float, windows: int) -> None:
    if not 1 <= low <= high <= HIGHEST_RATE:
        raise InputError(
            f"rates must lie in 1..{HIGHEST_RATE:g} per second, the low one first; got "
            f"{low:g}:{high:g}"
        )
    if not 1 <= windows <= MOST_WINDOWS:
        raise InputError(f"the number of windows must lie in 1..{MOST_WINDOWS}; got {windows}")
