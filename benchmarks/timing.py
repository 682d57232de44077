"""Fair timing on a noisy machine: rivals take turns, medians are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from statistics import median

_TURN = 0.02
"""Seconds a rival keeps the machine: in use, too, a fit finds its caches warm."""


def compare(
    rivals: dict[str, Callable[[], object]],
    seconds: float = 2.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each function, called in turn until time is up (at least five times)."""
    for function in rivals.values():
        function()  # compiles, fills caches
    times: dict[str, list[float]] = {name: [] for name in rivals}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times[next(iter(times))]) < 5:
        for name, function in rivals.items():
            turn = clock() + _TURN
            while True:
                began = clock()
                function()
                ended = clock()
                times[name].append(ended - began)
                if ended > turn:
                    break
    return {name: median(values) for name, values in times.items()}


def milliseconds(seconds: float) -> str:
    """Three significant digits of a time in ms."""
    return f"{1e3 * seconds:#.3g}"


def table(title: str, header: list[str], rows: Iterable[list[str]]) -> None:
    """Print a Markdown table, each row as soon as it is there."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("| " + " | ".join("---" for _ in header) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
