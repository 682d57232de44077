"""Files of windows say how the windows were sampled, and how long each was.

Text says it in a first line, ``# stationary: sampling=arrival duration=1.0``; Parquet has the same
line in its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stationary._support.files import replacing
from stationary.errors import InputError
from stationary.terms.categories import parse_category

if TYPE_CHECKING:
    import pandas as pd

    from stationary.data.windows import Windows

METADATA_KEY = "stationary"
"""Key in the metadata of Parquet."""
FIRST_LINE = f"# {METADATA_KEY}:"
"""How the line begins."""


def metadata_line(metadata: Mapping[str, object]) -> str:
    """Return what holds for all windows as the first line of a file, for `read_windows`.

    Examples
    --------
    >>> metadata_line({"sampling": "arrival", "duration": 1.0})
    '# stationary: sampling=arrival duration=1.0'
    """
    return " ".join([FIRST_LINE, *(f"{key}={value}" for key, value in metadata.items())])


def parse_metadata(line: str) -> dict[str, str]:
    """Return what `metadata_line` wrote; nothing where the line is not one of these."""
    if not line.startswith(FIRST_LINE):
        return {}
    # Spreadsheets fill every line up with commas.
    words = line.removeprefix(FIRST_LINE).strip().rstrip(",").split()
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def write_table(frame: pd.DataFrame, path: Path, metadata: Mapping[str, object]) -> None:
    """Write a ``.csv`` or ``.parquet`` file of windows, whole or not at all."""
    line = metadata_line(metadata)
    with replacing(path) as part:
        if path.suffix.lower() == ".csv":
            with part.open("w", encoding="utf-8", newline="") as file:
                file.write(f"{line}\n")
                frame.to_csv(file, index=False, lineterminator="\n")
            return
        import pyarrow
        import pyarrow.parquet

        arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)
        both = {**(arrow.schema.metadata or {}), METADATA_KEY.encode(): line.encode()}
        pyarrow.parquet.write_table(arrow.replace_schema_metadata(both), part)


def write_windows(windows: Windows, path: Path) -> None:
    """Write a ``.csv`` file that `read_windows` reads back; refuse what would not come back."""
    windows.check_single("a file with one line per window")
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: to_csv writes .csv files; give the file that ending")
    for kind in windows.every:
        if kind.kind != "states" and kind.find_columns(kind.columns) != kind.columns:
            raise InputError(
                f"a file of windows cannot hold the columns {', '.join(kind.columns[:9])}: "
                f"{type(kind).__name__}.find_columns does not claim them, so they would be read "
                f"back as inputs; use save() of a fit"
            )
    counted = windows.counted
    states = windows.states if counted is not None and counted.kind == "states" else None
    for category, text in zip(states.observe, states.labels, strict=True) if states else ():
        if parse_category(text) != category:
            raise InputError(
                f"category {text!r} cannot be a column name: it would read back as "
                f"{parse_category(text)!r}; rename the state"
            )
    frame = windows.to_frame()
    both = frame.columns[frame.columns.duplicated()]
    if len(both):
        raise InputError(f"input {both[0]!r} has the name of a count column; rename it")
    metadata: dict[str, object] = {"sampling": states.sampling} if states else {}
    if windows.duration is not None:
        lengths = windows.duration.unique().tolist()
        if len(lengths) == 1:
            metadata["duration"] = lengths[0]
        else:
            frame.insert(windows.x.shape[1], "duration", windows.duration.numpy())
    for kind in windows.every:
        metadata |= kind.metadata()
    try:
        write_table(frame, path, metadata)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
