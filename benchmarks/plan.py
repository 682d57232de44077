"""How long a planner waits: from an access log of 100,000 requests to an answer and a report."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import table

SYSTEM = "mmmk:servers=4,capacity=68"
LINES = 100_000


def main() -> None:
    command = str(Path(sys.executable).with_name("stationary"))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "requests.csv")
        simulated = (f"{SYSTEM},service_rate=30", "--x", "20:80:10", "--windows", "7")
        subprocess.run(
            [
                *(command, "simulate", *simulated, "--duration", "60"),
                *("--scheme", "requests", "-o", str(log)),
            ],
            check=True,
            capture_output=True,
        )
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True)[: LINES + 1]
        log.write_text("".join(lines), encoding="utf-8")
        asked = ("--servers", "4", "--capacity", "68", "--slo", "p99<200ms", "--slo", "loss<0.1%")
        saved = str(Path(folder, "plan"))
        calls = {
            f"plan, {LINES} requests": ("plan", str(log), *asked, "-o", saved),
            "explain": ("explain", saved),
            "forecast --x 20:100:20": ("forecast", saved, "--x", "20:100:20"),
            "forecast --what-if servers=+1": ("forecast", saved, "--what-if", "servers=+1"),
            "demo": ("demo", "-o", str(Path(folder, "demo"))),
            "a typo": ("forecast", saved, "--slo", "lss<1%"),
        }
        rows = [[f"`{name}`", *_seconds([command, *call])] for name, call in calls.items()]
    table("A planner's commands", ["call", "seconds", "of the processor"], rows)


def _seconds(call: list[str]) -> list[str]:
    """Run a command once; return the time that passed, and that of the processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(call, check=False, capture_output=True, env={**os.environ, "COLUMNS": "80"})
    passed, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [f"{passed:.1f}", f"{busy:.1f}"]


if __name__ == "__main__":
    main()
