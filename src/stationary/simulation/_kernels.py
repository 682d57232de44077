"""Compiled simulation loops. Edges are sorted by source: state s leaves on ``first[s]:first[s+1]``.

Each loop takes a ``numpy.random.Generator``, so a seed fixes everything and nothing is global.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@numba.njit(cache=True)
def _move(first: Ints, target: Ints, rates: Floats, state: int, mark: float) -> int:
    """Where a mark on the stacked rates out of a state leads; past their end the chain stays."""
    for edge in range(first[state], first[state + 1]):
        mark -= rates[edge]
        if mark < 0.0:
            return int(target[edge])
    return state


@numba.njit(cache=True)
def count_events(
    first: Ints,
    target: Ints,
    rates: Floats,
    gamma: Floats,
    start: Ints,
    events: Ints,
    rng: Any,
    counts: Ints,
) -> None:
    """States of the uniformized chain at its start and at each of its events."""
    for window in range(len(start)):
        state = start[window]
        counts[window, state] += 1
        for _ in range(events[window]):
            mark = rng.random() * gamma[window]
            state = _move(first, target, rates[window], state, mark)
            counts[window, state] += 1


@numba.njit(cache=True)
def count_arrivals(
    first: Ints,
    target: Ints,
    rates: Floats,
    load: Floats,
    start: Ints,
    duration: float,
    rng: Any,
    counts: Ints,
) -> None:
    """States that arrivals find; ``rates`` holds the moves other than arrivals."""
    last = counts.shape[1] - 1
    for window in range(len(start)):
        state = start[window]
        time = 0.0
        while True:
            other = 0.0
            for edge in range(first[state], first[state + 1]):
                other += rates[window, edge]
            total = load[window] + other
            time += rng.standard_exponential() / total
            if time >= duration:
                break
            mark = rng.random() * total - load[window]
            if mark < 0.0:
                counts[window, state] += 1
                state = min(state + 1, last)
            else:
                state = _move(first, target, rates[window], state, mark)


@numba.njit(cache=True)
def walk(
    first: Ints, target: Ints, rates: Floats, start: int, duration: float, rng: Any
) -> tuple[Floats, Ints]:
    """One path: the times of its jumps, from 0, and the state from each of them on."""
    room = 1024
    times = np.zeros(room, dtype=np.float64)
    states = np.zeros(room, dtype=np.int64)
    states[0] = start
    state, time, jumps = start, 0.0, 1
    while True:
        total = 0.0
        for edge in range(first[state], first[state + 1]):
            total += rates[edge]
        if total == 0.0:
            break
        time += rng.standard_exponential() / total
        if time >= duration:
            break
        after = _move(first, target, rates, state, rng.random() * total)
        if after == state:  # the mark fell past the end by rounding: the time was still spent
            continue
        if jumps == room:
            room *= 2
            more_times = np.zeros(room, dtype=np.float64)
            more_states = np.zeros(room, dtype=np.int64)
            more_times[:jumps] = times
            more_states[:jumps] = states
            times, states = more_times, more_states
        state = after
        times[jumps] = time
        states[jumps] = state
        jumps += 1
    return times[:jumps].copy(), states[:jumps].copy()


@numba.njit(cache=True)
def serve(arrival: Floats, service: Floats, servers: int, capacity: int) -> Floats:
    """Response times of requests, first come, first served; NaN for those that find no room."""
    response = np.empty(len(arrival))
    free = np.zeros(servers)  # when each server is
    leaves = np.empty(capacity)  # when those inside leave
    inside = 0
    for i in range(len(arrival)):
        staying = 0
        for k in range(inside):
            if leaves[k] > arrival[i]:
                leaves[staying] = leaves[k]
                staying += 1
        inside = staying
        if inside == capacity:
            response[i] = np.nan
            continue
        first = free.argmin()
        free[first] = max(arrival[i], free[first]) + service[i]
        leaves[inside] = free[first]
        inside += 1
        response[i] = free[first] - arrival[i]
    return response
