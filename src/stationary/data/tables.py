"""Tables of numbers on disk: which columns a file has, and their numbers with the row of each.

CSV goes through the standard library's reader rather than pandas: it alone knows on which line of
the file, as an editor shows it, a record starts, and it keeps repeated column names as they are.
"""

from __future__ import annotations

import csv
import gzip
import sys
import zlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

FACTS = "stationary"
"""Key of what a file says about itself: a first line of text, or metadata of Parquet."""
_MARK = f"# {FACTS}:"

Numbers = tuple[NDArray[np.float64], NDArray[np.int64]]

BATCH = 2**17
"""Rows that are read at once where a file may be larger than memory."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})


@dataclass(frozen=True)
class Table(ABC):
    """A file with named columns.

    Parameters
    ----------
    path : Path
        The file.
    """

    path: Path
    row_word = "row"
    """What a row of this kind of file is called."""

    @abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns, repeated ones included."""

    @abstractmethod
    def numbers(self, columns: Sequence[str]) -> Numbers:
        """Numbers ``[M, k]`` of some columns, and the number ``[M]`` of each row in the file."""

    @abstractmethod
    def batches(self, columns: Sequence[str], rows: int = BATCH) -> Iterator[Numbers]:
        """The same, a number of rows at a time."""

    def facts(self) -> dict[str, str]:
        """Return what the file says about all of its rows, as `write_facts` wrote it."""
        return {}

    def cell(self, row: int, column: str) -> str:
        """Name a cell for a message."""
        return f"{self.path}, {self.row_word} {row}, column {column!r}"

    def number(self, value: Any, row: int, column: str) -> float:
        """Return a cell as a number, or raise an error that names it."""
        if value is None or str(value).strip().lower() in MISSING:
            raise InputError(
                f"{self.cell(row, column)}: the value is missing; fill it in or delete the "
                f"{self.row_word}"
            )
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.cell(row, column)}: {str(value)!r:.60} is not a number; correct it or "
                f"delete the {self.row_word}"
            ) from None


@dataclass(frozen=True)
class TextTable(Table):
    """A CSV or TSV file, perhaps gzipped; its first line that is not blank is the header."""

    delimiter: str = ","
    row_word = "line"

    def facts(self) -> dict[str, str]:
        """Return what a first line that begins with ``# stationary:`` says."""
        with self._opened() as file:
            return read_facts(file.readline())

    def columns(self) -> list[str]:
        """Names in the header, without space around them."""
        with self._opened() as file:
            for _, header in self._records(file):
                if len(header) == 1 and any(other in header[0] for other in ";\t|"):
                    raise InputError(
                        f"{self.path}: the columns are not separated by {self.delimiter!r} but "
                        f"otherwise ({header[0]!r:.60}); save the file with commas"
                    )
                return [name.strip() for name in header]
        raise InputError(f"{self.path}: the file is empty; it needs a header and a line per window")

    def numbers(self, columns: Sequence[str]) -> Numbers:
        """Numbers of some columns, and the line each row starts on; the header is line 1."""
        (all_of_it,) = self.batches(columns, sys.maxsize)
        return all_of_it

    def batches(self, columns: Sequence[str], rows: int = BATCH) -> Iterator[Numbers]:
        """Yield the same, a number of rows at a time; at least once."""
        values, lines = array("d"), array("q")

        def numbers() -> Numbers:
            return np.array(values).reshape(-1, len(columns)), np.array(lines, dtype=np.int64)

        with self._opened() as file:
            records = self._records(file)
            header = [name.strip() for name in next(records)[1]]
            where = [header.index(name) for name in columns]
            for line, record in records:
                if len(record) < len(header) or any(cell.strip() for cell in record[len(header) :]):
                    raise InputError(
                        f"{self.path}, line {line}: {len(record)} fields where the header has "
                        f"{len(header)}; complete or delete the line"
                    )
                try:
                    values.extend([float(record[k]) for k in where])
                except ValueError:
                    for name, k in zip(columns, where, strict=True):
                        self.number(record[k], line, name)
                lines.append(line)
                if len(lines) == rows:
                    yield numbers()
                    values, lines = array("d"), array("q")
        yield numbers()

    def _records(self, file: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the records that are not blank, each with the line it starts on."""
        reader = csv.reader(file, delimiter=self.delimiter, skipinitialspace=True)
        line = 1
        for record in reader:
            said = line == 1 and record and record[0].startswith(_MARK)
            if not said and (len(record) > 1 or "".join(record).strip()):
                yield line, record
            line = reader.line_num + 1

    @contextmanager
    def _opened(self) -> Iterator[IO[str]]:
        zipped = self.path.suffix.lower() == ".gz"
        try:
            # utf-8-sig, because spreadsheets put a byte order mark in front.
            with (gzip.open if zipped else open)(
                self.path, "rt", encoding="utf-8-sig", newline=""
            ) as file:
                yield file
        except UnicodeDecodeError:
            raise InputError(
                f"{self.path}: this is not UTF-8 text; save it as CSV (UTF-8)"
            ) from None
        except (csv.Error, OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"{self.path}: the file cannot be read ({error}); is it damaged?"
            ) from error


@dataclass(frozen=True)
class ParquetTable(Table):
    """A Parquet file; its rows are counted from 1."""

    def facts(self) -> dict[str, str]:
        """Return what the file's metadata say."""
        import pyarrow.parquet

        with self._readable():
            held = pyarrow.parquet.read_schema(self.path).metadata or {}
        return read_facts(held.get(FACTS.encode(), b"").decode("utf-8", "replace"))

    def columns(self) -> list[str]:
        """Names of the columns, and of the index where pandas saved one."""
        import pyarrow.parquet

        with self._readable():
            schema = pyarrow.parquet.read_schema(self.path)
        return [*schema.names, *_counted(schema)]

    def numbers(self, columns: Sequence[str]) -> Numbers:
        """Numbers of some columns, and the number of each row, from 1."""
        found = [(np.empty((0, len(columns))), np.empty(0, dtype=np.int64)), *self.batches(columns)]
        return np.concatenate([v for v, _ in found]), np.concatenate([r for _, r in found])

    def batches(self, columns: Sequence[str], rows: int = BATCH) -> Iterator[Numbers]:
        """Yield the same, a number of rows at a time."""
        import pyarrow.parquet

        first = 1
        with self._readable(), pyarrow.parquet.ParquetFile(self.path) as file:
            counted = _counted(file.schema_arrow)
            for batch in file.iter_batches(rows, columns=[c for c in columns if c not in counted]):
                frame = batch.to_pandas(ignore_metadata=True)  # or pandas would hide its index
                for name, (start, step) in counted.items():
                    frame[name] = start + step * np.arange(first - 1, first - 1 + len(frame))
                yield self._numbers(frame, columns, first)
                first += len(frame)

    def _numbers(self, frame: pd.DataFrame, columns: Sequence[str], first: int) -> Numbers:
        from pandas.api.types import is_numeric_dtype

        values = np.empty((len(frame), len(columns)))
        for k, name in enumerate(columns):
            column = frame[name]
            if is_numeric_dtype(column):
                values[:, k] = column.to_numpy(np.float64, na_value=np.nan)
                gaps = np.flatnonzero(np.isnan(values[:, k]))
                if len(gaps):
                    self.number(None, int(gaps[0]) + first, name)
            else:
                cells = enumerate(column.tolist(), first)
                values[:, k] = [self.number(value, row, name) for row, value in cells]
        return values, np.arange(first, first + len(values))

    @contextmanager
    def _readable(self) -> Iterator[None]:
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"{self.path}: not a readable Parquet file ({reason}); is it damaged?"
            ) from error


def _counted(schema: Any) -> dict[str, tuple[int, int]]:
    """Named indices of pandas that are not stored, because they count: start and step of each."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    ranges = [entry for entry in index if isinstance(entry, dict) and entry.get("name")]
    return {entry["name"]: (entry["start"], entry["step"]) for entry in ranges}


def write_facts(facts: Mapping[str, str]) -> str:
    """Return facts as the first line of a file; `read_facts` reads them.

    Examples
    --------
    >>> write_facts({"sampling": "arrival", "duration": "1.0"})
    '# stationary: sampling=arrival duration=1.0'
    """
    return " ".join([_MARK, *(f"{key}={value}" for key, value in facts.items())])


def sampling_facts(sampling: str, duration: float | None) -> dict[str, str]:
    """Return how windows were made, as a file of them says it; `read_windows` goes by it."""
    facts = {"sampling": str(sampling)}
    return facts if duration is None else facts | {"duration": repr(duration)}


def read_facts(line: str) -> dict[str, str]:
    """Return the facts of a line; none where it is not one of ours."""
    if not line.startswith(_MARK):
        return {}
    # Spreadsheets fill every line up with commas.
    words = line.removeprefix(_MARK).strip().rstrip(",").split()
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def open_table(path: Path) -> Table:
    """Return the table in a file, by its ending."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a .csv, .tsv or .parquet file in it")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the path")
    name = path.name.lower().removesuffix(".gz")
    zipped = name != path.name.lower()
    if name.endswith(".parquet") and not zipped:
        table: Table = ParquetTable(path)
    elif name.endswith((".csv", ".tsv")):
        table = TextTable(path, "\t" if name.endswith(".tsv") else ",")
    else:
        raise InputError(
            f"{path}: cannot tell how to read {''.join(path.suffixes) or 'a file without ending'}; "
            f"give a .csv, .csv.gz, .tsv or .parquet file"
        )
    if not path.stat().st_size:
        raise InputError(f"{path}: the file is empty; it needs a header and a line per window")
    return table
