"""From rules to states and edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models.rules._blame import about
from stationary.models.rules._description import Description
from stationary.models.rules._rule import Rule
from stationary.models.rules._space import Columns, Ints, Space, States, reached


def explored(given: Description) -> tuple[States, list[Ints], Edges, Tensor | None]:
    """Find the states that rules reach, and where they lead.

    Returns
    -------
    states : States
        In lexicographic order.
    sources : list of ndarray
        For every rule, the codes of the states in which it moves the chain.
    edges : Edges
        Where the chain may move; those of the rules in their order, if no two rules share one.
    where : Tensor or None
        The edge of each rule's moves, one rule after the other, if some share one.
    """
    space = given.space
    codes = reached(space, given.first, [partial(_moves, rule) for rule in given.rules])
    states = States(space, codes)
    sources: list[Ints] = []
    pairs: list[tuple[Ints, Ints]] = []
    for rule in given.rules:
        source, target = _moves(rule, space, codes, states.columns)
        moved = codes[source] != target
        source, target = source[moved], target[moved]
        sources.append(codes[source])
        pairs.append((source, np.searchsorted(codes, target)))
    src, dst = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    if not len(src):
        raise InputError(
            f"the rules never leave the first state, {states[0]}: no guard is true there; give "
            f"start= another one, or mend the guards"
        )
    edges, where = _edges(src, dst, len(codes))
    if not edges.strongly_connected:
        raise InputError(_reducible(edges, states))
    return states, sources, edges, where


def _moves(rule: Rule, space: Space, codes: Ints, columns: Columns) -> tuple[Ints, Ints]:
    with about("rules", rule.name):
        return rule.moves(space, codes, columns)


def _edges(src: Ints, dst: Ints, n: int) -> tuple[Edges, Tensor | None]:
    pairs = src * n + dst
    if np.diff(np.sort(pairs)).all():  # the usual case, for less than the inverse costs
        return Edges(torch.from_numpy(src), torch.from_numpy(dst), n), None
    unique, where = np.unique(pairs, return_inverse=True)
    one, other = np.divmod(unique, n)
    edges = Edges(torch.from_numpy(one), torch.from_numpy(other), n)
    return edges, torch.from_numpy(where)


def _reducible(edges: Edges, states: States) -> str:
    """Say which states the chain leaves for ever, or in which sets of them it may end."""
    src, dst = edges.numpy
    graph = scipy.sparse.coo_array((np.ones(len(src)), (src, dst)), shape=(edges.n, edges.n))
    count, label = scipy.sparse.csgraph.connected_components(graph, connection="strong")
    leaves = np.zeros(count, dtype=bool)
    leaves[label[src[label[src] != label[dst]]]] = True
    ends = np.flatnonzero(~leaves)
    if len(ends) > 1:
        sets = " or ".join(_some(states, np.flatnonzero(label == k)) for k in ends[:2].tolist())
        return (
            f"the chain has {len(ends)} ends that it never leaves, such as {sets}: its steady "
            f"state depends on which it finds; add rules that lead out of them"
        )
    transient = np.flatnonzero(label != ends[0])
    return (
        f"the chain leaves {_some(states, transient)} for ever, and ends in "
        f"{_some(states, np.flatnonzero(label == ends[0]))}: give start= a state it returns to, "
        f"or add rules that lead back"
    )


def _some(states: States, which: Ints | Sequence[int], most: int = 3) -> str:
    shown = "; ".join(states[int(k)] for k in which[:most])
    return "{" + shown + (f"; ... {len(which)} states" if len(which) > most else "") + "}"
