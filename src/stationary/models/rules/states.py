"""States of whole-number variables: their names, and those that rules reach.

While states are searched for, each is one number, its code: the values of its variables, counted
from the lowest, are the digits of a number in mixed radix, the first variable being the most
significant. States in the order of their codes are in lexicographic order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from stationary.errors import InputError
from stationary.models.rules.formulas import Columns

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Moves = Callable[..., tuple[Ints, Ints]]
"""Given the codes of states and their columns: which the rule moves, and the codes of where to."""

MOST_STATES = 20_000_000
_MOST_CELLS = 200_000_000
"""The most states times variables and rules: each of them takes some bytes per state."""
_AT_ONCE = 2**24
"""The same for the states from which the search goes on; it takes as many of them at a time."""
_MOST_STEPS = 100_000
"""The most steps of a search, each of which takes some 0.1 ms however few states it finds."""

_VALUE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*==?\s*(-?[0-9]{1,18}|true|false)\s*")


class States(Sequence[str]):
    """Names of states, such as ``q=3,up=1``, made when they are asked for.

    The columns hold the value of every variable, a whole number or a boolean, in every state; the
    states are in lexicographic order.

    Examples
    --------
    >>> states = States({"q": np.array([0, 1, 3]), "up": np.array([True, False, True])})
    >>> list(states), states.index("up=true, q=3"), "q=1,up=true" in states
    (['q=0,up=true', 'q=1,up=false', 'q=3,up=true'], 2, False)
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        return state_name({name: column[index] for name, column in self.columns.items()})

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
        values = {pair[1]: pair[2] for pair in pairs if pair}
        if len(values) != len(pairs) or values.keys() != self.columns.keys():
            return None
        # One binary search for each variable, among the states that agree in those before it.
        low, high = 0, len(self)
        for key, column in self.columns.items():
            text, part = values[key], column[low:high]
            truth = text in ("true", "false")
            if truth != (column.dtype == bool):
                return None
            value = text == "true" if truth else int(text)
            first, end = np.searchsorted(part, value), np.searchsorted(part, value, side="right")
            low, high = low + int(first), low + int(end)
        return low if low < high else None


def written(value: Any) -> str:
    """Return a value as names of states have it: ``3``, ``true``."""
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else str(int(value))


def state_name(values: Mapping[str, Any]) -> str:
    """Return the name of a state, given the value of every variable."""
    return ",".join(f"{name}={written(value)}" for name, value in values.items())


class Space:
    """All combinations of the values of variables, each from its lowest to its highest."""

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.ranges = dict(ranges)
        self.strides: dict[str, int] = {}
        self.size = 1
        for name, (low, high) in reversed([*ranges.items()]):
            self.strides[name] = self.size
            self.size *= high - low + 1
        if self.size >= 2**62:
            raise InputError(
                f"the ranges of {', '.join(ranges)} have {self.size:.1e} combinations, and at most "
                f"2**62 can be numbered: narrow them"
            )

    def columns(self, codes: Ints) -> dict[str, NDArray[np.float64]]:
        """Return the values of every variable in states given by their codes."""
        return {
            name: (codes // self.strides[name] % (high - low + 1) + low).astype(np.float64)
            for name, (low, high) in self.ranges.items()
        }

    def code(self, values: Mapping[str, int]) -> int:
        """Return the code of a state, given a value in its range for every variable."""
        return sum((v - self.ranges[name][0]) * self.strides[name] for name, v in values.items())

    def reached(self, first: int, rules: Iterable[Moves]) -> Ints:
        """Return the codes of all states that rules lead to from a first one, sorted.

        Each rule is computed on arrays of states, never state by state: on all combinations if
        there are few, otherwise breadth first.
        """
        moves = list(rules)
        width = len(self.ranges) + len(moves)
        if self.size * width <= _AT_ONCE:
            return self._reached_of_all(first, moves)
        most = min(MOST_STATES, _MOST_CELLS // width)
        reached: Ints = np.array([first], dtype=np.int64)
        frontier = reached
        for _ in range(_MOST_STEPS):
            new, count = [np.empty(0, dtype=np.int64)], len(reached)
            for part in np.array_split(frontier, 1 + len(frontier) * width // _AT_ONCE):
                columns = self.columns(part)
                targets = np.unique(np.concatenate([move(part, columns)[1] for move in moves]))
                place = np.searchsorted(reached, targets)
                targets = targets[np.append(reached, -1)[place] != targets]
                new.append(targets)
                count += len(targets)
                if count > most:  # some of them perhaps twice
                    new = [np.unique(np.concatenate(new))]
                    count = len(reached) + len(new[0])
                if count > most:
                    raise InputError(
                        f"the rules reach more than {most} states, the most for "
                        f"{len(self.ranges)} variables and {len(moves)} rules; narrow the ranges "
                        f"of variables, or forbid more with guards"
                    )
            frontier = np.unique(np.concatenate(new))
            if not len(frontier):
                return reached
            reached = np.insert(reached, np.searchsorted(reached, frontier), frontier)
        raise InputError(
            f"some states are more than {_MOST_STEPS} steps from the first state: narrow the "
            f"ranges of variables"
        )

    def _reached_of_all(self, first: int, moves: Sequence[Moves]) -> Ints:
        codes = np.arange(self.size)
        columns = self.columns(codes)
        ends = [move(codes, columns, strict=False) for move in moves]
        source, target = (np.concatenate(each) for each in zip(*ends, strict=True))
        graph = csr_array((np.ones(len(source)), (source, target)), shape=(self.size, self.size))
        found = breadth_first_order(graph, first, return_predecessors=False)
        return np.sort(found).astype(np.int64)
