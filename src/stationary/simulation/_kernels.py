"""Compiled simulation loops. Edges are sorted by source: state s leaves on ``first[s]:first[s+1]``.

Each loop takes a ``numpy.random.Generator``, so a seed fixes everything and nothing is global.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from stationary._support.types import Array


@numba.njit(cache=True)
def _exit_rate(first: Array, rates: Array, state: int) -> float:
    total = 0.0
    for edge in range(first[state], first[state + 1]):
        total += rates[edge]
    return total


@numba.njit(cache=True)
def _move(first: Array, target: Array, rates: Array, state: int, mark: float) -> int:
    """Where a mark on the stacked rates out of a state leads; past their end the chain stays."""
    for edge in range(first[state], first[state + 1]):
        mark -= rates[edge]
        if mark < 0.0:
            return int(target[edge])
    return state


@numba.njit(cache=True)
def count_events(
    first: Array, target: Array, rates: Array, gamma: Array, start: Array, events: Array, rng: Any
) -> Array:
    """Count states of the uniformized chain at its start and at each of its events."""
    counts = np.zeros((len(start), len(first) - 1), dtype=np.int64)
    for window in range(len(start)):
        state = start[window]
        counts[window, state] += 1
        for _ in range(events[window]):
            mark = rng.random() * gamma[window]
            state = _move(first, target, rates[window], state, mark)
            counts[window, state] += 1
    return counts


@numba.njit(cache=True)
def count_arrivals(
    first: Array, target: Array, rates: Array, load: Array, start: Array, duration: float, rng: Any
) -> Array:
    """Count the states that arrivals find; ``rates`` holds the moves other than arrivals."""
    counts = np.zeros((len(start), len(first) - 1), dtype=np.int64)
    for window in range(len(start)):
        state = start[window]
        time = 0.0
        while True:
            total = load[window] + _exit_rate(first, rates[window], state)
            time += rng.standard_exponential() / total
            if time >= duration:
                break
            mark = rng.random() * total - load[window]
            if mark < 0.0:
                counts[window, state] += 1
                state = min(state + 1, len(first) - 2)  # in the last state it is lost
            else:
                state = _move(first, target, rates[window], state, mark)
    return counts


@numba.njit(cache=True)
def walk(
    first: Array, target: Array, rates: Array, start: int, duration: float, rng: Any
) -> tuple[Array, Array]:
    """One path: the times of its jumps, from 0, and the state from each of them on."""
    times, states = np.zeros(1024), np.zeros(1024, dtype=np.int64)
    states[0] = state = start
    time, jumps = 0.0, 1
    while True:
        total = _exit_rate(first, rates, state)
        if total == 0.0:
            break
        time += rng.standard_exponential() / total
        if time >= duration:
            break
        after = _move(first, target, rates, state, rng.random() * total)
        if after == state:  # the mark fell past the end by rounding: the time was still spent
            continue
        if jumps == len(times):
            times = np.concatenate((times, np.zeros_like(times)))
            states = np.concatenate((states, np.zeros_like(states)))
        state = after
        times[jumps] = time
        states[jumps] = state
        jumps += 1
    return times[:jumps].copy(), states[:jumps].copy()


@numba.njit(cache=True)
def serve(arrival: Array, service: Array, servers: int, capacity: int) -> Array:
    """Response times, first come, first served; NaN for requests that find the system full."""
    response = np.full(len(arrival), np.nan)
    free_at = np.zeros(servers)  # when each server is free
    leaves = np.empty(capacity)  # when the requests in the system leave
    inside = 0
    for i in range(len(arrival)):
        staying = 0
        for k in range(inside):
            if leaves[k] > arrival[i]:
                leaves[staying] = leaves[k]
                staying += 1
        inside = staying
        if inside == capacity:
            continue
        server = free_at.argmin()
        free_at[server] = max(arrival[i], free_at[server]) + service[i]
        leaves[inside] = free_at[server]
        inside += 1
        response[i] = free_at[server] - arrival[i]
    return response


@numba.njit(cache=True)
def respond(
    chain: tuple[Array, Array, Array, Array],
    rates: Array,
    refused: Array,
    order: tuple[int, bool],
    start: Array,
    spans: tuple[Array, float],
    overhead: Array,
    edges: Array,
    rng: Any,
) -> tuple[Array, Array]:
    """States that requests find, and response times of those served by bucket, in every window.

    The chain has the first edge and the target of each, the requests in each state, and for each
    edge and window the share of the requests that leave on it unserved. Every request is known by
    when it arrived; the oldest are served, or any one where all share. Windows begin after a lead,
    so that those that were there at its start are gone.
    """
    first, target, levels, unserved = chain
    servers, sharing = order
    lead, duration = spans
    found = np.zeros((len(start), len(first) - 1), dtype=np.int64)
    buckets = np.zeros((len(start), len(edges) + 1), dtype=np.int64)
    since = np.empty(levels.max() + 1)
    for window in range(len(start)):
        state, time = start[window], -lead[window]
        since[:] = np.nan
        while True:
            total = _exit_rate(first, rates[window], state) + refused[window, state]
            time += rng.standard_exponential() / total
            if time >= duration:
                break
            mark = rng.random() * total - refused[window, state]
            if mark < 0.0:
                if time >= 0.0:
                    found[window, state] += 1
                continue
            edge = first[state]
            while edge < first[state + 1] - 1 and mark >= rates[window, edge]:
                mark -= rates[window, edge]
                edge += 1
            inside = levels[state]
            for _ in range(levels[target[edge]] - inside):
                since[inside] = time
                inside += 1
                if time >= 0.0:
                    found[window, state] += 1
            for _ in range(inside - levels[target[edge]]):
                who = int(rng.random() * (inside if sharing else min(inside, servers)))
                took = time - since[who]
                inside -= 1
                for k in range(who, inside):
                    since[k] = since[k + 1]
                since[inside] = np.nan
                if time >= 0.0 and took == took and rng.random() >= unserved[window, edge]:
                    took += overhead[window] * (0.9 + 0.2 * rng.random())
                    buckets[window, np.searchsorted(edges, took)] += 1
            state = target[edge]
    return found, buckets
