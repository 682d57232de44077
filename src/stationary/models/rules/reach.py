"""From rules to states and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError, ReducibleError
from stationary.generator import Generator
from stationary.models.rules.description import Description
from stationary.models.rules.rule import Rule
from stationary.models.rules.states import Ints, States

Move = tuple[Ints, Ints]
"""Positions of the states in which a rule applies, and of those to which it leads."""


def explored(given: Description) -> tuple[States, dict[str, Move]]:
    """Return the states that rules reach, and for each rule where it applies and leads."""
    space, rules = given.space, given.parsed_rules
    moves = {rule.name: partial(rule.moves, space) for rule in rules}
    codes = space.reached(given.first, moves.values())
    states = States(space.columns(codes))
    found = {}
    for name, move in moves.items():
        source, target = move(codes, states.columns)
        found[name] = source, np.searchsorted(codes, target)
    return states, found


def unmoved(rule: Rule, move: Move, n: int) -> Ints:
    """Return the states in which a rule happens, or refuses a request, and nothing moves."""
    source, target = move
    stays = source[source == target]
    if not rule.refuses:
        return stays
    return np.union1d(stays, np.setdiff1d(np.arange(n), source))


def edges_of(
    moves: Mapping[str, Move], states: States
) -> tuple[dict[str, Ints], Edges, Tensor | None]:
    """Return where each rule moves the chain, the edges, and the edge of each of these moves.

    Unless two rules share an edge, the moves of all rules, in their order, are the edges, and the
    edge of each move is given as None.
    """
    n = len(states)
    sources, codes = {}, []
    for name, (source, target) in moves.items():
        moved = source != target
        sources[name] = source[moved]
        codes.append(source[moved] * n + target[moved])
    pairs = np.concatenate(codes)
    if not len(pairs):
        raise InputError(
            f"the rules never leave the first state, {states[0]}: no guard is true there; give "
            f"start= another one, or correct the guards"
        )
    where = None
    if not np.diff(np.sort(pairs)).all():  # the usual case costs less than the inverse
        pairs, inverse = np.unique(pairs, return_inverse=True)
        where = torch.from_numpy(inverse)
    src, dst = (torch.from_numpy(ends) for ends in np.divmod(pairs, n))
    edges = Edges(src, dst, n)
    try:
        Generator(edges, torch.ones(len(edges), dtype=torch.float64)).check_irreducible()
    except ReducibleError as error:
        raise InputError(_reducible(error, states)) from None
    return sources, edges, where


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
