"""What a format is, and which formats there are."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stationary._support.arguments import explained
from stationary.errors import InputError
from stationary.terms.spans import Unit

if TYPE_CHECKING:
    from stationary.ingest.formats._lines import LogLines

_PACKAGE = __name__.rpartition(".")[0]
_ENOUGH = 0.5
"""Share of the first lines that must be of a format."""


@dataclass(frozen=True)
class Format:
    """A way to read files: a function, or what their lines look like.

    Parameters
    ----------
    read : callable, optional
        Of an Ibis backend and paths; returns a table. One with the columns ``arrival``,
        ``response`` (null where there was no answer) and ``status`` needs no mapping of columns.
    unit : Unit, optional
        Of all times, where the format defines it; otherwise the user names it.
    endings : tuple of str
        File names that are read in this format unless another is asked for.
    lines : LogLines, optional
        Of an access log, instead of ``read``.
    parsed : bool
        Whether the file is text, which is better read once only.
    """

    read: Any = None
    unit: Unit | None = None
    endings: tuple[str, ...] = ()
    lines: LogLines | None = None
    parsed: bool = True


def format_names() -> list[str]:
    """Return the names that ``--format`` takes; nothing is imported for it."""
    modules = pkgutil.iter_modules(sys.modules[_PACKAGE].__path__)
    return sorted(m.name.replace("_", "-") for m in modules if not m.name.startswith("_"))


@explained
def load_format(name: str) -> Format:
    """Return the format of a name, or the one that a format string of nginx or Apache describes."""
    if "$" in name or "%" in name:
        strings = importlib.import_module(f"{_PACKAGE}._strings")
        described: Format = (strings.apache_string if "%" in name else strings.nginx_string)(name)
        return described
    if name not in format_names():
        raise InputError(
            f"there is no format {name!r}; there are {', '.join(format_names())}, and format "
            f"strings of nginx ($) and Apache (%)"
        )
    made: Format = importlib.import_module(f"{_PACKAGE}.{name.replace('-', '_')}").FORMAT
    return made


def format_of(path: str, head: bytes | None, expected: str = "") -> tuple[str, Format]:
    """Return the format of a file: by its first lines, or else by its ending.

    ``head`` is None where the lines cannot be looked at. Of formats that read them equally well the
    expected one is taken.
    """
    name = re.sub(r"\.(gz|zst|bz2|xz)$", "", path.lower())
    formats = {each: load_format(each) for each in format_names()}
    by_ending = [item for item in formats.items() if name.endswith(item[1].endings or "\0")]
    if by_ending and by_ending[0][0] != "jsonl":
        return by_ending[0]
    from stationary.ingest.formats._lines import read  # which loads numpy

    logs = {each: made.lines for each, made in formats.items() if made.lines is not None}
    found = {each: read(head or b"", rules) for each, rules in reversed(logs.items())}
    best = max(found, key=lambda each: (found[each].timed, found[each].good, each == expected))
    if found[best].good > _ENOUGH * found[best].lines:
        made, good = formats[best], found[best].good
        if found[best].timed or made.lines is None:
            return best, made
        # Without response times, lines of several servers look alike: say what each is to add.
        others = [logs[each] for each in found if each != best and found[each].good == good]
        alike = [made.lines, *others]
        lines = replace(
            made.lines,
            add_fraction=", or ".join(rules.add_fraction for rules in alike),
            add_response=", or ".join(rules.add_response for rules in alike),
        )
        return best, replace(made, lines=lines)
    if by_ending:
        return by_ending[0]
    if not head:
        raise InputError(
            f"{path}: its ending does not say how to read it; name its --format, one of "
            f"{', '.join(format_names())}"
        )
    raise InputError(
        f"{path}: this is no log that is known. Tried: {', '.join(logs)}; the first line that "
        f"could not be read: {found[best].strange!r}. Name its --format, or give the format string "
        f"of the server, as in --format '[$time_local] \"$request\" $status $request_time'"
    )
