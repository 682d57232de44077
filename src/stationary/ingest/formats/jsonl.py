"""One JSON object per line; of lines that are none, all values are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stationary.ingest.formats._base import Format
from stationary.ingest.formats._tables import paths


def _read(backend: Any, files: Sequence[str]) -> Any:
    options = {"ignore_errors": True} if backend.name == "duckdb" else {}
    return backend.read_json(paths(backend, files), **options)


FORMAT = Format(_read, endings=(".jsonl", ".ndjson", ".json"))
