"""Files that a browser sends: bounded, kept under names of our own, and looked at before use."""

from __future__ import annotations

import csv
import json
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stationary.errors import InputError
from stationary.ingest import Source

MOST = 2**30
"""Bytes of an upload."""

_UNPACKED, _RATIO, _SMALL = 4 * 2**30, 100, 2**26
"""Bytes of a packed file once it is unpacked: at most, and per byte beyond those of a small one."""

_ENDING = re.compile(
    r"(\.(?:log|txt|csv|tsv|jsonl|ndjson|parquet))?(\.(?:gz|zst))?$", re.IGNORECASE
)

_ARCHIVES = {
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
    b"Rar!": "rar",
    b"BZh": "bzip2",
    b"\xfd7zX": "xz",
}
"""How files begin that hold others, or are packed in a way that is not read."""

_TABLES = {"csv": ",", "tsv": "\t"}
_ROWS, _HEAD = 6, 2**16

_LIKELY = {
    "arrival": ("arrival", "timestamp", "time", "start", "ts", "@timestamp"),
    "response": ("response", "response_time", "duration", "took", "latency"),
    "completion": ("completion", "end", "finished"),
    "status": ("status", "code", "status_code"),
    "load": ("load", "rate", "callrate"),
}
"""Names that columns often have."""


class Uploads:
    """Files to plan from, by names of our own.

    Parameters
    ----------
    folder : Path
        Where they are kept while the studio runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[Path, str]] = {}

    def register(self, file: Path, name: str) -> str:
        """Take a file that is there; return what it is called."""
        key = secrets.token_hex(8)
        self._known[key] = file, name
        return key

    def get(self, key: str) -> tuple[Path, str]:
        """Return a file and the name that a person knows, or raise."""
        if key not in self._known:
            raise InputError("this upload is gone; choose the file again")
        return self._known[key]

    async def receive(self, name: str, size: int, stream: AsyncIterator[bytes]) -> str:
        """Write an upload to a file; refuse one that is too large as soon as that shows."""
        ending = _ENDING.search(name)
        path = self.folder / f"{secrets.token_hex(8)}{ending[0].lower() if ending else ''}"
        left = MOST if size <= MOST else 0
        try:
            with path.open("xb") as file:
                async for part in stream:
                    left -= len(part)
                    if left < 0:
                        raise InputError(
                            f"the file is larger than {MOST / 2**30:g} GiB: run 'stationary plan' "
                            f"on it, which reads it in place"
                        )
                    file.write(part)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return self.register(path, Path(name.replace("\\", "/")).name[:80])

    def forget(self, key: str) -> None:
        """Remove an upload."""
        path, _ = self._known.pop(key)
        if path.parent == self.folder:
            path.unlink(missing_ok=True)

    def preview(self, key: str) -> dict[str, Any]:
        """Return the first rows of a file, what it holds, and which columns are likely which."""
        path, name = self.get(key)
        try:
            check(path)
            columns, rows, kind = _first(path)
        except InputError as error:
            self.forget(key)
            raise InputError(str(error).replace(str(path), name)) from None
        lower = {column.lower(): column for column in reversed(columns)}
        likely = {
            what: next((lower[each] for each in names if each in lower), "")
            for what, names in _LIKELY.items()
        }
        holds = "windows" if likely["load"] and not likely["arrival"] else "requests"
        return {
            "upload": key,
            "name": name,
            "format": kind,
            "columns": columns,
            "rows": rows,
            "likely": likely,
            "holds": holds if columns else "log",
        }


def check(path: Path) -> None:
    """Raise for an empty file, an archive, and one that unpacks to far more than it is."""
    size = path.stat().st_size
    if not size:
        raise InputError(f"{path}: the file is empty")
    with path.open("rb") as file:
        head = file.read(8)
    for begin, kind in _ARCHIVES.items():
        if head.startswith(begin):
            raise InputError(
                f"{path}: this is a {kind} archive; unpack it, and send the log itself"
            )
    if head.startswith(b"PAR1"):
        _check_parquet(path)
        return
    unpacked = 0
    try:
        with pa.input_stream(path, compression="detect") as stream:
            while part := stream.read(2**20):
                unpacked += len(part)
                if unpacked > max(_SMALL, _RATIO * size) or unpacked > _UNPACKED:
                    raise InputError(
                        f"{path}: unpacked it is more than {unpacked / 2**20:.0f} MiB, too much "
                        f"for what it is; unpack it and send a part of it"
                    )
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}; is it damaged?") from None


def _check_parquet(path: Path) -> None:
    try:
        facts = pq.ParquetFile(path).metadata
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}; is it damaged?") from None
    if 8 * facts.num_rows * facts.num_columns > _UNPACKED:
        raise InputError(
            f"{path}: it has {facts.num_rows} rows, too many for the studio: run 'stationary plan' "
            f"on it"
        )


def _first(path: Path) -> tuple[list[str], list[list[str]], str]:
    """Return columns and rows of a table, or no columns and the lines of a log; and the format."""
    kind = str(Source(str(path)).found_format[0])
    if kind == "parquet":
        batch = next(pq.ParquetFile(path).iter_batches(_ROWS), None)
        records = [] if batch is None else batch.to_pylist()
        columns = pq.ParquetFile(path).schema_arrow.names
        return columns, [[str(row[name]) for name in columns] for row in records], kind
    with pa.input_stream(path, compression="detect") as stream:
        text = stream.read(_HEAD).decode("utf-8", "replace")
    lines = [line for line in text.splitlines()[: _ROWS + 2] if line.strip()]
    if kind in _TABLES:
        data = [line for line in lines if not line.startswith("#")]
        columns, *rows = csv.reader(data, delimiter=_TABLES[kind])
        return columns, rows[:_ROWS], kind
    if kind == "jsonl":
        objects = [json.loads(line) for line in lines[:_ROWS]]
        columns = list(dict.fromkeys(name for each in objects for name in each))
        return columns, [[str(each.get(name, "")) for name in columns] for each in objects], kind
    return [], [[line[:200]] for line in lines[:_ROWS]], kind
