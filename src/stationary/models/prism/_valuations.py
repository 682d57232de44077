"""Names of states that are values of variables, ``s=0,q=3``, made when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Valuations(Sequence[str]):
    """The states of a chain by what its variables are in each.

    Parameters
    ----------
    variables : mapping
        For each variable its value in every state: whole numbers, or truth values.

    Examples
    --------
    >>> states = Valuations({"s": np.array([0, 1]), "up": np.array([True, False])})
    >>> states[1], states.index("s=1,up=false"), "s=1,up=true" in states
    ('s=1,up=false', 1, False)
    """

    def __init__(self, variables: Mapping[str, NDArray[Any]]) -> None:
        self._variables = dict(variables)
        self._n = len(next(iter(self._variables.values())))

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(self._n))]
        if not -self._n <= place < self._n:
            raise IndexError(place)
        return ",".join(f"{name}={written(v[place])}" for name, v in self._variables.items())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and len(self._places(name)) > 0

    def index(self, name: Any, start: int = 0, stop: int | None = None) -> int:
        """Position of the state of this name."""
        within = range(self._n)[start:stop]
        for place in self._places(str(name)).tolist():
            if place in within:
                return int(place)
        raise ValueError(f"{name!r} is no state")

    def _places(self, name: str) -> NDArray[np.intp]:
        """Positions of the states with these values: compared whole, since there may be many."""
        parts = [part.partition("=") for part in name.split(",")]
        if [key for key, _, _ in parts] != list(self._variables):
            return np.empty(0, dtype=np.intp)
        same = np.ones(self._n, dtype=bool)
        for (_, _, text), values in zip(parts, self._variables.values(), strict=True):
            known = {written(value): value for value in np.unique(values)}
            same &= values == known[text] if text in known else False
        return np.flatnonzero(same)


def written(value: Any) -> str:
    """Write a value as a PRISM file does: ``3``, ``true``."""
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else str(int(value))
