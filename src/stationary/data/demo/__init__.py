"""The bundled recording; ``README.md`` beside it is its data card."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from stationary.data.readers import read_windows
from stationary.data.windows import Windows

LIGHT = 2000.0
"""Heaviest load to learn from: two thirds of what the server can do."""

OBSERVED = range(6)
"""Queue lengths to learn from: requests that found these were never lost."""

CAPACITY = 18
"""Most requests in the server, in effect: its buffer holds 20, but see the data card."""


def recording(latencies: bool = False) -> Windows:
    """Windows of one second each of a real SIP server under a day of load.

    The counts are of how many requests each arriving request found in the server; the last category
    counts the requests that were lost.

    Parameters
    ----------
    latencies : bool
        Whether to have the histograms of response times, too; a fit would use those.
    """
    file = Path(str(files("stationary") / "data" / "demo" / "sip-testbed.csv"))
    windows = read_windows(file, counts="T={}", sampling="arrival", duration=1.0)
    if latencies:
        return windows
    return Windows(windows.x, observations=[windows.states], duration=windows.duration)
