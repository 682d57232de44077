"""State spaces of whole-number variables: codes, names, and what rules reach.

A state is kept as one number, its code: the values of its variables, counted from the lowest, are
the digits of a number in mixed radix, the first variable the most significant. Codes in order are
states in lexicographic order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from stationary.errors import InputError

Ints = NDArray[np.int64]
Columns = Mapping[str, NDArray[np.float64]]
"""Values of every variable in some states, as numbers that divide."""

Moves = Callable[["Space", Ints, Columns], tuple[Ints, Ints]]

MOST_STATES = 20_000_000
_MOST_FLAGS = 200_000_000
"""Above this many codes, those seen are kept sorted instead of as one flag a code."""

_VALUE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*==?\s*(-?[0-9]{1,18})\s*")


class Space:
    """All combinations of the values of some variables.

    Parameters
    ----------
    ranges : mapping
        Lowest and highest value of every variable.
    """

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.names = tuple(ranges)
        self._low = [low for low, _ in ranges.values()]
        self._sizes = [high - low + 1 for low, high in ranges.values()]
        if math.prod(self._sizes) >= 2**62:
            raise InputError(
                f"the ranges of {', '.join(self.names)} have {math.prod(self._sizes):.1e} "
                f"combinations, more than 2**62 can be numbered: narrow them"
            )
        self._strides = [math.prod(self._sizes[k + 1 :]) for k in range(len(self._sizes))]

    def __len__(self) -> int:
        return math.prod(self._sizes)

    def range(self, name: str) -> tuple[int, int]:
        """Lowest and highest value of a variable."""
        k = self.names.index(name)
        return self._low[k], self._low[k] + self._sizes[k] - 1

    def stride(self, name: str) -> int:
        """How much the code grows with a variable."""
        return self._strides[self.names.index(name)]

    def columns(self, codes: Ints) -> dict[str, NDArray[np.float64]]:
        """Return the values of every variable in states given by their codes."""
        digits = zip(self.names, self._strides, self._sizes, self._low, strict=True)
        return {
            name: (codes // stride % size + low).astype(np.float64)
            for name, stride, size, low in digits
        }

    def code(self, values: Mapping[str, int]) -> int:
        """Return the code of a state, given a value in its range for every variable."""
        return sum((v - self.range(name)[0]) * self.stride(name) for name, v in values.items())

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether every variable has a value, and in its range."""
        ends = {name: self.range(name) for name in self.names}
        return values.keys() == ends.keys() and all(
            ends[name][0] <= value <= ends[name][1] for name, value in values.items()
        )

    def name(self, code: int) -> str:
        """Return the name of a state: ``q1=3,q2=0``."""
        columns = self.columns(np.array([code]))
        return ",".join(f"{name}={int(column[0])}" for name, column in columns.items())


class States(Sequence[str]):
    """Names of the states of a space, made when they are asked for.

    Parameters
    ----------
    space : Space
        The variables.
    codes : ndarray
        Codes of the states that there are, sorted.

    Examples
    --------
    >>> states = States(Space({"q": (0, 4), "up": (0, 1)}), np.array([0, 3, 7]))
    >>> list(states), states.index("up=1, q=3"), "q=1,up=0" in states
    (['q=0,up=0', 'q=1,up=1', 'q=3,up=1'], 2, False)
    """

    def __init__(self, space: Space, codes: Ints) -> None:
        self.space = space
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self.space.name(code) for code in self.codes[index].tolist()]
        return self.space.name(int(self.codes[index]))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """Position of a state by name, its variables in any order."""
        found = self.find(name)
        if found is None or found not in range(len(self))[start:stop]:
            raise ValueError(f"{name!r} is not a state")
        return found

    def find(self, name: str) -> int | None:
        """Position of a state by name, or None if there is no such state."""
        pairs = [_VALUE.fullmatch(part) for part in name.split(",")]
        values = {pair[1]: int(pair[2]) for pair in pairs if pair}
        if len(values) != len(pairs):
            return None
        if not self.space.holds(values):
            return None
        code = self.space.code(values)
        k = int(np.searchsorted(self.codes, code))
        return k if k < len(self.codes) and self.codes[k] == code else None

    @cached_property
    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Values of every variable in every state."""
        return self.space.columns(self.codes)


def reached(space: Space, first: int, rules: Iterable[Moves]) -> Ints:
    """Codes of all states that rules lead to from a first one, sorted.

    Breadth first, a whole frontier at once: each rule is computed on arrays, never state by state.
    """
    moves = list(rules)
    seen: _Flags | _Sorted = _Flags(len(space)) if len(space) <= _MOST_FLAGS else _Sorted()
    frontier = seen.add(np.array([first], dtype=np.int64))
    count = 1
    while len(frontier):
        columns = space.columns(frontier)
        targets = [move(space, frontier, columns)[1] for move in moves]
        frontier = seen.add(np.concatenate(targets))
        count += len(frontier)
        if count > MOST_STATES:
            raise InputError(
                f"the rules reach more than {MOST_STATES} states; narrow the ranges of variables, "
                f"or forbid more with guards"
            )
    return seen.codes


class _Flags:
    """Codes seen, one flag for each that there could be."""

    def __init__(self, total: int) -> None:
        self._flags = np.zeros(total, dtype=bool)

    def add(self, codes: Ints) -> Ints:
        """Add codes; return those that are new, each once."""
        new = np.unique(codes[~self._flags[codes]])
        self._flags[new] = True
        return new

    @property
    def codes(self) -> Ints:
        return np.flatnonzero(self._flags)


class _Sorted:
    """Codes seen, in order: for spaces of which only a small part is reached."""

    def __init__(self) -> None:
        self.codes: NDArray[Any] = np.empty(0, dtype=np.int64)

    def add(self, codes: Ints) -> Ints:
        """Add codes; return those that are new, each once."""
        codes = np.unique(codes)
        place = np.searchsorted(self.codes, codes)
        there = place < len(self.codes)
        there[there] = self.codes[place[there]] == codes[there]
        new = codes[~there]
        self.codes = np.insert(self.codes, place[~there], new)
        return new
