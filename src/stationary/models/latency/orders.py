"""How a request moves through a queue: the tagged request's chain for each order of service.

Every state of the whole system has a *level*, the number of requests in it. An edge to a higher
level brings requests, an edge to a lower one takes some away; which of them go is the order of
service. A chain of requests that are served in order knows the system's state and how many requests
must leave before the tagged one is served, because those behind it may change the speed.
"""

from __future__ import annotations

import numpy as np

from stationary._support.types import Array
from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models.latency.tagged import Tagged

_MOST = 2_000_000
"""Most moves of a tagged request's chain."""


def processor_sharing(edges: Edges, levels: Array) -> Tagged:
    """Follow a request that shares the service with all others: each is as likely to leave."""
    src, dst = edges.src.numpy(), edges.dst.numpy()
    inside = np.flatnonzero(levels > 0)
    place = np.cumsum(levels > 0) - 1
    before, after = levels[src], levels[dst]
    leaves = np.maximum(before - after, 0) / np.maximum(before, 1)
    stays = np.flatnonzero((before > 0) & (leaves < 1))
    ends = np.flatnonzero((before > 0) & (leaves > 0))
    edge = np.concatenate([stays, ends])
    target = np.concatenate([place[dst[stays]], np.full(len(ends), len(inside))])
    up = np.flatnonzero(after > before)
    return Tagged(
        inside,
        np.stack([place[src[edge]], target, edge]),
        np.concatenate([1 - leaves[stays], leaves[ends]]),
        up,
        place[dst[up]],
        (after - before)[up].astype(float),
    )


class InOrder:
    """The chain of a request that is served in order of arrival.

    The oldest requests are in service, one at each server, and each of them is as likely to leave
    next. At one server that takes several requests away at once, the oldest go.

    Parameters
    ----------
    edges : Edges
        Of the whole system's chain.
    levels : ndarray [n]
        Requests in each of its states.
    servers : int
        Number of servers.
    waiting : bool
        Whether the time ends when the request's service begins, not when it is served.
    behind : bool
        Whether those behind may change the speed. Otherwise they are left out, which leaves a chain
        as large as that of the whole system.
    """

    def __init__(
        self, edges: Edges, levels: Array, servers: int, waiting: bool, behind: bool = True
    ) -> None:
        self.levels, self.servers, self.waiting, self.behind = levels, servers, waiting, behind
        self.edges = list(zip(edges.src.tolist(), edges.dst.tolist(), strict=True))
        # How many must leave before the tagged request is served: at most, and at least.
        self.most = np.maximum(levels - servers, 0)
        self.least = np.zeros_like(levels) if behind else self.most
        if waiting:
            self.least = np.maximum(self.least, 1)
        count = np.where(levels > 0, np.maximum(self.most - self.least + 1, 0), 0)
        self.first = np.cumsum(count) - count
        self.system = np.repeat(np.arange(len(levels)), count)
        moves = int(count[edges.src.numpy()].sum())
        if moves > _MOST:
            raise InputError(
                f"response times of this model need a chain of {moves} moves, more than {_MOST}; "
                f"take a smaller capacity, or discipline='ps'"
            )

    def place(self, state: int, ahead: Array) -> Array:
        """Return states of the tagged request: the end, where its service ends the time."""
        at = self.first[state] + ahead - self.least[state]
        return np.where(ahead < self.least[state], len(self.system), at)

    def chain(self) -> Tagged:
        """Build the chain."""
        end = len(self.system)
        moves: list[tuple[Array, Array, int, float]] = []
        starts: list[tuple[int, Array]] = []
        for edge, (i, j) in enumerate(self.edges):
            before, after = int(self.levels[i]), int(self.levels[j])
            if after > before:
                new = np.maximum(np.arange(before, after) + 1 - self.servers, 0)
                starts.append((edge, self.place(j, new)))
            ahead = np.arange(self.least[i], self.most[i] + 1) if before else np.arange(0)
            if not len(ahead) or (after > before and not self.behind):
                continue
            here = self.place(i, ahead)
            leave = before - after
            if leave <= 0:
                moves.append((here, self.place(j, ahead), edge, 1.0))
                continue
            if after and leave > 1 and self.servers > 1:
                raise InputError(
                    "requests that leave several at a time from several servers have no order of "
                    "service; use discipline='ps'"
                )
            waits = ahead > 0
            goes = after == 0 or self.servers == 1
            share = 1.0 if goes else 1 / min(before, self.servers)
            in_service = here[~waits]
            moves.append((in_service, np.full(len(in_service), end), edge, share))
            if share < 1:
                moves.append((in_service, self.place(j, ahead[~waits]), edge, 1 - share))
            left = ahead[waits] - leave
            gone = (left < 0) | (after == 0)
            moves.append((here[waits][gone], np.full(gone.sum(), end), edge, 1.0))
            moves.append((here[waits][~gone], self.place(j, left[~gone]), edge, 1.0))
        source, target, edges, parts = zip(*moves, strict=True)
        sizes = [len(each) for each in source]
        arriving = np.repeat([edge for edge, _ in starts], [len(to) for _, to in starts])
        return Tagged(
            self.system,
            np.stack([np.concatenate(source), np.concatenate(target), np.repeat(edges, sizes)]),
            np.repeat(parts, sizes),
            arriving,
            np.concatenate([to for _, to in starts]),
            np.ones(len(arriving)),
        )
