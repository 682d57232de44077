"""What is wrong with a text, and where in it."""

from __future__ import annotations

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
