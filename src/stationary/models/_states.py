"""States by name, by position, and by the group that people count them in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from stationary.errors import InputError


class NamedStates:
    """Looks up states, and the ``groups`` by which people count them; a part of `Model`."""

    states: Sequence[Any]
    groups: Any

    def _name_states(self, states: Sequence[Any] | int, groups: Sequence[Any] | None) -> None:
        states = range(states) if isinstance(states, int) else states
        if isinstance(states, list | tuple | range):
            states = tuple(map(str, states))
            if len(set(states)) != len(states):
                raise InputError(
                    f"a model needs different names of its states; got {len(states)}, "
                    f"{len(set(states))} of them different"
                )
        self.states = states
        grouped = states if groups is None else tuple(map(str, groups))
        self.groups = states if grouped == states else grouped
        if len(grouped) != len(states):
            raise InputError(f"groups= must name {len(states)} states; got {len(grouped)} names")

    @property
    def visible(self) -> Sequence[str]:
        """What people count: the groups of states, or the states where there are none."""
        return self.states if self.groups is self.states else self._group_names

    @cached_property
    def _group_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.groups))

    @cached_property
    def group_index(self) -> np.ndarray[Any, Any]:
        """For each state, the position in `visible` of its group, ``[n]``."""
        if self.visible is self.states:
            return np.arange(len(self.states))
        place = {name: k for k, name in enumerate(self.visible)}
        return np.fromiter((place[name] for name in self.groups), np.int64, len(self.groups))

    @cached_property
    def _members(self) -> dict[str, np.ndarray[Any, Any]]:
        """Positions of the states of every group."""
        ends = np.bincount(self.group_index).cumsum()[:-1]
        parts = np.split(self.group_index.argsort(kind="stable"), ends)
        return dict(zip(self.visible, parts, strict=True))

    @cached_property
    def _places(self) -> dict[str, int]:
        """Positions of states by name: windows name thousands of them, and a search takes long."""
        return {name: k for k, name in enumerate(self.states)}

    def _place(self, name: str) -> int | None:
        if isinstance(self.states, tuple):
            return self._places.get(name)
        # Names that are made on demand know their own places.
        return self.states.index(name) if name in self.states else None

    def states_of(self, name: int | str) -> list[int]:
        """Positions of the states that a name stands for: one state, or all of a group."""
        if self._place(str(name)) is not None:
            return [self.state_index(name)]
        if str(name) in self._members:
            return self._members[str(name)].tolist()
        if str(name).endswith("+") and str(name)[:-1].isdecimal():
            names = (group for group in self.visible if group.isdecimal())
            some = [group for group in names if int(group) >= int(str(name)[:-1])]
            if some:
                return [place for group in some for place in self.states_of(group)]
        return [self.state_index(name)]

    def state_index(self, state: int | str) -> int:
        """Position of a state given by name, or by position where states are not grouped."""
        name, first, last = str(state), self.states[0], self.states[-1]
        grouped = self.groups is not self.states
        place = self._place(name) if grouped or isinstance(state, str) else None
        if place is not None:
            return place
        if grouped and name in self.groups:
            some = [self.states[k] for k in self.states_of(name)]
            raise InputError(
                f"{name!r} is several states of the model: name one of {', '.join(some)}"
            )
        if grouped:  # a position could be mistaken for a queue length, so only names count
            raise InputError(
                f"state {name!r} is not in the model: its states are {first}..{last}, counted as "
                f"{self.visible[0]}..{self.visible[-1]}"
            )
        is_position = name.isdecimal() and not isinstance(state, bool)
        if not is_position or int(name) >= len(self.states):
            raise InputError(
                f"state {state!r} is not in the model: its {len(self.states)} states are "
                f"{first}..{last}"
            )
        return int(name)
