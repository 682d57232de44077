"""What is wrong with a model's description, and in which part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stationary.errors import InputError
from stationary.models.rules.formulas import ExpressionError, pointed

_ONE = {
    "variables": "variable",
    "rules": "rule",
    "params": "parameter",
    "constants": "constant",
    "measures": "measure",
    "inputs": "input",
}


class DescriptionError(InputError):
    """A part of a model's description is not what it should be.

    Attributes
    ----------
    reason : str
        What is wrong, and what to do.
    section, key : str
        Where: ``rules`` and the name of a rule, or ``count`` and nothing.
    text : str
        The text at fault, or empty.
    at : int
        Position in the text.
    """

    def __init__(self, reason: str, section: str, key: str = "", text: str = "", at: int = 0):
        self.reason, self.section, self.key, self.text, self.at = reason, section, key, text, at
        message = f"{self.part}: {reason}"
        if text:
            line, column, excerpt = pointed(text, at)
            where = f"line {line}, column {column}" if "\n" in text else f"column {column}"
            message = f"{self.part}, {where}: {reason}\n{excerpt}"
        super().__init__(message)

    @property
    def part(self) -> str:
        """The part of the description, for people."""
        return f"{_ONE.get(self.section, self.section)} {self.key!r}" if self.key else self.section


@contextmanager
def about(section: str, key: str = "") -> Iterator[None]:
    """Say of errors to which part of a description they belong."""
    try:
        yield
    except DescriptionError:
        raise
    except ExpressionError as error:
        raise DescriptionError(error.reason, section, key, error.text, error.at) from None
    except InputError as error:
        raise DescriptionError(str(error), section, key) from None
