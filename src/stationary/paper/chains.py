"""The chains of the testbed's ladder: plain, with a leak to overload, with bursts."""

from __future__ import annotations

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
        "M/M/1/K, leak": _leaking({}, "n -= 1 at service"),
        "M/M/1/K, leak, reset": _leaking({"reset": 100.0}, "n = 0 at reset"),
        "bursts, 1 phase, stalls": bursts(1),
        **{f"bursts, {m} phases, stalls": bursts(m) for m in (2, 3, 4, 6, 8)},
    }


def bursts(phases: int, rate: float = _BURSTS) -> st.Model:
    """Return a chain of a server that stalls now and then, with arrivals in bursts.

    There are n requests, or the server is full (21) or has stalled (22). The period between bursts
    is Erlang with the given number of phases and rate; at its end the server is empty.
    """
    return st.models.RuleModel(
        variables={"n": (0, FULL + 1), "phase": (1, "phases")},
        constants={"phases": phases, "tick": phases * rate, "full": FULL},
        params={"service": 500.0, "stall": 3.0},
        rules={
            "arrive": "n < full -> n += 1 at load",
            "serve": "0 < n and n <= full -> n -= 1 at service",
            "stall": "n <= full -> n = full + 1 at stall",
            "tick": "phase < phases -> phase += 1 at tick",
            "burst": "phase = phases -> n = 0, phase = 1 at tick",
        },
        count="min(n, full)",
    )


def _leaking(params: dict[str, float], recover: str) -> st.Model:
    """Return M/M/1/K with a leak to overload from every state, and its own way back."""
    return st.models.RuleModel(
        variables={"n": (0, FULL)},
        constants={"full": FULL},
        params={"service": 500.0, "leak": 3.0} | params,
        rules={
            "arrive": "n < full -> n += 1 at load",
            "leak": "n < full - 1 -> n = full at leak",
            "serve": "0 < n and n < full -> n -= 1 at service",
            "recover": f"n = full -> {recover}",
        },
        count="n",
    )
