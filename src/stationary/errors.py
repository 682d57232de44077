"""Errors and warnings of our own.

Every message names what was wrong, what was expected and what to do next; the
command line prints it as it is and exits with code 2.
"""

import difflib
import re
from collections.abc import Iterable

# An address with a user and a password, unless these are the words of an example. A password may
# hold blanks and @ where it should hold %20 and %40; what follows a port is no password.
_USER = re.compile(
    r"\b([a-z][a-z0-9+.-]{1,30}:/++)(?!user:password@)"
    r"(?:[^\s/:@]*:(?![0-9]+(?:[\s/,;]|$))[^@]*@(?:\S*@)?|\S*@)",
    re.IGNORECASE,
)
_PASSWORD = re.compile(
    r"\b((?:ssl)?password|passwd)(\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]+)", re.IGNORECASE
)


def hide_passwords(text: str) -> str:
    """Return a text with ``***`` for users and passwords in addresses of servers.

    Examples
    --------
    >>> hide_passwords("postgresql://me:secret@host/base, or host=h password=secret")
    'postgresql://***@host/base, or host=h password=***'
    """
    return _PASSWORD.sub(r"\1\2***", _USER.sub(r"\1***@", text))


class StationaryError(Exception):
    """Base of every error a user can cause and mend; its message shows no password."""

    def __str__(self) -> str:
        return hide_passwords(super().__str__())


class InputError(StationaryError, ValueError):
    """An argument, a file or a column is not what it should be."""


class WrongTypeError(InputError):
    """An argument is not of the type that it must be."""


class MissingError(InputError):
    """A library that is not installed by default is needed."""


class RateError(InputError):
    """A transition rate is negative or not finite."""


class ReducibleError(StationaryError):
    """The chain has several closed classes, or transient states where none are allowed.

    Attributes
    ----------
    closed : list of list of int
        The closed communicating classes: once in, the chain never leaves.
    transient : list of int
        The states the chain leaves for ever.
    """

    def __init__(
        self,
        message: str,
        closed: list[list[int]] | None = None,
        transient: list[int] | None = None,
    ) -> None:
        super().__init__(message)
        self.closed = closed or []
        self.transient = transient or []


class SolverError(StationaryError):
    """A solver could not reach an acceptable residual."""


class RunError(StationaryError):
    """A saved run is missing, damaged or from a newer version."""


class ProgramError(StationaryError):
    """A program that we need is missing, or failed."""


class ConvergenceWarning(UserWarning):
    """The optimiser stopped before the gradient vanished."""


class DataWarning(UserWarning):
    """Some of the data was set aside; the message says which rows and why."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean ...? there are: ...`` for a word that is not known."""
    names = list(known)
    close = difflib.get_close_matches(word, names, 1, 0.5)
    listed = "there are: " + ", ".join(names) if names else "there are none"
    return (f"; did you mean {close[0]!r}? " if close else "; ") + listed
