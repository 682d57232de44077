"""Formats of files of requests: how each is read, and the unit of the times in it.

A format reads a path by an Ibis backend and returns a table; `FORMATS` lists them by name. One
whose table has the columns ``arrival``, ``response`` (null where there was no answer) and
``status`` needs no mapping of columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stationary.errors import InputError
from stationary.ingest import access_logs
from stationary.ingest.columns import find
from stationary.terms.spans import Unit

_TRACE = ("window", "seconds", "arrival", "response")


@dataclass(frozen=True)
class Format:
    """A way to read a file.

    Parameters
    ----------
    read : callable
        Of an Ibis backend and a path; returns a table.
    unit : Unit, optional
        Of all times, where the format says it; otherwise whoever reads it must.
    lines : bool
        Whether it takes lines of text apart, which is done by functions of DuckDB.
    """

    read: Callable[[Any, str], Any]
    unit: Unit | None = None
    lines: bool = False


def _parquet(backend: Any, path: str) -> Any:
    return backend.read_parquet(path)


def _csv(backend: Any, path: str) -> Any:
    return backend.read_csv(path)


def _tsv(backend: Any, path: str) -> Any:
    return backend.read_csv(path, sep="\t")


def _json_lines(backend: Any, path: str) -> Any:
    return backend.read_json(path)


def _trace(backend: Any, path: str) -> Any:
    """Traces that the testbed wrote: each window counts from its own first request.

    They are laid out two lengths apart, so that nobody who is still there at the end of one is
    there in the next. Who was sent after the end of a window is in none.
    """
    import ibis

    raw = by_ending(path).read(backend, path)
    for name in _TRACE:
        find(raw, name, f"{path} is no trace of the testbed")
    raw = raw.filter(raw.arrival < raw.seconds)
    return raw.select(
        arrival=2.0 * raw.window * raw.seconds + raw.arrival,
        response=ibis.ifelse(raw.response < 0, ibis.null("float64"), raw.response),
    )


FORMATS: dict[str, Format] = {
    "parquet": Format(_parquet),
    "csv": Format(_csv),
    "jsonl": Format(_json_lines),
    "tsv": Format(_tsv),
    "trace": Format(_trace, Unit.S),
    **{name: Format(reader, Unit.US, lines=True) for name, reader in access_logs.FORMATS.items()},
}
"""Ways to read a file, by the name that ``--format`` takes."""

_ENDINGS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


def by_name(name: str) -> Format:
    """Return the format of a name."""
    if name not in FORMATS:
        raise InputError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def by_ending(path: str) -> Format:
    """Return the format of a file that its ending tells."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    for ending, kind in _ENDINGS.items():
        if name.endswith(ending):
            return FORMATS[kind]
    raise InputError(
        f"{path}: cannot tell how to read it; name its --format, one of {', '.join(FORMATS)}"
    )
