"""The text of a PRISM file, changed where Storm cannot take it as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable


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

    Examples
    --------
    >>> spelled_out("min(q, c) * mu")
    '((q) < (c) ? (q) : (c)) * mu'
    """
    calls = list(re.finditer(r"\b(min|max)\s*\(", code))
    if not calls:
        return code
    found = calls[-1]  # it has no other inside
    parts, depth, end = [""], 1, found.end()
    while end < len(code) and depth:
        letter = code[end]
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 1 and letter == ",":
            parts.append("")
        elif depth:
            parts[-1] += letter
        end += 1
    sign, least = "<" if found[1] == "min" else ">", f"({parts[0].strip()})"
    for part in parts[1:]:
        other = f"({part.strip()})"
        least = f"({least} {sign} {other} ? {least} : {other})"
    return spelled_out(code[: found.start()] + least + code[end:])
