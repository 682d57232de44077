"""What a format is, and which formats there are."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from stationary._support.arguments import explained
from stationary.errors import InputError, did_you_mean
from stationary.terms.spans import Unit

if TYPE_CHECKING:
    from stationary.ingest.formats._lines import Program

_PACKAGE = __name__.rpartition(".")[0]
_ENOUGH = 0.5
"""Share of the first lines that must be of a format."""

Fields = dict[str, Any]


@dataclass(frozen=True)
class Format:
    """A way to read files into a table.

    Parameters
    ----------
    read : callable
        Of an Ibis backend and paths; returns a table. One with the columns ``arrival``,
        ``response`` (null where there was no answer) and ``status`` needs no mapping of columns.
    unit : Unit, optional
        Of all times, where the format defines it; otherwise the user names it.
    endings : tuple of str
        File names that are read in this format unless another is asked for.
    parsed : bool
        Whether the file is text, which is better read once only.
    """

    read: Callable[[Any, Any], Any]
    unit: Unit | None = None
    endings: tuple[str, ...] = ()
    parsed: bool = True


@dataclass(frozen=True)
class LogLines:
    """A format of access logs: what their lines look like, and what to say of them.

    Parameters
    ----------
    kind : str
        What a line should be, for messages.
    layouts : tuple of str or mapping
        What a line looks like: text, with fields in braces; of several the first that fits. Of
        lines of JSON the fields by their path, as in ``{"request.method": "{method}"}``.
    ends : bool
        Whether the time is that at which a request was done, so that it came earlier.
    times : str
        What the logged time is, in words.
    add_fraction, add_response : str
        What to add to the server's format where times are whole seconds, or responses are missing.
    adjust : callable, optional
        Changes the fields of some lines at once: those of text are functions that return Arrow
        arrays, the others arrays of microseconds, with the least integer for what is not there.

    Notes
    -----
    Fields are written ``{name}``, or ``{name:kind}``; ``{}`` is skipped, ``{:code}`` as well if it
    is a whole number, ``{:list}`` if it is a list of numbers. These have a meaning:

    - ``clock`` and ``done``, times such as ``2026-10-10T13:55:36.5Z`` or
      ``10/Oct/2026:13:55:36 +0200``; ``epoch``, seconds since 1970, which count where a line has
      both;
    - ``took``, ``received`` (until a request had come in); their kind is a unit: of ``took:s`` a
      decimal number, of ``took:ms``, ``took:us`` and ``took:ns`` a whole one;
    - ``request`` (``GET /path HTTP/1.1``), ``path``, ``status``;
    - ``tail``: what nginx writes last, of which lengths are known by three decimals.

    All others are columns of text.
    """

    unit: ClassVar = Unit.US
    endings: ClassVar[tuple[str, ...]] = ()

    kind: str
    layouts: tuple[str, ...] | Mapping[str, str]
    ends: bool = False
    times: str = ""
    add_fraction: str = "parts of a second to the format"
    add_response: str = "the response time to the format"
    adjust: Callable[[Fields], None] | None = field(default=None, compare=False)

    def said(self) -> str:
        """What the logged time is."""
        came = "those at which requests came"
        done = "those at which requests were done; arrivals are earlier by the response time"
        return self.times or (done if self.ends else came)

    @cached_property
    def program(self) -> Program:
        """The instructions by which lines are read."""
        from stationary.ingest.formats._lines import compiled  # which loads numba

        return compiled(self.layouts)


def format_names() -> list[str]:
    """Return the names that ``--format`` takes; nothing is imported for it."""
    modules = pkgutil.iter_modules(sys.modules[_PACKAGE].__path__)
    return sorted(m.name.replace("_", "-") for m in modules if not m.name.startswith("_"))


@explained
def load_format(name: str) -> Format | LogLines:
    """Return the format of a name, or the one that a format string of nginx or Apache describes."""
    made: Format | LogLines
    if "$" in name or "%" in name:
        strings = importlib.import_module(f"{_PACKAGE}._strings")
        made = (strings.apache_string if "%" in name else strings.nginx_string)(name)
        return made
    if name not in format_names():
        raise InputError(
            f"there is no format {name!r}{did_you_mean(name, format_names())}, and format strings "
            f"of nginx ($) and Apache (%)"
        )
    made = importlib.import_module(f"{_PACKAGE}.{name.replace('-', '_')}").FORMAT
    return made


def format_of(path: str, head: bytes | None, expected: str = "") -> tuple[str, Format | LogLines]:
    """Return the format of a file: by its first lines, or else by its ending.

    ``head`` is None where the lines cannot be looked at. Of formats that read them equally well the
    expected one is taken.
    """
    name = re.sub(r"\.(gz|zst|bz2|xz)$", "", path.lower())
    formats = {each: load_format(each) for each in format_names()}
    by_ending = [item for item in formats.items() if name.endswith(item[1].endings or "\0")]
    if by_ending and by_ending[0][0] != "jsonl":
        return by_ending[0]
    from stationary.ingest.formats._lines import read

    logs = {each: made for each, made in formats.items() if isinstance(made, LogLines)}
    found = {each: read(head or b"", rules) for each, rules in reversed(logs.items())}
    best = max(found, key=lambda each: (found[each].timed, found[each].good, each == expected))
    if found[best].good > _ENOUGH * found[best].lines:
        if found[best].timed:
            return best, logs[best]
        # Without response times, lines of several servers look alike: say what each is to add.
        good = found[best].good
        alike = [best, *(each for each in found if each != best and found[each].good == good)]
        return best, replace(
            logs[best],
            add_fraction=", or ".join(logs[each].add_fraction for each in alike),
            add_response=", or ".join(logs[each].add_response for each in alike),
        )
    if by_ending:
        return by_ending[0]
    if not head:
        raise InputError(
            f"{path}: its ending does not say how to read it; name its --format, one of "
            f"{', '.join(format_names())}"
        )
    raise InputError(
        f"{path}: this is not a log of a known format. Tried: {', '.join(logs)}; the first line "
        f"that could not be read: {found[best].strange!r}. Name its --format, or give the format "
        f"string of the server, as in --format '[$time_local] \"$request\" $status $request_time'"
    )
