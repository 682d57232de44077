"""Files of tables, on DuckDB and on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

_DUCKDB_ONLY = ("store_rejects", "ignore_errors")
"""Options by which DuckDB puts lines that do not fit aside, as Spark does by itself."""


def reader(kind: str, **options: Any) -> Callable[[Any, Sequence[str]], Any]:
    """Return a reader of files by a method of Ibis, ``read_csv`` and the like."""

    def read(backend: Any, files: Sequence[str]) -> Any:
        if backend.name == "duckdb":
            return getattr(backend, f"read_{kind}")(list(files), **options)
        known = {name: value for name, value in options.items() if name not in _DUCKDB_ONLY}
        return getattr(backend, f"read_{kind}")(_pattern(files), **known)

    return read


def _pattern(files: Sequence[str]) -> str:
    """Return files as one pattern of Hadoop, because Ibis passes Spark one path only."""
    if len(files) == 1:
        return files[0]
    folder = os.path.commonpath(files)
    inside = ",".join(os.path.relpath(file, folder) for file in files)
    return os.path.join(folder, f"{{{inside}}}")  # noqa: PTH118 - a pattern, not a path
