"""The result of an ingestion: a table of windows that says how it was sampled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stationary.data.rows import Rows
from stationary.data.service_times import ServiceTimes
from stationary.data.states import Sampling
from stationary.data.tables import FrameTable
from stationary.data.windows import Windows
from stationary.data.writers import write_table
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_ENOUGH = 50
"""Requests that waited, and that did not, from which their service times are compared."""
_ALIKE = 0.8
"""Ratio of mean service times, after waiting and at once, that a constant overhead explains."""


@dataclass(frozen=True)
class Dropped:
    """Windows that were left out, why, and how many requests or samples were in them."""

    why: str
    windows: int
    rows: int


@dataclass(frozen=True, eq=False)
class Ingested:
    """Windows of counts.

    Attributes
    ----------
    table : DataFrame
        One row per window: ``start``, ``load``, ``steady``, ``Q=0``, ..., and of requests ``sent``,
        ``lost``, ``marked`` (what is unusual about the window), latency buckets ``rt_0.1ms``, ...
        and service times ``S1.idle1.n``, ....
    sampling : Sampling
        Whether arrivals were counted, or samples at regular times.
    duration : float
        Length of a window.
    source : str
        Where the rows are from.
    rows : int
        How many there were.
    dropped : tuple of Dropped
        What was left out.
    notes : tuple of str
        What else a user should know.
    facts : mapping
        What holds for the whole recording: ``shortest``, the 0.1 % quantile of the response times
        (seconds) of requests that found an empty system; ``sharing4``, the share of requests that
        waited for one of 4 servers whose service times are negative, because requests overtook
        each other; and ``full``, how many lost requests found, where that shows a capacity.
    """

    table: pd.DataFrame
    sampling: Sampling
    duration: float
    source: str
    rows: int
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]
    facts: Mapping[str, float] = field(default_factory=dict)

    def windows(self) -> Windows:
        """Return the windows, with every category."""
        table = FrameTable(self.table, {key: str(value) for key, value in self.metadata.items()})
        rows = Rows(table, "load", "Q={}", drop_empty=True)
        return Windows(**rows.windows(), sampling=self.sampling)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.csv`` or ``.parquet`` file, whole or not at all.

        Its first line says how the counts were sampled and how long a window was.
        """
        path = Path(path)
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise InputError(f"{path}: windows are written to .csv or .parquet files")
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
        write_table(self.table, path, self.metadata)

    @property
    def metadata(self) -> dict[str, object]:
        """What holds for all windows, for the first line of a file."""
        return {"sampling": self.sampling, "duration": self.duration, **self.facts}

    def likely_servers(self) -> int | None:
        """Return the fewest servers for which service takes as long after waiting as at once.

        With too few, gaps between departures are taken for service times, and these are shorter.
        A hint, not an estimate; None where too few requests waited to tell.
        """
        names = ServiceTimes.find_columns(list(self.table))
        columns = {name: self.table[name].to_numpy(np.float64) for name in names}
        seen = ServiceTimes.from_columns(columns, {}) if names else None
        if seen is None:
            return None
        for m in seen.servers:
            one = seen.of(m)
            idle, totals = one.idle.bool(), one.sums.sum(0)
            at_once, waited = totals[idle].sum(0), totals[~idle].sum(0)
            if min(at_once[0], waited[0]) < _ENOUGH:
                continue
            if waited[1] / waited[0] >= _ALIKE * at_once[1] / at_once[0]:
                return m
        return None

    def likely_capacity(self) -> int | None:
        """Return how many lost requests found in the system; None where that shows no capacity."""
        return round(self.facts["full"]) if "full" in self.facts else None

    def record(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "source": self.source,
            "rows": self.rows,
            "windows": len(self.table),
            "loads": [float(self.table["load"].min()), float(self.table["load"].max())],
            "sampling": str(self.sampling),
            "duration": self.duration,
            "counts": {name: int(self.table[name].sum()) for name in self.table if "Q=" in name},
            "dropped": [asdict(item) for item in self.dropped],
            "notes": list(self.notes),
        }
