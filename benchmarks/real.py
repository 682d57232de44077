"""Forecasts of overload from light load, beside what real servers did.

``python -m benchmarks real [FOLDER]``. The recordings are the bundled one of a SIP server, that of
a web server where it is beside the project (``shared/data/web``), and those of a folder with
``NAME-light.csv`` and ``NAME-heavy.csv`` (requests: ``arrival, response, status, target``) and a
``recordings.toml`` that says ``servers``, ``capacity`` and ``window`` of each ``[NAME]``, as
``stationary testbed record`` makes them.

For each: the largest load with less than 1 % loss; the share of overload steps whose loss, mean,
p95 and p99 lie inside the nominal 95 and 90 % intervals of the long-run value, and inside those for
what a window of the step's length shows; the width of the loss interval in e-folds;
and the interval score (Winkler) on a log scale, which adds to the width of an interval 2 / (1 -
level) times the distance by which it misses. Rivals: the same without model error, from counts of
states alone, a pool of families of queues by their scores on held-out loads, M/M/m/K with its
sampling error, M/M/m/K as in a spreadsheet, with the mean number of busy servers at light load and
no interval, and a straight line through the losses of the light windows. ``rate`` is the error of
the speed in overload, the logarithm of what was served at the heaviest load over what is forecast:
its spread over recordings is what `stationary.learning.discrepancy` allows for. The last row sums
up the plans, beside the goals.
"""

from __future__ import annotations

import math
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import stationary as st
from stationary.data.demo import CAPACITY, LIGHT, recording
from stationary.ingest import Cut, Source, windows_from_events
from stationary.trust.ladder import ladder

WEB = Path(__file__).parents[2] / "shared" / "data" / "web"
BOUND = 0.01
LEAST = 1e-4
"""Losses below this count as this on a log scale."""


@dataclass(frozen=True)
class Recording:
    """Light windows of a system, what was measured in overload, and what its operator knows."""

    name: str
    light: st.Windows
    heavy: pd.DataFrame
    servers: int
    capacity: int
    window: float


def from_requests(name: str, light: Path, heavy: Path, about: dict[str, float]) -> Recording:
    """Read a recording of requests; the steps of the heavy part are its targets."""
    with tempfile.TemporaryDirectory() as folder:
        plain, made = Path(folder) / "light.csv", Path(folder) / "windows.csv"
        pd.read_csv(light).to_csv(plain, index=False)
        cut = Cut(window=about["window"], capacity=int(about["capacity"]))
        windows_from_events(Source(str(plain)), cut).write(made)
        windows = st.read_windows(made)
    rows = []
    for _, step in pd.read_csv(heavy).groupby("target"):
        gaps = np.diff(np.sort(step["arrival"]))
        answered = step["response"][step["status"].astype(str) == "200"]
        rows.append(
            {
                "load": len(step) / gaps[gaps < 2].sum(),  # several passes, with pauses between
                "loss": 1 - len(answered) / len(step),
                "response_time": answered.mean(),
                "p95": answered.quantile(0.95),
                "p99": answered.quantile(0.99),
            }
        )
    servers, capacity = int(about["servers"]), int(about["capacity"])
    # Steps of several passes are as long as all of them together.
    long = about["window"] * about.get("passes", 1)
    return Recording(name, windows, pd.DataFrame(rows), servers, capacity, long)


def bundled() -> Recording:
    """Return the bundled recording, its overload in steps of 250 per second."""
    windows = recording()
    heavy = windows.between(LIGHT, None)
    loads, counts = heavy.loads.numpy(), heavy.counts.numpy()
    step = np.floor(loads / 250)
    rows = [
        {
            "load": np.average(loads[step == k], weights=counts[step == k].sum(-1)),
            "loss": counts[step == k][:, -1].sum() / counts[step == k].sum(),
        }
        for k in np.unique(step)
    ]
    return Recording(
        "Kamailio (bundled)",
        windows.between(None, LIGHT).observing(range(CAPACITY)),
        pd.DataFrame(rows),
        1,
        CAPACITY,
        10.0,
    )


def recordings(folder: Path | None) -> Iterator[Recording]:
    yield bundled()
    if WEB.exists():
        about = {"servers": 1, "capacity": 17, "window": 10.0, "passes": 2}
        light, heavy = (WEB / f"gunicorn-1-worker-{part}.csv.gz" for part in ("light", "heavy"))
        yield from_requests("gunicorn, 1 worker", light, heavy, about)
    if folder is not None:
        index = tomllib.loads((folder / "recordings.toml").read_text(encoding="utf-8"))
        for name, about in index.items():
            light, heavy = (folder / f"{name}-{part}.csv" for part in ("light", "heavy"))
            yield from_requests(name, light, heavy, about)


def crossing(measured: pd.DataFrame) -> float:
    """Load at which the measured loss passes the bound, between two steps."""
    order = measured.sort_values("load")
    above = int((order["loss"] > BOUND).to_numpy().argmax())
    pair = order.iloc[max(above - 1, 0) : above + 1]
    share = np.log(pair["loss"].clip(LEAST))
    return float(np.interp(np.log(BOUND), share, pair["load"]))


def score(low: np.ndarray, high: np.ndarray, seen: np.ndarray, level: float) -> np.ndarray:
    """Winkler's score of intervals on a log scale."""
    low, high, seen = (np.log(np.maximum(x, LEAST)) for x in (low, high, seen))
    missed = np.maximum(low - seen, 0) + np.maximum(seen - high, 0)
    return high - low + 2 / (1 - level) * missed


def pool(windows: st.Windows, system: dict[str, int]) -> st.Plan:
    """Return the pool of families of queues, each of its own kind of service."""
    families = {
        name: model for name, model in ladder(windows, **system).items() if not model.encompassing
    }
    if system["servers"] == 1:
        size = system["capacity"]
        families["steady"] = st.models.ErlangService(phases=4, capacity=size)
        families["erratic"] = st.models.HyperexponentialService(capacity=size)
    return st.compare(families, windows, jobs=1).having(discrepancy=None)


def spreadsheet(recorded: Recording) -> float:
    """The limit of M/M/m/K with the service rate that busy servers at light load tell."""
    light, servers = recorded.light, recorded.servers
    counts = light.using(["states"]).counts.numpy()
    weights = counts.sum(-1)
    used = (counts * np.minimum(np.arange(counts.shape[1]), servers)).sum() / weights.sum()
    rate = np.average(light.loads.numpy(), weights=weights) / used
    queue = st.models.MMmK(servers, recorded.capacity, service_rate=float(rate))
    loads = np.linspace(0.3, 1.2, 400) * servers * rate
    loss = queue.measure("loss")(queue.at(loads)).detach().numpy()
    return float(np.interp(BOUND, loss, loads))


def straight_line(recorded: Recording) -> float:
    """The limit where a line through the shares of lost requests at light load reaches the bound.

    NaN where no loss grew with the load: then a line says that there is no limit.
    """
    light = recorded.light.using(["states"])
    loads, counts = light.loads.numpy(), light.counts.numpy()
    lost = counts[:, -1] / counts.sum(-1) if counts.shape[1] > recorded.capacity else 0 * loads
    slope, start = np.polyfit(loads, lost, 1)
    return float((BOUND - start) / slope) if slope > 0 else math.nan


def row(recorded: Recording, who: str, answer: st.Plan) -> dict[str, str]:
    """What an answer says of a recording."""
    heavy = recorded.heavy
    measured, limit = crossing(heavy), answer.max_load(loss=BOUND)
    cells = {
        "recording": recorded.name,
        "answer": who,
        "measured": f"{measured:.4g}",
        "limit": f"{limit.load:.4g} ({limit.low:.4g} to {limit.high:.4g})"
        + ("" if limit.low <= measured <= limit.high else " missed")
        + ("" if limit.trusted else ", untrusted"),
        "half-width": f"{np.log(limit.high / limit.low) / 2:.1%}",
    }
    most = heavy.loc[heavy["load"].idxmax()]
    served = answer.forecast([most["load"]], measures=["throughput"])["throughput"][0]
    cells["rate"] = f"{np.log(most['load'] * (1 - most['loss']) / served):+.1%}"
    names = [name for name in heavy if name != "load"]
    frames = {
        level: answer.forecast(
            heavy["load"].to_numpy(), measures=names, level=level, window=recorded.window
        )
        for level in (0.95, 0.9)
    }
    for name in names:
        inside, seen = {}, {}
        for level, frame in frames.items():
            low, high = (frame[f"{name}_{end}"].to_numpy() for end in ("low", "high"))
            inside[level] = (low <= heavy[name]) & (heavy[name] <= high)
            low, high = (frame[f"{name}_seen_{end}"].to_numpy() for end in ("low", "high"))
            seen[level] = (low <= heavy[name]) & (heavy[name] <= high)
        cells[name] = " ".join(f"{each.mean():.0%}" for each in (*inside.values(), *seen.values()))
        if name == "loss":
            frame = frames[0.95]
            low, high = frame["loss_low"].to_numpy(), frame["loss_high"].to_numpy()
            cells["width"] = f"{score(low, high, high, 0.95).mean():.2f}"
            cells["score"] = f"{score(low, high, heavy['loss'].to_numpy(), 0.95).mean():.2f}"
            trusted = frame["trusted"].to_numpy()
            held = seen[0.95].to_numpy()[trusted]
            cells["trusted inside"] = f"{held.sum()} of {trusted.sum()}"
    ends = (np.array([x]) for x in (limit.low, limit.high, measured))
    cells["limit score"] = f"{score(*ends, 0.95)[0]:.2f}"
    return cells


def main() -> None:
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    rows = []
    for recorded in recordings(folder):
        system = {"servers": recorded.servers, "capacity": recorded.capacity}
        plan = st.plan(recorded.light, **system)
        rows.append(row(recorded, "plan", plan))
        alone = plan.having(discrepancy=None, known_draws=None)
        rows.append(row(recorded, "sampling error alone", alone))
        kinds = [kind.kind for kind in (*recorded.light.observations, *recorded.light.aside)]
        if kinds != ["states"]:
            only = st.plan(counts_of(recorded.light), **system)
            rows.append(row(recorded, "from counts alone", only))
        plain = st.fit(st.models.MMmK(**system), recorded.light, observations=["states"])
        rows.append(row(recorded, "M/M/m/K, sampling error", plain))
        rows.append(row(recorded, "pool of families", pool(counts_of(recorded.light), system)))
        known = {"recording": recorded.name, "answer": "spreadsheet M/M/m/K"}
        rows.append({**known, "limit": f"{spreadsheet(recorded):.4g}"})
        known["answer"] = "line through the losses"
        line = straight_line(recorded)
        rows.append({**known, "limit": "none" if math.isnan(line) else f"{line:.4g}"})
    print(_table([*rows, summary([each for each in rows if each["answer"] == "plan"])]))


def counts_of(windows: st.Windows) -> st.Windows:
    """Return the counts of states alone."""
    counts = windows.using(["states"])
    return st.Windows(counts.x, observations=counts.observations, duration=counts.duration)


def summary(plans: list[dict[str, str]]) -> dict[str, str]:
    """All recordings together, in words that name the goals."""
    held = sum("missed" not in each["limit"] for each in plans)
    pairs = np.array([each["trusted inside"].split(" of ") for each in plans], dtype=int)
    inside, trusted = pairs.sum(0)
    rates = [float(each["rate"].rstrip("%")) for each in plans]
    widest = max(float(each["half-width"].rstrip("%")) for each in plans)
    cells = {
        "recording": "all, beside the goals",
        "answer": "plan",
        "limit": f"{held} of {len(plans)} inside (goal: all)",
        "half-width": f"at most {widest:.1f}% (goal: 12%)",
        "rate": f"root mean square {np.sqrt(np.mean(np.square(rates))):.1f}%",
        "trusted inside": f"{inside / trusted:.0%} (goal: 90%)",
    }
    for name in ("loss", "response_time", "p95", "p99"):
        shares = [float(e[name].split()[0].rstrip("%")) for e in plans if name in e]
        cells[name] = f"{np.mean(shares):.0f}% (goal: 92%)"
    return cells


def _table(rows: list[dict[str, str]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns), *([row.get(c, "") for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
