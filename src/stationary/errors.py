"""Errors and warnings of our own.

Every message names what was wrong, what was expected and what to do next; the
command line prints it as it is and exits with code 2.
"""

import difflib
from collections.abc import Iterable


class StationaryError(Exception):
    """Base of every error a user can cause and mend."""


class InputError(StationaryError, ValueError):
    """An argument, a file or a column is not what it should be."""


class MissingError(InputError):
    """A library that is not installed by default is needed."""


class RateError(InputError):
    """A transition rate is negative or not finite."""


class ReducibleError(StationaryError):
    """The chain has no unique, everywhere positive steady state.

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
