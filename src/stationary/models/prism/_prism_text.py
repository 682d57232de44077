"""The text of a PRISM file, changed where Storm cannot take it as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stationary.errors import InputError

_LONGEST = 4_000_000
_CALL = re.compile(r"\b(min|max)\s*\(")


def without_comments(code: str) -> str:
    """Leave out comments, which may hold what looks like a definition; lines keep their numbers."""
    return re.sub(r"//[^\n]*", "", code)


def undefined(code: str, names: Iterable[str]) -> str:
    """Return the text without the definitions of some constants: Storm cannot change a value."""
    for name in names:
        code = re.sub(rf"(\bconst\s+(?:\w+\s+)?{re.escape(name)}\s*)=[^;]*;", r"\1;", code)
    return code


def spelled_out(code: str) -> str:
    """Write ``min`` and ``max`` as choices: Storm's algebra of rates has neither.

    Every choice has its arguments several times, so that ``min`` in ``max`` in ``min`` grows fast;
    one ``min`` in another is taken as one of more arguments, which does not.

    Examples
    --------
    >>> spelled_out("min(q, c) * mu")
    '((q) < (c) ? (q) : (c)) * mu'
    """
    try:
        return _spelled(code)
    except RecursionError:
        raise _too_long() from None


def _spelled(code: str) -> str:
    written, done = "", 0
    while call := _CALL.search(code, done):
        parts, end = _arguments(code, call.end())
        if end is None:
            return code  # Storm says what is wrong
        written += code[done : call.start()] + _choice(call[1], parts)
        done = end
    return _checked(written + code[done:])


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


def _choice(function: str, parts: list[str]) -> str:
    """Return the least of some terms, or the largest, as nested choices."""
    *others, last = [f"({_spelled(part)})" for part in _flat(function, parts)]
    sign, found, below = ("<" if function == "min" else ">"), last, [last]
    for term in reversed(others):
        best = " & ".join(f"{term} {sign} {other}" for other in below)
        found = _checked(f"({best} ? {term} : {found})")
        below.insert(0, term)
    return found


def _flat(function: str, parts: list[str]) -> Iterator[str]:
    """Arguments, with those of the same function inside in place of its calls."""
    for part in parts:
        call = _CALL.match(part)
        inner, end = _arguments(part, call.end()) if call else ([], None)
        if call and call[1] == function and end == len(part):
            yield from _flat(function, inner)
        else:
            yield part


def _checked(text: str) -> str:
    if len(text) > _LONGEST:
        raise _too_long()
    return text


def _too_long() -> InputError:
    return InputError(
        f"the PRISM model has min and max inside one another so often that they make more than "
        f"{_LONGEST} characters of choices: nest them less, or write them as choices (?:)"
    )
