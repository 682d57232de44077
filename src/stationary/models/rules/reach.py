"""From rules to states and edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError, ReducibleError
from stationary.generator import Generator
from stationary.models.rules.rule import Rule
from stationary.models.rules.states import Ints, Space, States


class Applied(NamedTuple):
    """A rule, the positions of the states in which it applies, and of those to which it leads."""

    rule: Rule
    source: Ints
    target: Ints

    @property
    def moves(self) -> tuple[Ints, Ints]:
        """Both positions, where the rule changes the state."""
        moved = self.source != self.target
        return self.source[moved], self.target[moved]

    def stays(self, n: int) -> Ints:
        """States out of n in which it happens, or refuses a request, and nothing moves."""
        stays = self.source[self.source == self.target]
        if not self.rule.refuses:
            return stays
        return np.union1d(stays, np.setdiff1d(np.arange(n), self.source))


def explored(space: Space, first: int, rules: Sequence[Rule]) -> tuple[States, list[Applied]]:
    """Return the states that rules reach, and for each rule where it applies and leads."""
    codes = space.reached(first, [partial(rule.moves, space) for rule in rules])
    states, applied = States(space.columns(codes)), []
    for rule in rules:
        source, target = rule.moves(space, codes, states.columns)
        applied.append(Applied(rule, source, np.searchsorted(codes, target)))
    return states, applied


def edges_of(applied: Sequence[Applied], states: States) -> tuple[Edges, Tensor]:
    """Return the edges, and for each move of the rules, in their order, the edge that it takes."""
    n = len(states)
    moves = [each.moves for each in applied]
    pairs = np.concatenate([source * n + target for source, target in moves])
    if not len(pairs):
        raise InputError(
            f"the rules never leave the first state, {states[0]}: no guard is true there; give "
            f"start= another one, or correct the guards"
        )
    pairs, which = np.unique(pairs, return_inverse=True)
    src, dst = (torch.from_numpy(ends) for ends in np.divmod(pairs, n))
    return Edges(src, dst, n), torch.from_numpy(which)


def check_irreducible(edges: Edges, states: States) -> None:
    """Raise unless the chain returns to all of its states."""
    try:
        Generator(edges, torch.ones(len(edges), dtype=torch.float64)).check_irreducible()
    except ReducibleError as error:
        raise InputError(_reducible(error, states)) from None


def _reducible(error: ReducibleError, states: States) -> str:
    """Say which states the chain leaves for ever, or in which sets of them it may end."""
    if len(error.closed) > 1:
        sets = " or ".join(_some(states, closed) for closed in error.closed[:2])
        return (
            f"the chain has {len(error.closed)} sets of states that it never leaves, such as "
            f"{sets}: its steady state depends on which it reaches; add rules that lead out of them"
        )
    return (
        f"the chain leaves {_some(states, error.transient)} for ever, and ends in "
        f"{_some(states, error.closed[0])}: give start= a state it returns to, or add rules that "
        f"lead back"
    )


def _some(states: States, which: Sequence[int], most: int = 3) -> str:
    shown = "; ".join(states[k] for k in which[:most])
    return "{" + shown + (f"; ... {len(which)} states" if len(which) > most else "") + "}"
