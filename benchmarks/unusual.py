"""What it is worth that windows unlike others count little in fits to counts.

``python -m benchmarks unusual [repeats=4]``. Recordings of light load are simulated as for `kinds`,
and fitted to counts alone, once with all windows counted fully and once as `compare` weighs them.
Printed are how many of the 22 or 31 windows are named, the error of the limit for 1 % loss (mean,
and root of its mean square), the half-width of its 95 % interval, and the share of limits and of
losses in overload inside.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

import stationary as st
from benchmarks.kinds import BOUND, KINDS, crossing, recorded, truth
from benchmarks.real import counts_of
from benchmarks.timing import table

TRIED = {
    "nothing wrong": (0, 10.0),
    "bunched arrivals in 2 windows": (2, 10.0),
    "windows of 7 s, the load steps every 10 s": (0, 7.0),
}


def main() -> None:
    words = [word for word in sys.argv if word.startswith("repeats=")]
    repeats = int(words[0].partition("=")[2]) if words else 4
    rows = []
    for name in ("exponential", "constant"):
        random = np.random.default_rng(len(name))
        measured = truth(KINDS[name], random)
        for what, (bunched, window) in TRIED.items():
            kind = replace(KINDS[name], bunched=bunched)
            named, full, weighed = [], [], []
            for _ in range(repeats):
                counts = counts_of(recorded(kind, random, window))
                model = st.models.Service(kind.servers, kind.capacity)
                plans = [
                    st.compare({"service": model}, windows, jobs=1)
                    for windows in (counts.weighed(np.ones(len(counts))), counts)
                ]
                named.append(len(plans[1].outlying))
                for found, plan in zip((full, weighed), plans, strict=True):
                    limit, right = plan.max_load(loss=BOUND), crossing(measured)
                    frame = plan.forecast(measured["load"].to_numpy(), measures=["loss"])
                    held = frame["loss_low"] <= measured["loss"]
                    held &= measured["loss"] <= frame["loss_high"]
                    error, wide = np.log(limit.load / right), np.log(limit.high / limit.low) / 2
                    inside = limit.low <= right <= limit.high
                    found.append([error, error**2, wide, inside, held.mean()])
            for how, found in (("fully", full), ("little", weighed)):
                error, square, wide, limits, losses = np.mean(found, 0)
                cells = [f"{error:+.1%}", f"{square**0.5:.1%}", f"{wide:.1%}"]
                cells += [f"{limits:.0%}", f"{losses:.0%}"]
                rows.append([name, what, f"{np.mean(named):.1f}", how, *cells])
                print(rows[-1], file=sys.stderr, flush=True)
    head = ["kind", "windows", "named", "these count", "error", "its size", "half-width"]
    table("Windows unlike others", [*head, "limits inside", "losses inside"], rows)
