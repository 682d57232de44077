"""The chains of the testbed's ladder: plain, with a leak to overload, with bursts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import stationary as st

FULL = 21
"""Estimated queue sizes from here on count as overload."""

_BURSTS = 100.0
"""Bursts per second. Not fitted: the training windows show a period of 10 to 12 ms (`facts`)."""


def candidates() -> dict[str, st.Model]:
    """Return the chains of the ladder: the paper's, chains with a leak, chains with bursts.

    All of them count queue sizes 0 to 20 and, as 21, overload.
    """
    return {
        "M/M/1/K": st.models.MMmK(servers=1, capacity=FULL),
        "M/M/1/K, leak": _leaking(resets=False),
        "M/M/1/K, leak, reset": _leaking(resets=True),
        "bursts, 1 phase, stalls": bursts(1),
        **{f"bursts, {m} phases, stalls": bursts(m) for m in (2, 3, 4, 6, 8)},
    }


def bursts(phases: int, rate: float = _BURSTS) -> st.Model:
    """Return a chain of a server that stalls now and then, with arrivals in bursts.

    In state ``n.j`` there are n requests, or the server is ``full`` or ``stalled``; j is the phase
    of the clock between bursts, whose period is Erlang with the given number of phases and rate.
    At the end of a period the burst is over and the server is empty.
    """
    levels = [*range(FULL), "full", "stalled"]
    stalled = len(levels) - 1
    moves: list[tuple[int, int]] = []
    kinds: list[int] = []

    def move(source: tuple[int, int], target: tuple[int, int], kind: int) -> None:
        moves.append((source[0] * phases + source[1], target[0] * phases + target[1]))
        kinds.append(kind)

    for n in range(len(levels)):
        for j in range(phases):
            last = j == phases - 1
            if n < FULL:
                move((n, j), (n + 1, j), 0)
            if 1 <= n <= FULL:
                # With one phase both service and clock lead from 1 to 0: one edge has both rates.
                move((n, j), (n - 1, j), 4 if last and phases == 1 and n == 1 else 1)
            if n < stalled:
                move((n, j), (stalled, j), 2)
            if not last:
                move((n, j), (n, j + 1), 3)
            elif (n, j) != (0, 0) and not (phases == 1 and n == 1):
                move((n, j), (0, 0), 3)
    kind = torch.tensor(kinds)

    def rates(load: Tensor, p: Any) -> Tensor:
        clock = torch.full_like(load, phases * rate)
        each = torch.broadcast_tensors(load, p.service, p.stall, clock, p.service + clock)
        return torch.cat(each, -1)[..., kind]

    return st.models.FromFunction(
        rates,
        states=[f"{n}.{j + 1}" for n in levels for j in range(phases)],
        params={"service": 500.0, "stall": 3.0},
        edges=moves,
        groups=[min(n, FULL) for n in range(len(levels)) for _ in range(phases)],
    )


def _leaking(resets: bool) -> st.Model:
    """Return M/M/1/K with a leak to overload from every state; service or a reset to 0 ends it."""
    n = FULL + 1
    up = [(k, k + 1) for k in range(n - 1)]
    down = [(k, k - 1) for k in range(1, n - 1)] + [(n - 1, 0 if resets else n - 2)]
    leak = [(k, n - 1) for k in range(n - 2)]

    kind = torch.tensor([0] * (n - 1) + [1] * (n - 2) + [3 if resets else 1] + [2] * (n - 2))

    def rates(load: Tensor, p: Any) -> Tensor:
        each = torch.broadcast_tensors(load, p.service, p.leak, *([p.reset] if resets else []))
        return torch.cat(each, -1)[..., kind]

    params = {"service": 500.0, "leak": 3.0} | ({"reset": 100.0} if resets else {})
    return st.models.FromFunction(rates, states=n, params=params, edges=up + down + leak)
