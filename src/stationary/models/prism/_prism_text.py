"""The text of a PRISM file, changed where Storm cannot take it as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stationary.errors import InputError

_LONGEST = 4_000_000
_MARK = re.compile(r"\0([0-9]+)\0")
"""Stands for a call that is still to be written: no PRISM file has this character."""


def without_comments(code: str) -> str:
    """Leave out comments, which may hold what looks like a definition; lines keep their numbers."""
    return re.sub(r"//[^\n]*", "", code)


def undefined(code: str, names: Iterable[str]) -> str:
    """Return the text without the definitions of some constants: Storm cannot change a value."""
    for name in names:
        code = re.sub(rf"(\bconst\s+(?:\w+\s+)?{re.escape(name)}\s*)=[^;]*;", r"\1;", code)
    return code


def spelled_out(code: str) -> str:
    """Write ``min`` and ``max`` as choices: Storm's algebra of rates has none of the two.

    Every choice has its arguments several times, so that ``min`` in ``max`` in ``min`` grows fast;
    one ``min`` in another is taken as one of more arguments, which does not.

    Examples
    --------
    >>> spelled_out("min(q, c) * mu")
    '((q) < (c) ? (q) : (c)) * mu'
    """
    calls: list[tuple[str, list[str]]] = []
    for found in reversed(list(re.finditer(r"\b(min|max)\s*\(", code))):
        # Those inside come later in the text, and are marks by now.
        parts, end = _arguments(code, found.end())
        if end is None:
            return code  # Storm says what is wrong
        flat: list[str] = []
        for part in parts:
            mark = _MARK.fullmatch(part)
            inner = calls[int(mark[1])] if mark else None
            flat += inner[1] if inner and inner[0] == found[1] else [part]
        calls.append((found[1], flat))
        code = f"{code[: found.start()]}\0{len(calls) - 1}\0{code[end:]}"
    written: list[str] = []
    for name, parts in calls:
        signs = [f"({_filled(part, written)})" for part in parts]
        written.append(_choice(signs, "<" if name == "min" else ">"))
    return _filled(code, written)


def _arguments(code: str, start: int) -> tuple[list[str], int | None]:
    """Arguments of a call from behind its parenthesis on, and where it ends, if it does."""
    depth, begin, parts = 1, start, []
    for found in re.compile(r"[(),]").finditer(code, start):
        depth += {"(": 1, ")": -1, ",": 0}[found[0]]
        if depth == 0 or (depth == 1 and found[0] == ","):
            parts.append(code[begin : found.start()].strip())
            begin = found.end()
        if depth == 0:
            return parts, found.end()
    return parts, None


def _choice(parts: list[str], sign: str) -> str:
    """Return the least of some terms, or the largest, as nested choices."""
    found = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        least = " & ".join(f"{parts[k]} {sign} {other}" for other in parts[k + 1 :])
        found = f"({least} ? {parts[k]} : {found})"
        _check_length(len(found))
    return found


def _filled(text: str, written: list[str]) -> str:
    """Put what was written for them in the place of marks."""
    _check_length(len(text) + sum(len(written[int(mark[1])]) for mark in _MARK.finditer(text)))
    return _MARK.sub(lambda mark: written[int(mark[1])], text)


def _check_length(length: int) -> None:
    if length > _LONGEST:
        raise InputError(
            f"the PRISM model has min and max inside one another so often that they make more than "
            f"{_LONGEST} characters of choices: nest them less, or write them as choices (?:)"
        )
