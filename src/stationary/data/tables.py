"""Tables: named columns of numbers in a file or a DataFrame, and the names of their rows.

Arrow parses text, fast. Where it fails, the standard library's `csv` reads the rest of the file: it
accepts what is merely unusual, such as blanks or a comma at the end of a line, and names the line
of what is wrong, as an editor shows it.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from stationary._support.types import Array
from stationary.data.writers import FIRST_LINE, METADATA_KEY, parse_metadata
from stationary.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BATCH = 2**17
"""Rows read at once, because a file may be larger than memory."""
BLOCK = 2**23
"""Bytes of text that Arrow parses at once."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "-"})
"""What people write for a value that is not there, in lower case."""


class Table(ABC):
    """Named columns."""

    name: str  # for messages: the path of the file
    columns: list[str]  # repeated ones included
    metadata: dict[str, str]  # what the file says about all of its rows, see `metadata_line`
    row_word = "row"  # what messages call one

    @abstractmethod
    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield some columns, a number of rows at a time."""

    def row_numbers(self, rows: Sequence[int]) -> list[int]:
        """Return how people count these rows, which are positions from 0 in increasing order."""
        return [row + 1 for row in rows]

    def cell(self, row: int, column: str) -> str:
        """Name a cell for a message."""
        return f"{self.name}, {self.row_word} {self.row_numbers([row])[0]}, column {column!r}"

    def numbers(self, columns: Sequence[str]) -> Array:
        """Return the numbers ``[M, k]`` of some columns."""
        return np.concatenate([np.empty((0, len(columns))), *self.batches(columns)])

    def batches(self, columns: Sequence[str]) -> Iterator[Array]:
        """Yield the same, a number of rows at a time."""
        from pandas.api.types import is_numeric_dtype

        first = 0
        for frame in self.frames(columns):
            values = np.empty((len(frame), len(columns)))
            for k, name in enumerate(columns):
                cells = frame[name]
                if is_numeric_dtype(cells):
                    values[:, k] = cells.to_numpy(np.float64, na_value=np.nan)
                else:
                    values[:, k] = [
                        self._number(cell, row, name) for row, cell in enumerate(cells, first)
                    ]
                for gap in np.flatnonzero(np.isnan(values[:, k])):
                    self._number(None, first + int(gap), name)
            yield values
            first += len(frame)

    def _number(self, value: Any, row: int, column: str) -> float:
        """Return a cell as a number, or raise an error that names it."""
        if value is None or str(value).strip().lower() in MISSING:
            problem = "the value is missing; fill it in"
        else:
            try:
                return float(value)
            except (TypeError, ValueError):
                problem = f"{str(value)!r:.60} is not a number; correct it"
        raise InputError(f"{self.cell(row, column)}: {problem} or delete the {self.row_word}")


class TextTable(Table):
    """A CSV or TSV file, perhaps gzipped; its first line that is not blank is the header."""

    row_word = "line"

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.name, self.delimiter = path, str(path), delimiter
        with self._opened() as file:
            self.metadata = parse_metadata(file.readline())
        self._header_line, header = next(self._records(), (0, []))
        if not header:
            raise _empty(path)
        if len(header) == 1 and any(other in header[0] for other in ";\t|"):
            raise InputError(
                f"{path}: the columns are not separated by {delimiter!r} but otherwise "
                f"({header[0]!r:.60}); save the file with commas"
            )
        self.columns = [name.strip() for name in header]

    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield some columns: as numbers, or as text from where Arrow fails."""
        import pyarrow
        import pyarrow.csv

        where = [self.columns.index(name) for name in columns]
        chosen = [str(k) for k in where]  # columns by position, because names may repeat
        done = 0
        try:
            with pyarrow.csv.open_csv(
                self.path,
                pyarrow.csv.ReadOptions(
                    column_names=[str(k) for k in range(len(self.columns))],
                    skip_rows=self._header_line,
                    block_size=BLOCK,
                ),
                pyarrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(
                    include_columns=chosen,
                    column_types=dict.fromkeys(chosen, pyarrow.float64()),
                    null_values=[],
                ),
            ) as reader:
                for batch in reader:
                    yield batch.to_pandas().set_axis(list(columns), axis=1)
                    done += len(batch)
        except (pyarrow.ArrowException, OSError):
            yield from self._text_frames(columns, where, done)

    def _text_frames(
        self, columns: Sequence[str], where: Sequence[int], done: int
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        records = islice(self._records(), 1 + done, None)
        while batch := list(islice(records, BATCH)):
            for line, record in batch:
                more = record[len(self.columns) :]
                if len(record) < len(self.columns) or any(cell.strip() for cell in more):
                    raise InputError(
                        f"{self.path}, line {line}: {len(record)} fields where the header has "
                        f"{len(self.columns)}; complete or delete the line"
                    )
            yield pd.DataFrame([[r[k] for k in where] for _, r in batch], columns=list(columns))

    def row_numbers(self, rows: Sequence[int]) -> list[int]:
        """Return the line on which each row begins, found by reading the file again."""
        lines = {k: line for k, (line, _) in enumerate(islice(self._records(), 2 + rows[-1]))}
        return [lines[row + 1] for row in rows]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the header and the records that are not blank, each with its first line."""
        with self._opened() as file:
            reader = csv.reader(file, delimiter=self.delimiter, skipinitialspace=True)
            line = 1
            for record in reader:
                metadata = line == 1 and record and record[0].startswith(FIRST_LINE)
                if not metadata and (len(record) > 1 or "".join(record).strip()):
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


class ParquetTable(Table):
    """A Parquet file; its rows are counted from 1."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self.path, self.name = path, str(path)
        with self._readable():
            schema = pyarrow.parquet.read_schema(path)
        line = (schema.metadata or {}).get(METADATA_KEY.encode(), b"")
        self.metadata = parse_metadata(line.decode("utf-8", "replace"))
        # pandas does not store an index that is a range, only its name, start and step.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        self._ranges = {
            entry["name"]: entry for entry in index if isinstance(entry, dict) and entry["name"]
        }
        self.columns = [*schema.names, *self._ranges]

    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield some columns."""
        import pyarrow.parquet

        stored = [name for name in columns if name not in self._ranges]
        first = 0
        with self._readable(), pyarrow.parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(BATCH, columns=stored):
                frame = batch.to_pandas(ignore_metadata=True)  # or pandas would hide its index
                rows = np.arange(first, first + len(frame))
                for name, entry in self._ranges.items():
                    frame[name] = entry["start"] + entry["step"] * rows
                yield frame
                first += len(frame)

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


class FrameTable(Table):
    """A DataFrame, with its index where that has a name; rows are positions, from 0."""

    def __init__(self, frame: Any, metadata: Mapping[str, str] = MappingProxyType({})) -> None:
        import pandas as pd

        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"frame must be a pandas DataFrame; got {type(frame).__name__}")
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()
        self.columns = list(map(str, frame.columns))
        self.name, self.metadata = "frame", dict(metadata)
        self._frame = frame.set_axis(self.columns, axis=1)

    def frames(self, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield some columns, whole."""
        yield self._frame[list(columns)]

    def row_numbers(self, rows: Sequence[int]) -> list[int]:
        """Return the positions as they are."""
        return list(rows)


def open_table(path: str | os.PathLike[str]) -> Table:
    """Return the table in a file, by its ending."""
    path = check_file(path)
    name = path.name.lower()
    if name.endswith(".parquet"):
        return ParquetTable(path)
    if name.removesuffix(".gz").endswith((".csv", ".tsv")):
        return TextTable(path, "," if ".csv" in name[-7:] else "\t")
    raise InputError(
        f"{path}: cannot tell how to read {''.join(path.suffixes) or 'a file without ending'}; "
        f"give a .csv, .csv.gz, .tsv or .parquet file"
    )


def check_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file with something in it, or raise."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"name a file, as in 'windows.csv'; got {path!r}")
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a .csv, .tsv or .parquet file in it")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the path")
    if not path.stat().st_size:
        raise _empty(path)
    return path


def _empty(path: Path) -> InputError:
    return InputError(f"{path}: the file is empty; it needs a header and a line per window")
