"""The result of an ingestion: a table of windows that says how it was sampled."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stationary.data.states import Sampling
from stationary.data.windows import Windows
from stationary.data.writers import write_table
from stationary.errors import InputError
from stationary.terms.categories import parse_category

if TYPE_CHECKING:
    import pandas as pd


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
        One row per window: ``start``, ``load``, ``steady``, ``Q=0``, ..., and of requests ``sent``
        and ``lost``; or one row per load, with the number of ``windows``, where they were added up.
    sampling : Sampling
        Whether arrivals were counted, or samples at regular times.
    duration : float or None
        Length of a window; None where it is not known, or several were added up.
    source : str
        Where the rows are from.
    rows : int
        How many there were.
    dropped : tuple of Dropped
        What was left out.
    notes : tuple of str
        What else a user should know.
    """

    table: pd.DataFrame
    sampling: Sampling
    duration: float | None
    source: str
    rows: int
    dropped: tuple[Dropped, ...]
    notes: tuple[str, ...]

    def windows(self) -> Windows:
        """Return the windows, with every category."""
        columns = [name for name in self.table if name.startswith("Q=")]
        return Windows(
            self.table["load"].to_numpy(),
            self.table[columns].to_numpy(),
            [parse_category(name.removeprefix("Q=")) for name in columns],
            self.sampling,
            drop_empty=True,
            duration=self.duration,
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.csv`` or ``.parquet`` file, whole or not at all.

        It says how the counts were sampled and how long a window was; `read_windows` reads that.
        """
        path = Path(path)
        check_output(path)
        write_table(self.table, path, self.sampling, self.duration)

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


def check_output(path: Path) -> None:
    """Raise an error for a file that windows cannot be written to."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InputError(f"{path}: windows are written to .csv or .parquet files")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")
