"""What is wrong with a text, and where in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from stationary.errors import InputError

_WIDEST = 100


class ExpressionError(InputError):
    """A text is not in the language of expressions.

    Attributes
    ----------
    reason : str
        What is wrong, and what to do.
    text : str
        The whole text.
    at : int
        Position in it.
    """

    def __init__(self, reason: str, text: str, at: int) -> None:
        self.reason, self.text, self.at = reason, text, at
        line, column, excerpt = pointed(text, at)
        super().__init__(f"line {line}, column {column}: {reason}\n{excerpt}")


def pointed(text: str, at: int) -> tuple[int, int, str]:
    """Line and column of a position, from 1, and that line with a caret below the place."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    row = text[start : len(text) if end < 0 else end].rstrip("\r")
    place = at - start
    # Of a long line, the part around the place.
    first = max(0, place - _WIDEST + 20)
    shown = row[first : first + _WIDEST]
    below = "".join("\t" if c == "\t" else " " for c in shown[: place - first])
    below += " " * (place - first - len(below))
    return text.count("\n", 0, at) + 1, place + 1, f"  {shown}\n  {below}^"


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean ...? there are: ...`` for a word that is none of the known ones."""
    names = list(known)
    close = difflib.get_close_matches(word, names, 1, 0.5)
    listed = "there are: " + ", ".join(names) if names else "there are none"
    return (f"; did you mean {close[0]!r}? " if close else "; ") + listed
