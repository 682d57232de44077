"""What is wrong with the description of a model, and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stationary.errors import InputError

_WIDEST = 100
_SINGULAR = {
    "variables": "variable",
    "rules": "rule",
    "params": "parameter",
    "constants": "constant",
    "measures": "measure",
}


class DescriptionError(InputError):
    """What is wrong with a part of a description, or with a formula that stands alone.

    The part is a ``section`` and a ``key``, such as ``rules`` and the name of a rule. The position
    ``at`` is one in the ``text`` at fault.
    """

    def __init__(
        self, reason: str, section: str = "", key: str = "", text: str = "", at: int = 0
    ) -> None:
        self.reason, self.section, self.key, self.text, self.at = reason, section, key, text, at
        where, below = self.part, ""
        if text or not section:
            line, column, excerpt = locate(text, at)
            one_line = section and "\n" not in text
            where += ", " if section else ""
            where += f"column {column}" if one_line else f"line {line}, column {column}"
            below = f"\n{excerpt}"
        super().__init__(f"{where}: {reason}{below}")

    @property
    def part(self) -> str:
        """The part of the description, as a message names it."""
        if not self.key:
            return self.section
        return f"{_SINGULAR.get(self.section, self.section)} {self.key!r}"


@contextmanager
def about(section: str, key: str = "") -> Iterator[None]:
    """Name the part of the description to which errors inside the block belong."""
    try:
        yield
    except DescriptionError as error:
        if error.section:
            raise
        raise DescriptionError(error.reason, section, key, error.text, error.at) from None
    except InputError as error:
        raise DescriptionError(str(error), section, key) from None


def locate(text: str, at: int) -> tuple[int, int, str]:
    """Return line and column of a position, from 1, and the line with a caret below the place."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    row = text[start : len(text) if end < 0 else end].rstrip("\r")
    place = at - start
    # Of a long line, only the part around the place is shown.
    first = max(0, place - _WIDEST + 20)
    shown = row[first : first + _WIDEST]
    below = "".join("\t" if c == "\t" else " " for c in shown[: place - first])
    below += " " * (place - first - len(below))
    return text.count("\n", 0, at) + 1, place + 1, f"  {shown}\n  {below}^"
