"""Fair timing on a noisy machine: rivals take turns, medians are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def compare(rivals: dict[str, Callable[[], object]], seconds: float = 2.0) -> dict[str, float]:
    """Median seconds of each function, called in turn until time is up (at least five times)."""
    for function in rivals.values():
        function()  # compiles, fills caches
    times: dict[str, list[float]] = {name: [] for name in rivals}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times[next(iter(times))]) < 5:
        for name, function in rivals.items():
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in times.items()}


def milliseconds(seconds: float) -> str:
    """Three significant digits of a time in ms."""
    return f"{1e3 * seconds:#.3g}"


def table(title: str, header: list[str], rows: list[list[str]]) -> None:
    """Print a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("| " + " | ".join("---" for _ in header) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
