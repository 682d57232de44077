"""Forecasts of overload from light load, on simulated systems of many kinds.

``python -m benchmarks kinds [repeats=4]``. For each kind of system and each repeat, 22 windows of
10 s at 10 to 60 % of saturation are simulated request by request, written as a log, ingested and
planned as a user would. The truth is a long simulation in overload (70 to 150 %). Printed are the
share of losses, means, p95, p99 and limits (1 % loss) inside nominal 95 % intervals, and the width
of the loss interval in e-folds.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
import pandas as pd

import stationary as st
from stationary.ingest import Cut, Source, windows_from_events

MEAN = 0.01
"""Mean service time of one server."""

MEASURES = ("loss", "response_time", "p95", "p99")
LONG = 400_000
BOUND = 0.01


@dataclass(frozen=True)
class Kind:
    """A system, and what its operator believes of it."""

    service: Callable[[np.random.Generator, int], np.ndarray]
    servers: int = 1
    capacity: int = 17
    contention: float = 0.0
    slowing: float = 0.0
    overhead: float = 0.04
    drift: float = 0.0
    bunched: int = 0
    believed: int = 0


def _gamma(c2: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda random, size: random.gamma(1 / c2, c2, size)


def _lognormal(c2: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    spread = np.log1p(c2)
    return lambda random, size: random.lognormal(-spread / 2, np.sqrt(spread), size)


def _two(random: np.random.Generator, size: int) -> np.ndarray:
    """Cheap and dear requests: nine of ten take half the mean, the others 5.5 times the mean."""
    return random.exponential(np.where(random.random(size) < 0.9, 0.5, 5.5))


EXPONENTIAL = _gamma(1.0)
KINDS = {
    "exponential": Kind(EXPONENTIAL),
    "constant": Kind(lambda _, size: np.ones(size)),
    "gamma, c2 = 0.25": Kind(_gamma(0.25)),
    "gamma, c2 = 3": Kind(_gamma(3.0), capacity=30),
    "lognormal, c2 = 2": Kind(_lognormal(2.0)),
    "cheap and dear": Kind(_two, capacity=30),
    "2 servers": Kind(EXPONENTIAL, servers=2),
    "4 servers, c2 = 0.25": Kind(_gamma(0.25), servers=4, capacity=20),
    "4 servers in each other's way": Kind(EXPONENTIAL, servers=4, capacity=20, contention=0.2),
    "slowed by its queue": Kind(EXPONENTIAL, slowing=0.02),
    "speed drifts by 5 %": Kind(EXPONENTIAL, drift=0.05),
    "no overhead": Kind(EXPONENTIAL, overhead=0.0),
    "overhead of 10 %": Kind(EXPONENTIAL, overhead=0.10),
    "bunched arrivals in 3 windows": Kind(EXPONENTIAL, bunched=3),
    "capacity off by one": Kind(EXPONENTIAL, believed=16),
}


@numba.njit(cache=True)
def _queue(arrivals, work, servers, capacity, contention, slowing, out):  # type: ignore[no-untyped-def]
    """Departure of every request, first come, first served; infinite where it is lost."""
    done = np.full(servers, np.inf)
    who = np.full(servers, -1)
    waiting = np.empty(capacity + 1, np.int64)
    head, queued, inside = 0, 0, 0
    index, number = 0, len(arrivals)
    while index < number or inside > 0:
        first = done.argmin()
        if index < number and arrivals[index] < done[first]:
            now = arrivals[index]
            if inside >= capacity:
                out[index] = np.inf
            else:
                inside += 1
                waiting[(head + queued) % (capacity + 1)] = index
                queued += 1
            index += 1
        else:
            now = done[first]
            out[who[first]] = now
            done[first] = np.inf
            inside -= 1
        for k in range(servers):
            if queued and done[k] == np.inf:
                one = waiting[head % (capacity + 1)]
                head, queued = head + 1, queued - 1
                factor = min(inside, servers) ** contention * (1 + slowing * (inside - 1))
                done[k] = now + work[one] * factor
                who[k] = one


def simulated(
    kind: Kind, arrivals: np.ndarray, speed: np.ndarray, random: np.random.Generator
) -> pd.DataFrame:
    """Return a log of requests with these arrivals."""
    work = MEAN * kind.service(random, len(arrivals)) / speed
    out = np.empty(len(arrivals))
    _queue(arrivals, work, kind.servers, kind.capacity, kind.contention, kind.slowing, out)
    lost = np.isinf(out)
    return pd.DataFrame(
        {
            "arrival": arrivals,
            "response": np.where(lost, np.nan, out - arrivals + kind.overhead * MEAN),
            "status": np.where(lost, 503, 200),
        }
    )


def light(kind: Kind, random: np.random.Generator) -> pd.DataFrame:
    """22 steps of 10 s at 10 to 60 % of saturation, in random order."""
    saturation = kind.servers / MEAN
    parts, speeds = [], []
    for step, share in enumerate(random.permutation(np.linspace(0.1, 0.6, 22))):
        count = random.poisson(share * saturation * 10)
        times = np.sort(random.uniform(0, 10, count))
        if step < kind.bunched:
            times = np.sort(np.floor(times / 0.2) * 0.2 + random.uniform(0, 0.02, count))
        parts.append(times + 10 * step)
        speeds.append(np.full(count, np.exp(kind.drift * random.standard_normal())))
    return simulated(kind, np.concatenate(parts), np.concatenate(speeds), random)


def recorded(kind: Kind, random: np.random.Generator, window: float = 10.0) -> st.Windows:
    """Return windows of a log of light load."""
    with tempfile.TemporaryDirectory() as folder:
        log, made = Path(folder) / "log.csv", Path(folder) / "windows.csv"
        light(kind, random).to_csv(log, index=False)
        capacity = kind.believed or kind.capacity
        cut = Cut(window=window, capacity=capacity, lost_status=("5xx",))
        windows_from_events(Source(str(log)), cut).write(made)
        return st.read_windows(made)


def truth(kind: Kind, random: np.random.Generator) -> pd.DataFrame:
    """Loss, mean and percentiles in overload, and finely near the bound."""
    rows = []
    for share in np.linspace(0.7, 1.5, 9):
        load = share * kind.servers / MEAN
        log = simulated(kind, np.cumsum(random.exponential(1 / load, LONG)), np.ones(LONG), random)
        answered = log["response"].dropna()
        rows.append(
            {
                "load": load,
                "loss": 1 - len(answered) / len(log),
                "response_time": answered.mean(),
                "p95": answered.quantile(0.95),
                "p99": answered.quantile(0.99),
            }
        )
    return pd.DataFrame(rows)


def crossing(measured: pd.DataFrame) -> float:
    share = np.log(measured["loss"].clip(1e-6))
    return float(np.interp(np.log(BOUND), share, measured["load"]))


def row(name: str, kind: Kind, repeats: int) -> dict[str, str]:
    """Coverage over the repeats of one kind."""
    random = np.random.default_rng([len(name), *name.encode()])
    measured = truth(kind, random)
    inside: dict[str, list[float]] = {each: [] for each in (*MEASURES, "limit", "width", "trusted")}
    for _ in range(repeats):
        windows, capacity = recorded(kind, random), kind.believed or kind.capacity
        plan = st.plan(windows, servers=kind.servers, capacity=capacity)
        frame = plan.forecast(measured["load"].to_numpy(), measures=MEASURES)
        for each in MEASURES:
            low, high = frame[f"{each}_low"], frame[f"{each}_high"]
            inside[each] += list((low <= measured[each]) & (measured[each] <= high))
        limit = plan.max_load(loss=BOUND)
        inside["limit"].append(limit.low <= crossing(measured) <= limit.high)
        inside["trusted"].append(limit.trusted)
        wide = np.log(frame["loss_high"] / frame["loss_low"])
        inside["width"].append(float(wide[measured["loss"] > 1e-4].mean()))
    cells = {
        each: f"{np.mean(values):.2f}" if each == "width" else f"{np.mean(values):.0%}"
        for each, values in inside.items()
    }
    return {"kind": name, **cells}


def main() -> None:
    words = [word for word in sys.argv if word.startswith("repeats=")]
    repeats = int(words[0].partition("=")[2]) if words else 4
    rows = []
    for name, kind in KINDS.items():
        rows.append(row(name, kind, repeats))
        if len(rows) == 1:
            print("| " + " | ".join(rows[0]) + " |\n|" + " --- |" * len(rows[0]))
        print("| " + " | ".join(rows[-1].values()) + " |", flush=True)
