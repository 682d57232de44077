"""What a table holds, by its name and its columns; loads no torch."""

from __future__ import annotations

import os
from pathlib import Path

from stationary.data.tables import open_table
from stationary.errors import InputError

_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
"""Endings of tables, which hold requests or windows."""


def holds_windows(
    file: str | os.PathLike[str], load: str = "load", arrival: str = "arrival"
) -> bool:
    """Whether a file has one row per window; otherwise it has one per request."""
    path = Path(file)
    if not path.name.lower().endswith(_TABLES) or not path.is_file():
        return False
    names = open_table(path).columns
    if arrival not in names and load not in names:
        raise InputError(
            f"{path}: it has neither a column {arrival!r}, of requests (--columns "
            f"arrival=NAME,response=NAME), nor {load!r}, of windows (--x NAME); its columns "
            f"are {', '.join(names[:12])}"
        )
    return arrival not in names
