"""Percentiles in overload from light load: from latencies, from counts, and from both.

``python -m benchmarks latency [FOLDER/] [NUMBER]``. Recordings as for ``real``: the bundled one of
a SIP server and, where they are there, that of a web server and those of a folder. M/M/m/K with the
servers and the capacity of the system is fitted to the light load alone; shown are the median
relative error of p50, p95 and p99 over the steps of the overload, and how many of them lie in the
nominal 90 % intervals of sampling error, without and with model error. Then the cost of percentiles
and of fits in processor time; and how often 90 % intervals cover the truth of a NUMBER of simulated
recordings.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import stationary as st
from benchmarks.real import recordings
from benchmarks.timing import table
from stationary.data import Latencies, Losses
from stationary.data.demo import CAPACITY, LIGHT, recording
from stationary.errors import ConvergenceWarning
from stationary.learning.discrepancy import Discrepancy

NAMES = ("p50", "p95", "p99")
KINDS = {
    "latencies": ["latencies"],
    "counts": ["states"],
    "both": ["states", "latencies"],
}
_LEVEL = 0.9


def percentile(counts: np.ndarray, edges: tuple[float, ...], share: float) -> float:
    """Return a percentile of a histogram, interpolated linearly within its bucket."""
    below = np.append(0.0, counts.cumsum() / counts.sum())
    return float(np.interp(share, below[: len(edges) + 1], [0.0, *edges]))


def measured_from_buckets() -> tuple[st.Windows, pd.DataFrame]:
    """Return the bundled recording at light load, and percentiles of its overload."""
    windows = recording(latencies=True)
    heavy = windows.between(LIGHT, None)
    (seen,) = (kind for kind in heavy.observations if isinstance(kind, Latencies))
    step = np.floor(heavy.loads.numpy() / 250)
    rows = []
    for k in np.unique(step):
        counts = seen.data.numpy()[step == k].sum(0)
        row = {"load": float(heavy.loads.numpy()[step == k].mean())}
        rows.append(row | {n: percentile(counts, seen.edges, int(n[1:]) / 100) for n in NAMES})
    return windows.between(None, LIGHT).observing(range(CAPACITY)), pd.DataFrame(rows)


def cases(folder: Path | None) -> Iterator[tuple[str, st.Windows, pd.DataFrame, int, int]]:
    light, heavy = measured_from_buckets()
    yield "Kamailio (bundled)", light, heavy, 1, CAPACITY
    for each in recordings(folder):
        if "p95" in each.heavy:
            yield each.name, each.light, each.heavy, each.servers, each.capacity


def fitted(light: st.Windows, servers: int, capacity: int, kinds: list[str]) -> st.Plan:
    timed = {"overhead": 0.01} if "latencies" in kinds else {}
    model = st.models.MMmK(servers=servers, capacity=capacity, **timed)
    return st.fit(model, light, observations=kinds)


def forecasts(folder: Path | None) -> None:
    """Print errors and coverage of forecasts for every recording and kind of data."""
    lines = []
    for name, light, heavy, servers, capacity in cases(folder):
        for kind, used in KINDS.items():
            plan = fitted(light, servers, capacity, used)
            wide = plan.having(discrepancy=Discrepancy.of(plan.estimate, plan.windows))
            names = [n for n in NAMES if n in heavy]
            cells = [name, kind, ", ".join(f"{v:.4g}" for v in plan.estimates.values())]
            for n in NAMES:
                if n not in names:
                    cells += ["", ""]
                    continue
                inside = []
                for answer in (plan, wide):
                    ahead = answer.forecast(heavy["load"].to_numpy(), _LEVEL, [n])
                    low, high = ahead[f"{n}_low"].to_numpy(), ahead[f"{n}_high"].to_numpy()
                    inside.append(((low <= heavy[n]) & (heavy[n] <= high)).mean())
                off = np.abs(ahead[n].to_numpy() / heavy[n].to_numpy() - 1)
                cells += [f"{np.median(off):.1%}", " ".join(f"{hits:.0%}" for hits in inside)]
            lines.append(cells)
    columns = [f"{n} {what}" for n in NAMES for what in ("error", "inside")]
    table("Percentiles in overload", ["recording", "from", "rate, overhead", *columns], lines)


def best(function: Callable[[], object], repeats: int = 7) -> float:
    """Smallest processor time of some runs, which other programs disturb least."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def drawn(model: st.models.Queue, loads: np.ndarray, each: int, seed: int) -> st.Windows:
    """Return windows of independent response times, in 60 geometric buckets."""
    edges = np.geomspace(1e-3, 10.0, 60) / model.theta[0].item()
    empty = Latencies(np.full((len(loads), 61), each // 61), edges)
    seen = empty.draw(model.at(loads), np.random.default_rng(seed))
    return st.Windows(x=loads, observations=[seen])


def cost() -> None:
    """Print what percentiles with derivatives and fits cost, in processor time."""
    lines = []
    loads = np.linspace(10.0, 60.0, 50)
    for servers in (1, 4):
        model = st.models.MMmK(servers, 20, service_rate=100.0 / servers, overhead=0.001)
        x, theta = torch.from_numpy(loads)[:, None], model.theta.detach().requires_grad_()

        def steady(model=model, x=x, theta=theta):
            model.at(x, theta).pi[:, -1].sum().backward()

        def p99(model=model, x=x, theta=theta):
            model.measure("p99")(model.at(x, theta)).sum().backward()

        windows = drawn(model, loads, 1000, 1)
        start = st.models.MMmK(servers, 20, overhead=0.01)
        once, percentiles = best(steady, 30), best(p99, 30)
        whole = best(lambda start=start, windows=windows: st.fit(start, windows), 3)
        ratio = f"{percentiles / once:.1f}"
        lines.append([f"M/M/{servers}/20", f"{1e3 * once:.2f} ms", ratio, f"{whole:.2f} s"])
    table(
        "Cost", ["50 windows", "steady state, gradient", "p99, gradient: times that", "fit"], lines
    )


def coverage(repeats: int) -> None:
    """Print how often 90 % intervals cover, for windows of simulated requests."""
    # So little room that some requests are lost at light load already.
    truth = st.models.MMmK(servers=1, capacity=8, service_rate=100.0)
    loads = np.repeat([15.0, 25.0, 35.0, 45.0, 55.0, 65.0], 5)
    ahead = truth.measure("p99")(truth.at([95.0])).item()
    kinds = {**KINDS, "latencies and losses": ["latencies", "losses"]}
    hits: dict[str, list[tuple[bool, bool]]] = {kind: [] for kind in kinds}
    for seed in range(repeats):
        windows = st.simulate(truth, loads, 10.0, seed, st.simulation.Responses())
        found = windows.counts
        lost = Losses(torch.stack([found[:, -1], found[:, :-1].sum(-1)], -1))
        windows = st.Windows(windows.x, observations=[*windows.observations, lost], duration=10.0)
        for kind, used in kinds.items():
            fit = st.fit(st.models.MMmK(servers=1, capacity=8), windows, observations=used)
            row = fit.table(level=_LEVEL).iloc[0]
            frame = fit.forecast([95.0], _LEVEL, ["p99"])
            inside = frame["p99_low"][0] <= ahead <= frame["p99_high"][0]
            hits[kind].append((row["low"] <= 100.0 <= row["high"], inside))
    rows = [[k, *(f"{c:.0%}" for c in np.mean(v, axis=0))] for k, v in hits.items()]
    table("Coverage", ["from", "service rate covered", "p99 at 95 covered"], rows)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    folders = [Path(word) for word in sys.argv[2:] if "/" in word]
    numbers = [int(word) for word in sys.argv[2:] if word.isdigit()]
    forecasts(folders[0] if folders else None)
    cost()
    for number in numbers:
        coverage(number)
