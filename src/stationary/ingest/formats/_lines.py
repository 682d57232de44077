"""Access logs read into a table of requests; `stationary.ingest.formats` says what lines are."""

from __future__ import annotations

import codecs
import functools
import os
import re
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from stationary.errors import DataWarning, InputError
from stationary.ingest.formats import _scan

if TYPE_CHECKING:
    from stationary.ingest.formats._base import Fields, LogLines

_BLOCK = 2**22
"""Bytes that are read at once."""
_LONGEST = 2**24
"""Bytes of the longest line."""
_SHOWN = 200
"""Characters of a line that a message shows."""
_COARSE = 0.01
"""Share of times without a fraction from which all count as whole seconds; in a few, the fraction
may be zero and not written."""
_UNITS = {"s": 6, "ms": 3, "us": 0, "ns": -3}
"""Powers of ten that turn a unit into microseconds."""


class Program(NamedTuple):
    """Layouts as the scanner takes them, and the names of the texts that it keeps."""

    ops: NDArray[np.int64]
    starts: NDArray[np.int64]
    pool: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    texts: tuple[str, ...]


class Read(NamedTuple):
    """Requests of some lines, and how many lines there were, were read, were precise and timed."""

    columns: Fields
    lines: int
    good: int
    fine: int
    timed: int
    strange: str | None


def compiled(layouts: tuple[str, ...] | Mapping[str, str]) -> Program:
    """Return the instructions by which lines of some layouts are read."""
    pool, ops, starts, texts, keys = b"", list[Any](), [0], list[str](), list[np.uint64]()
    if isinstance(layouts, Mapping):
        names = (path.split(".") for path in layouts)
        keys = [functools.reduce(_key_below, each, np.uint64(0)) for each in names]
        layouts = tuple(layouts.values())
    for layout in layouts:
        first, *parts = re.split(r"\{(\w*(?::\w+)?)\}", layout)
        pairs = [("=", first)] if first else []
        for name, literal in [*pairs, *zip(parts[::2], parts[1::2], strict=True)]:
            begin, pool = len(pool), pool + literal.encode()
            ops.append([*_instruction(name, texts), begin, len(pool)])
        starts.append(len(ops))
    return Program(
        np.array(ops, dtype=np.int64),
        np.array([0] if keys else starts, dtype=np.int64),
        np.frombuffer(pool, dtype=np.uint8),
        np.array(keys, dtype=np.uint64),
        tuple(texts),
    )


def _key_below(above: np.uint64, name: str) -> np.uint64:
    key: np.uint64 = _scan.path_hash(above, np.frombuffer(name.encode(), dtype=np.uint8))
    return key


def _instruction(field: str, texts: list[str]) -> tuple[int, int, int]:
    """Return kind, place and power of ten of a field; ``texts`` gets the names of new texts."""

    def place(*names: str) -> int:
        texts.extend(name for name in names if name not in texts)
        return texts.index(names[0])

    name, _, kind = field.partition(":")
    if kind in _UNITS or name in ("took", "received"):
        if kind not in _UNITS or name not in _scan.NUMBERS:
            raise InputError(
                f"a layout has {{{field}}}: how long something took is {{took:ms}} or "
                f"{{received:ms}}, with one of the units {', '.join(_UNITS)}"
            )
        slot = _scan.NUMBERS.index(name)
        return (_scan.WHOLE if _UNITS[kind] < 6 else _scan.NUMBER), slot, _UNITS[kind]
    if kind == "code" or name == "status":
        return _scan.CODE, place(name or "_"), 0
    others = {
        "=": (_scan.EXACT, 0, 0),
        ":list": (_scan.LIST, 0, 0),
        "": (_scan.SKIP, 0, 0),
        "clock": (_scan.TIME, _scan.CLOCK, 0),
        "done": (_scan.TIME, _scan.DONE, 0),
        "epoch": (_scan.MOMENT, _scan.EPOCH, 6),
        "tail": (_scan.TAIL, 0, 0),
    }
    if field in others:
        return others[field]
    if field == "request":
        return _scan.REQUEST, place("method", "path"), 0
    return (_scan.PATH if field == "path" else _scan.TEXT), place(field), 0


def read(block: bytes, rules: LogLines) -> Read:
    """Take whole lines apart."""
    if not block.isascii():
        block = block.decode(errors="replace").encode()
    ops, starts, pool, keys, texts = rules.program
    text, count = np.frombuffer(block, dtype=np.uint8), block.count(b"\n") + 1
    numbers = np.empty((count, len(_scan.NUMBERS)), dtype=np.int64)
    spans = np.empty((count, max(len(texts), 1), 2), dtype=np.int32)
    lines = np.empty((count, 2), dtype=np.int64)
    status = texts.index("status")
    count = _scan.read_lines(text, ops, starts, pool, keys, status, numbers, spans, lines)
    numbers, there = numbers[:count], numbers[:count] != _scan.NONE
    good = there[:, _scan.CLOCK] | there[:, _scan.EPOCH]
    if block and not block.endswith(b"\n") and count:
        # The server was still writing the last line, unless all of it is there.
        timed = there[-1, _scan.TOOK] or there[-1, _scan.DONE]
        good[-1] &= timed and numbers[-1, _scan.FINE] == 1
    strange = None
    if not good.all():
        begin, end = lines[np.argmin(good)].tolist()
        strange = block[begin : min(end, begin + 4 * _SHOWN)].decode(errors="replace")[:_SHOWN]
    found: Fields = dict(zip(_scan.NUMBERS, numbers[good].T, strict=True))
    found |= {
        name: functools.partial(_texts, text, np.ascontiguousarray(spans[:count, k][good]))
        for k, name in enumerate(texts)
        if name != "_"
    }
    found["denied"] = np.zeros(int(good.sum()), dtype=bool)
    if rules.adjust is not None:
        rules.adjust(found)
    time = np.where(found["epoch"] == _scan.NONE, found["clock"], found["epoch"])
    took = np.where(found["done"] == _scan.NONE, found["took"], found["done"] - time)
    answered = (took != _scan.NONE) & ~found["denied"]
    received = np.maximum(found["received"], 0)
    length = np.where(answered, took, 0)
    columns = {
        "arrival": pyarrow.array(time - length if rules.ends else time + received),
        "response": pyarrow.array(np.maximum(length - received, 0), mask=~answered),
        **{name: each() for name, each in found.items() if callable(each)},
    }
    fine, timed = found["fine"] == 1, answered | found["denied"]
    return Read(columns, count, len(timed), int(fine.sum()), int(timed.sum()), strange)


def _texts(text: NDArray[np.uint8], spans: NDArray[np.int32]) -> Any:
    offsets, data = map(pyarrow.py_buffer, _scan.gather(text, spans))
    return pyarrow.StringArray.from_buffers(len(spans), offsets, data)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file to read it unpacked."""
    try:
        with pyarrow.input_stream(path, compression="detect") as stream:
            yield stream
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}; is it damaged?") from None


def head(path: str, size: int) -> bytes:
    """Return the first bytes of a file, unpacked."""
    with _opened(path) as stream:
        found: bytes = stream.read(size)
    return found.removeprefix(codecs.BOM_UTF8)


def blocks(path: str) -> Iterator[bytes]:
    """Yield a file, unpacked, in pieces that end with a line."""
    rest, first = b"", True
    with _opened(path) as stream:
        while block := stream.read(_BLOCK):
            block = rest + (block.removeprefix(codecs.BOM_UTF8) if first else block)
            first = False
            whole, end, rest = block.rpartition(b"\n")
            if len(rest) > _LONGEST:
                raise InputError(
                    f"{path}: a line is longer than {_LONGEST / 2**20:g} MiB; is this a log?"
                )
            if end:
                yield whole + end
    if rest:
        yield rest


def stage(files: Sequence[str], rules: LogLines, folder: str, name: str) -> tuple[str, bool]:
    """Read logs into a Parquet file in a folder, and say what was left out.

    Returns its path, and whether times are in whole seconds.
    """
    made, total = str(Path(folder) / "rows.parquet"), np.zeros(4, dtype=np.int64)
    strange, writer = None, None
    try:
        for part in _in_turn(files, rules):
            total += part[1:5]
            strange = strange or part.strange
            batch = pyarrow.table(part.columns)
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(
                    made, batch.schema, compression="NONE", use_dictionary=False
                )
            writer.write_table(batch)
    finally:
        if writer is not None:
            writer.close()
    return made, _say(name, rules, total.tolist(), strange)


def _in_turn(files: Sequence[str], rules: LogLines) -> Iterator[Read]:
    """Yield what blocks hold, in their order, while threads read the next ones."""
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        waiting = deque[Any]()
        for file in files:
            for block in blocks(file):
                waiting.append(pool.submit(read, block, rules))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _say(name: str, rules: LogLines, total: Sequence[int], strange: str | None) -> bool:
    """Say which lines could not be read, and what the others lack; return whether times do."""
    lines, good, fine, timed = total
    coarse = good - fine > _COARSE * good
    if not lines:
        raise InputError(f"{name}: the file has no lines")

    def warn(text: str) -> None:
        warnings.warn(f"{name}: {text}", DataWarning, stacklevel=7)

    if good < lines:
        text = f"{lines - good} of {lines} lines are not {rules.kind}; the first: {strange!r}"
        if not good:
            raise InputError(f"{name}: {text}; name the format of the file with --format")
        warn(f"left out: {text}")
    if coarse:
        warn(
            f"{good - fine} of {good} lines have the time in whole seconds only, too coarse for "
            f"queue lengths; add {rules.add_fraction}"
        )
    if timed < good:
        text = f"{good - timed} of {good} lines have no response time"
        if not timed:
            raise InputError(
                f"{name}: {text}; add {rules.add_response}: without it the number in the system is "
                f"not known"
            )
        warn(f"{text}, and count as lost; add {rules.add_response} if it is not always there")
    return coarse
