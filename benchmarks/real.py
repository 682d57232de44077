"""Forecasts of overload from light load, beside what real servers did.

For each recording: the largest load with less than 1 % loss, and the share of overload steps whose
loss, mean, p95 and p99 lie inside the nominal 95 % interval. The rivals are the same fit with
sampling error alone, and M/M/m/K with sampling error alone. The recording of a web server is used
where it is beside the project (``shared/data/web``).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import stationary as st
from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
from stationary.ingest import Cut, Source, windows_from_events

WEB = Path(__file__).parents[2] / "shared" / "data" / "web"
BOUND = 0.01


def web() -> tuple[st.Windows, pd.DataFrame, int]:
    """Light windows of a gunicorn server, its overload by step, and its capacity."""
    capacity = 17
    with tempfile.TemporaryDirectory() as folder:
        light = Path(folder) / "light.csv"
        pd.read_csv(WEB / "gunicorn-1-worker-light.csv.gz").to_csv(light, index=False)
        made = windows_from_events(Source(str(light)), Cut(window=10.0, capacity=capacity))
        made.write(Path(folder) / "windows.csv")
        windows = st.read_windows(Path(folder) / "windows.csv")
    heavy = pd.read_csv(WEB / "gunicorn-1-worker-heavy.csv.gz")
    rows = []
    for _, step in heavy.groupby("target"):
        gaps = np.diff(np.sort(step["arrival"]))
        answered = step["response"][step["status"].astype(str) == "200"]
        rows.append(
            {
                "load": len(step) / gaps[gaps < 2].sum(),  # two passes, with a pause between them
                "loss": 1 - len(answered) / len(step),
                "response_time": answered.mean(),
                "p95": answered.quantile(0.95),
                "p99": answered.quantile(0.99),
            }
        )
    return windows, pd.DataFrame(rows), capacity


def sip() -> tuple[st.Windows, pd.DataFrame, int]:
    """Light windows of the bundled recording, its overload in steps of 250 per second."""
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
    light = windows.between(None, LIGHT).observing(OBSERVED)
    return light, pd.DataFrame(rows), CAPACITY


def crossing(measured: pd.DataFrame) -> float:
    """Load at which the measured loss passes the bound, between two steps."""
    order = measured.sort_values("load")
    above = int((order["loss"] > BOUND).to_numpy().argmax())
    pair = order.iloc[max(above - 1, 0) : above + 1]
    share = np.log(pair["loss"].clip(1e-5))
    return float(np.interp(np.log(BOUND), share, pair["load"]))


def main() -> None:
    recordings = {"Kamailio (bundled)": sip, "gunicorn, 1 worker": web}
    rows = []
    for name, read in recordings.items():
        if read is web and not WEB.exists():
            print(f"{name}: {WEB} is not there")
            continue
        windows, measured, capacity = read()
        plan = st.plan(windows, servers=1, capacity=capacity, slo=f"loss<{BOUND:g}")
        answers = {
            "plan": plan,
            "sampling error alone": plan.having(discrepancy=None),
            "M/M/m/K, sampling error": st.fit(st.models.MMmK(1, capacity), windows),
        }
        for who, answer in answers.items():
            limit = answer.max_load(loss=BOUND)
            names = [n for n in measured if n != "load"]
            frame = answer.forecast(measured["load"].to_numpy(), measures=names)
            inside = {
                n: np.mean(
                    (frame[f"{n}_low"].to_numpy() <= measured[n])
                    & (measured[n] <= frame[f"{n}_high"].to_numpy())
                )
                for n in names
            }
            rows.append(
                {
                    "recording": name,
                    "answer": who,
                    "measured limit": f"{crossing(measured):.4g}",
                    "limit": f"{limit.load:.4g} ({limit.low:.4g} to {limit.high:.4g})",
                    **{n: f"{share:.0%}" for n, share in inside.items()},
                }
            )
    print(_table(rows))


def _table(rows: list[dict[str, str]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns), *([row.get(c, "") for c in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
