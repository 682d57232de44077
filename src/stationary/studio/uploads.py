"""Files that a browser sends: bounded, kept under names of our own, and looked at before use."""

from __future__ import annotations

import csv
import json
import re
import secrets
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stationary.errors import InputError
from stationary.ingest import Source

MOST = 2**30
"""Bytes of an upload."""

TOO_LARGE = (
    f"The file is larger than {MOST / 2**30:g} GiB: run 'stationary plan' on it, which reads it in "
    f"place."
)

_UNPACKED, _RATIO, _SMALL = 4 * 2**30, 100, 2**26
"""Bytes of a packed file once it is unpacked: at most, and per byte beyond those of a small one."""

_ENDING = re.compile(
    r"(\.(?:log|txt|csv|tsv|jsonl|ndjson|parquet))?(\.(?:gz|zst|bz2))?$", re.IGNORECASE
)

_ARCHIVES = {
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
    b"Rar!": "rar",
    b"\xfd7zX": "xz",
}
"""How files begin that hold others, or are packed in a way that is not read."""

_TABLES = {"csv": ",", "tsv": "\t"}
_ROWS, _HEAD, _WIDE = 6, 2**16, 200
"""Rows, bytes and characters of a cell that a preview shows at most."""

_KEPT = 4  # uploads that are kept at once; one more takes the place of the oldest

_LIKELY = {
    "arrival": ("arrival", "timestamp", "time", "start", "ts", "@timestamp"),
    "response": ("response", "response_time", "duration", "took", "latency"),
    "completion": ("completion", "end", "finished"),
    "status": ("status", "code", "status_code"),
    "load": ("load", "rate", "callrate"),
}
"""Names that columns often have."""


class Uploads:
    """Files to plan from, by names of our own, in a folder while the studio runs."""

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
                        raise InputError(TOO_LARGE)
                    file.write(part)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        for old in [key for key, (each, _) in self._known.items() if self._owns(each)][: 1 - _KEPT]:
            self.forget(old)
        return self.register(path, Path(name.replace("\\", "/")).name[:80])

    def forget(self, key: str) -> None:
        """Remove an upload; a file that was there before stays."""
        path, _ = self._known.get(key, (None, ""))
        if path is not None and self._owns(path):
            del self._known[key]
            path.unlink(missing_ok=True)

    def _owns(self, path: Path) -> bool:
        return path.parent == self.folder

    def preview(self, key: str) -> dict[str, Any]:
        """Return the first rows of a file, what it holds, and which columns are likely which."""
        path, name = self.get(key)
        try:
            columns, rows, kind = _first(path, bounded=self._owns(path))
        except InputError as error:
            self.forget(key)
            raise InputError(str(error).replace(str(path), name)) from None
        lower = {column.lower(): column for column in reversed(columns)}
        likely = {
            what: next((lower[each] for each in names if each in lower), "")
            for what, names in _LIKELY.items()
        }
        times = likely["response"] or likely["completion"]
        holds = "windows" if likely["load"] and not times else "requests"
        return {
            "upload": key,
            "name": name,
            "format": kind,
            "columns": columns,
            "rows": rows,
            "likely": likely,
            "holds": holds if columns else "log",
        }


def _first(path: Path, bounded: bool) -> tuple[list[str], list[list[str]], str]:
    """Return columns and rows of a table, or no columns and the lines of a log; and the format."""
    try:
        with path.open("rb") as file:
            begin = file.read(8)
        if not begin:
            raise InputError(f"{path}: the file is empty")
        for packed in filter(begin.startswith, _ARCHIVES):
            raise InputError(
                f"{path}: this is a {_ARCHIVES[packed]} archive; unpack it, and send the log itself"
            )
        kind = str(Source(str(path)).found_format[0])
        if bounded:
            _check_unpacked(path, kind)
        if kind == "parquet":
            table = pq.ParquetFile(path)
            batch = next(table.iter_batches(_ROWS), None)
            values = [] if batch is None else [column.to_pylist() for column in batch.columns]
            rows = [_shown(row) for row in zip(*values, strict=True)]
            return _shown(table.schema_arrow.names), rows, kind
        with pa.input_stream(path, compression="detect") as stream:
            head = stream.read(_HEAD)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}; is it damaged?") from None
    text = head.decode("utf-8-sig", "replace")
    whole = text if len(head) < _HEAD else text.rpartition("\n")[0]  # the last line may be cut
    lines = [line.rstrip("\r") for line in whole.split("\n") if line.strip()]
    if kind in _TABLES:
        lines = [line for line in lines if not line.startswith("#")]
    if not lines:
        raise InputError(f"{path}: there is no row in its first {_HEAD // 2**10} KiB")
    try:
        if kind in _TABLES:
            names, *cells = csv.reader(lines[: _ROWS + 1], delimiter=_TABLES[kind])
        elif kind == "jsonl":
            found = [json.loads(line) for line in lines[:_ROWS]]
            names = list(dict.fromkeys(name for each in found for name in each))
            cells = [[each.get(name, "") for name in names] for each in found]
        else:
            names, cells = [], [[line] for line in lines[:_ROWS]]
    except (ValueError, TypeError, AttributeError, RecursionError, csv.Error):
        raise InputError(f"{path}: its first lines are not rows of {kind}") from None
    return _shown(names), [_shown(row) for row in cells], kind


def _check_unpacked(path: Path, kind: str) -> None:
    """Raise for an upload that is far larger once it is unpacked, which may be an attack."""
    most, unpacked = min(max(_SMALL, _RATIO * path.stat().st_size), _UNPACKED), 0
    try:
        if kind == "parquet":
            facts, most = pq.ParquetFile(path).metadata, _UNPACKED
            groups = sum(facts.row_group(k).total_byte_size for k in range(facts.num_row_groups))
            # Values repeat in a file, and not in memory.
            unpacked = max(groups, 8 * facts.num_rows * facts.num_columns)
        else:
            with pa.input_stream(path, compression="detect") as stream:
                while unpacked <= most and (part := stream.read(2**20)):
                    unpacked += len(part)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}; is it damaged?") from None
    if unpacked > most:
        raise InputError(
            f"{path}: unpacked it is more than {most / 2**20:.0f} MiB, too much for the studio; "
            f"run 'stationary plan' on it, or send a part of it"
        )


def _shown(values: Iterable[Any]) -> list[str]:
    """Return what a page shows of values: text that UTF-8 can carry."""
    return [str(value)[:_WIDE].encode("utf-8", "replace").decode() for value in values]
