"""How a request moves: the tagged request's chain for each order of service.

Requests are at *stations*; a plain queue is one of them. Every state of the whole system says how
many are at each. A move of the system to a state with fewer requests at a station takes some away
from there; which of them go is the station's order of service. The chain of the tagged request
knows the system's state, the station, and how many requests must leave it before the tagged one is
served, because those behind may change the speed. Where a station serves all its requests at once,
as in processor sharing, each of them is as likely to go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stationary._support.types import Array
from stationary.errors import InputError
from stationary.models.latency.tagged import Tagged

_MOST = 2_000_000
"""Most moves of a tagged request's chain."""

SHARED = 10**9
"""Servers of a station that works on all its requests at once."""


class Moves(NamedTuple):
    """Moves of the whole system, ``[E]`` each: edges, or several kinds of moves on one edge."""

    source: Array
    target: Array
    arriving: Array
    """Whether it brings requests from outside."""
    unserved: Array
    """Whether requests that it takes away leave unserved, each of the station as likely."""
    to: Array
    """Where a single request goes that leaves a station; -1 if out of the system."""


def queue_moves(source: Array, target: Array, levels: Array) -> Moves:
    """Moves of one queue that has ``levels [n]`` requests: up they arrive, down they leave."""
    arriving, out = levels[target] > levels[source], np.full(len(source), -1)
    return Moves(source, target, arriving, np.zeros_like(arriving), out)


@dataclass(eq=False)
class Follower:
    """Follows a request from station to station.

    At a station the oldest requests are in service, one at each server, and each of them is as
    likely to leave next. One server that lets several go at once lets the oldest go.

    """

    moves: Moves
    levels: Array
    """Requests at each station in every state, ``[stations, n]``."""
    servers: Sequence[int]
    """Of each station, or `SHARED`."""
    waiting: bool = False
    """Whether the time ends when the request's service begins, not when it is served."""
    behind: bool = True
    """Whether those behind may change the speed. Without them the chain is smaller."""
    _parts: list[tuple[Array, Array, Array, Array]] = field(default_factory=list)
    _dropped: list[tuple[Array, Array, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # How many must leave before the tagged request is served: at most, and at least.
        self.most = np.maximum(self.levels - np.array(self.servers)[:, None], 0)
        self.least = np.zeros_like(self.levels) if self.behind else self.most
        if self.waiting:
            self.least = np.maximum(self.least, 1)
        count = np.where(self.levels > 0, np.maximum(self.most - self.least + 1, 0), 0)
        self.count = count
        self.first = np.cumsum(count).reshape(count.shape) - count
        self.system = np.repeat(np.tile(np.arange(count.shape[1]), len(count)), count.ravel())
        moves = int(count[:, self.moves.source].sum())
        if moves > _MOST:
            raise InputError(
                f"response times of this model need a chain of {moves} moves, more than {_MOST}; "
                f"take a smaller capacity, or the discipline 'ps'"
            )

    def chain(self) -> Tagged:
        """Build the chain."""
        starts = [self._starts(station) for station in range(len(self.servers))]
        for station in range(len(self.servers)):
            self._follow(station)
        here, there, edge, part = (np.concatenate(a) for a in zip(*self._parts, strict=True))
        some = part > 0
        arriving, first = (np.concatenate(a) for a in zip(*starts, strict=True))
        return Tagged(
            self.system,
            np.stack([here, there, edge])[:, some],
            part[some],
            arriving,
            first,
            *(np.concatenate(a) for a in zip(*self._dropped, strict=True)),
        )

    def _place(self, station: Array | int, state: Array, ahead: Array) -> Array:
        """Return states of the tagged request: the end, where its service ends the time."""
        least = self.least[station, state]
        at = self.first[station, state] + ahead - least
        return np.where(ahead < least, len(self.system), at)

    def _starts(self, station: int) -> tuple[Array, Array]:
        """Moves on which requests arrive at a station, and where they start."""
        before, after = (self.levels[station, ends] for ends in self.moves[:2])
        number = np.where(self.moves.arriving, np.maximum(after - before, 0), 0)
        move = np.repeat(np.arange(len(number)), number)
        older = before[move] + _counted(number)
        ahead = np.maximum(older + 1 - self.servers[station], 0)
        return move, self._place(station, self.moves.target[move], ahead)

    def _follow(self, station: int) -> None:
        """Add what each move of the system does to a request at a station."""
        source, target, _, unserved, to = self.moves
        number = self.count[station, source]
        move = np.repeat(np.arange(len(source)), number)
        i, j = source[move], target[move]
        ahead = self.least[station, i] + _counted(number)
        before, after = self.levels[station, i], self.levels[station, j]
        leave, here = before - after, self._place(station, i, ahead)
        serving = np.minimum(before, self.servers[station])

        def add(where: Array, there: Array, part: Array | float) -> None:
            parts = np.broadcast_to(part, where.shape)
            self._parts.append((here[where], there[where], move[where], parts[where]))

        def moved(ahead: Array) -> Array:
            return self._place(station, j, ahead)

        add((leave < 0) & self.behind | (leave == 0), moved(ahead), 1.0)
        some, lost = leave > 0, unserved[move]
        unclear = some & (leave > 1) & (after > 0) & (serving < before)
        if bool((unclear & (lost | (serving > 1))).any()):
            raise InputError(
                "requests that leave several at a time from several servers have no order of "
                "service; use the discipline 'ps'"
            )
        end, entered = np.full(len(move), len(self.system)), to[move]
        new = np.maximum(self.levels[entered, i] + 1 - np.array(self.servers)[entered], 0)
        out = np.where(entered < 0, end, self._place(entered, j, new))
        # Several that leave one server are the oldest; of several in service each may be next.
        first = some & ~lost & (ahead == 0)
        share = np.where(serving == 1, 1.0, np.minimum(leave / np.maximum(serving, 1), 1.0))
        add(first, out, share)
        add(first, moved(ahead), 1 - share)
        later = some & ~lost & (ahead > 0)
        gone = (leave > ahead) | (after == 0)
        add(later & gone, out, 1.0)
        add(later & ~gone, moved(ahead - leave), 1.0)
        # One that is unserved may be the tagged one, an older one, or one behind it.
        lost = lost & some
        dropped = leave / np.maximum(before, 1)
        one = (ahead > 0) & (after > 0)
        older = ahead + serving - 1
        add(lost, end, dropped)
        add(lost & one, moved(ahead - 1), older * dropped)
        add(lost, moved(ahead), np.where(one, (before - 1 - older) * dropped, 1 - dropped))
        self._dropped.append((here[lost], move[lost], dropped[lost]))


def _counted(number: Array) -> Array:
    """Count 0, 1, ... up to each number, one after the other."""
    return np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
