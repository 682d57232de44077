"""A fit of the demo's data with its intervals, and a bootstrap of 200 refits."""

from __future__ import annotations

import time

from benchmarks.timing import table
from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
from stationary.models import MMmK
from stationary.planner import fit

REFITS = 200


def main() -> None:
    """Print seconds of each step, and as a multiple of the fit."""
    light = recording().between(None, LIGHT).observing(OBSERVED)
    fit(MMmK(servers=1, capacity=CAPACITY), light)  # compiles
    loads = [float(x) for x in range(300, 5001, 100)]
    steps = {}
    began = time.perf_counter()

    def done(name: str) -> None:
        nonlocal began
        steps[name] = time.perf_counter() - began
        began = time.perf_counter()

    result = fit(MMmK(servers=1, capacity=CAPACITY), light)
    done("fit, 3 starts, with covariance")
    result.forecast(loads)
    result.max_load(loss=0.001)
    done("forecast at 48 loads, horizon and limit")
    drawn = result.bootstrap(REFITS)
    done(f"bootstrap, {REFITS} refits")
    drawn.forecast(loads)
    drawn.max_load(loss=0.001)
    done("its forecast and limit")
    whole = sum(steps.values())
    first = next(iter(steps.values()))
    rows = [[name, f"{spent:.3f}", f"{spent / first:.1f}"] for name, spent in steps.items()]
    rows.append(["all", f"{whole:.3f}", f"{whole / first:.1f}"])
    table("Intervals and a bootstrap on the demo's data", ["step", "s", "over the fit"], rows)
