"""What a format is, and which formats there are."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stationary.errors import InputError
from stationary.terms.spans import Unit

_PACKAGE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class Format:
    """A way to read a file.

    Parameters
    ----------
    read : callable
        Of an Ibis backend and a path; returns a table. One with the columns ``arrival``,
        ``response`` (null where there was no answer) and ``status`` needs no mapping of columns.
    unit : Unit, optional
        Of all times, where the format defines it; otherwise the user names it.
    endings : tuple of str
        File names that are read in this format unless another is asked for.
    needs_duckdb : bool
        Whether it takes lines of text apart, which only DuckDB has the functions for.
    """

    read: Callable[[Any, str], Any]
    unit: Unit | None = None
    endings: tuple[str, ...] = ()
    needs_duckdb: bool = False


def format_names() -> list[str]:
    """Return the names that ``--format`` takes; nothing is imported for it."""
    modules = pkgutil.iter_modules(sys.modules[_PACKAGE].__path__)
    return sorted(m.name.replace("_", "-") for m in modules if not m.name.startswith("_"))


def load_format(name: str) -> Format:
    """Return the format of a name."""
    if name not in format_names():
        raise InputError(f"there is no format {name!r}; there are {', '.join(format_names())}")
    made: Format = importlib.import_module(f"{_PACKAGE}.{name.replace('-', '_')}").FORMAT
    return made


def format_of(path: str) -> Format:
    """Return the format that the ending of a file name stands for."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    for made in map(load_format, format_names()):
        if name.endswith(made.endings):
            return made
    raise InputError(
        f"{path}: its ending does not say how to read it; name its --format, one of "
        f"{', '.join(format_names())}"
    )
