"""Files of tables, on DuckDB and on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any


def paths(backend: Any, files: Sequence[str]) -> Any:
    """Return paths as a backend takes them."""
    if backend.name == "duckdb":
        return list(files)
    # Ibis passes Spark one path only, which may be a pattern of Hadoop.
    if len(files) == 1:
        return files[0]
    folder = os.path.commonpath(files)
    inside = ",".join(os.path.relpath(file, folder) for file in files)
    return os.path.join(folder, f"{{{inside}}}")  # noqa: PTH118 - a pattern, not a path


def read_text(delimiter: str) -> Callable[[Any, Sequence[str]], Any]:
    """Return a reader of text with a header line; DuckDB puts lines that do not fit aside."""

    def read(backend: Any, files: Sequence[str]) -> Any:
        options: dict[str, Any] = {} if delimiter == "," else {"sep": delimiter}
        if backend.name == "duckdb":
            options["store_rejects"] = True
        return backend.read_csv(paths(backend, files), **options)

    return read
