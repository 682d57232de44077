"""Files of windows say how the windows were sampled, and how long each was.

Text says it in a first line, ``# stationary: sampling=arrival duration=1.0``; Parquet has the same
line in its metadata.
"""

from __future__ import annotations

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


def metadata_line(sampling: str, duration: float | None) -> str:
    """Return how windows were sampled as the first line of a file, for `read_windows`.

    Examples
    --------
    >>> metadata_line("arrival", 1.0)
    '# stationary: sampling=arrival duration=1.0'
    """
    line = f"{FIRST_LINE} sampling={sampling}"
    return line if duration is None else f"{line} duration={duration!r}"


def parse_metadata(line: str) -> dict[str, str]:
    """Return what `metadata_line` wrote; nothing where the line is not one of these."""
    if not line.startswith(FIRST_LINE):
        return {}
    # Spreadsheets fill every line up with commas.
    words = line.removeprefix(FIRST_LINE).strip().rstrip(",").split()
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def write_table(
    frame: pd.DataFrame, path: Path, sampling: str, duration: float | None = None
) -> None:
    """Write a ``.csv`` or ``.parquet`` file of windows, whole or not at all."""
    line = metadata_line(sampling, duration)
    with replacing(path) as part:
        if path.suffix.lower() == ".csv":
            with part.open("w", encoding="utf-8", newline="") as file:
                file.write(f"{line}\n")
                frame.to_csv(file, index=False, lineterminator="\n")
            return
        import pyarrow
        import pyarrow.parquet

        arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)
        metadata = {**(arrow.schema.metadata or {}), METADATA_KEY.encode(): line.encode()}
        pyarrow.parquet.write_table(arrow.replace_schema_metadata(metadata), part)


def write_windows(windows: Windows, path: Path) -> None:
    """Write a ``.csv`` file that `read_windows` reads back; refuse what would not come back."""
    windows.check_single("a file with one line per window")
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: to_csv writes .csv files; give the file that ending")
    if not windows.has_states:
        raise InputError("a file of windows holds counts of states only; use save() of a fit")
    for category, text in zip(windows.observe, windows.labels, strict=True):
        if parse_category(text) != category:
            raise InputError(
                f"category {text!r} cannot be a column name: it would read back as "
                f"{parse_category(text)!r}; rename the state"
            )
    both = set(windows.inputs) & set(windows.states.columns)
    if both:
        raise InputError(f"input {both.pop()!r} has the name of a count column; rename it")
    lengths = [] if windows.duration is None else windows.duration.unique().tolist()
    if len(lengths) > 1:
        raise InputError(
            f"a file of windows has one duration for all of them; got {lengths}: write those of "
            f"each length to a file of their own"
        )
    try:
        write_table(windows.to_frame(), path, windows.sampling, *lengths)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
