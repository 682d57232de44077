"""The bundled recording; ``README.md`` beside it is its data card."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from stationary.data.readers import read_windows
from stationary.data.windows import Windows

LIGHT = 2000.0
"""Heaviest load to learn from: two thirds of what the server can do."""

OBSERVED = range(6)
"""Queue lengths to learn from: no request that found these was ever lost."""

CAPACITY = 18
"""Requests the server has room for, in effect: its buffer is of 20, but see the data card."""


def recording() -> Windows:
    """Windows of a real SIP server under a day of load, one a second.

    Counts are of the requests in the server that each arriving one found; the last category is
    those that were lost.
    """
    source = Path(str(files("stationary") / "data" / "demo" / "sip-testbed.csv"))
    return read_windows(source, counts="T={}", sampling="arrival", duration=1.0)
