"""Requests to windows, larger than memory: python -m benchmarks ingest rows=50000000 memory=200MB.

A single server with room for 20 requests, driven through loads from light to overload, is
simulated into a Parquet file of 50 million requests; windows of a second are made of it by an
engine that may take a quarter of the file's size. The rival, pandas on all in memory, gets as many
requests as `_RIVAL` says. Each runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np

from benchmarks.timing import table

_CAPACITY = 20
_SERVICE = 1e-3
_CHUNK = 1_000_000
_RIVAL = 5_000_000

_ENGINE = """
import sys
from stationary.ingest import Cut, DuckDB, Source, windows_from_events
made = windows_from_events(Source(sys.argv[1]), Cut(window=1.0, capacity=20), DuckDB(sys.argv[2]))
made.write(sys.argv[3])
"""

_PANDAS = """
import sys
import numpy as np, pandas as pd, pyarrow.parquet
rows = int(sys.argv[2])
parts, seen = [], 0
for batch in pyarrow.parquet.ParquetFile(sys.argv[1]).iter_batches(1_000_000):
    parts.append(batch.to_pandas())
    seen += len(batch)
    if seen >= rows:
        break
log = pd.concat(parts).head(rows)
answered = log[log.response.notna()]
edges = pd.concat([
    pd.DataFrame({"time": log.arrival, "kind": 1, "lost": log.response.isna(),
                  "change": log.response.notna().astype(int)}),
    pd.DataFrame({"time": answered.arrival + answered.response, "kind": 0, "lost": False,
                  "change": -1}),
]).sort_values(["time", "kind"])
edges["found"] = edges.change.cumsum() - edges.change
came = edges[edges.kind == 1]
state = np.where(came.lost, 20, np.minimum(came.found, 19))
window = np.floor(came.time - log.arrival.iloc[0]).astype(int)
counts = pd.crosstab(window, state).iloc[:-1]
counts.to_csv(sys.argv[3])
"""


@numba.njit(cache=True)
def _served(arrivals, services, leaves, head, inside):  # numba infers the types
    """First come, first served, with room for as many as `leaves` holds; NaN for the lost."""
    response = np.empty(len(arrivals))
    room = len(leaves)
    for i in range(len(arrivals)):
        while inside and leaves[head] <= arrivals[i]:
            head, inside = (head + 1) % room, inside - 1
        if inside == room:
            response[i] = np.nan
            continue
        begin = leaves[(head + inside - 1) % room] if inside else arrivals[i]
        leaves[(head + inside) % room] = begin + services[i]
        inside += 1
        response[i] = begin + services[i] - arrivals[i]
    return response, head, inside


def simulate(path: Path, rows: int, seed: int = 0) -> None:
    """Write requests whose load swings between a fifth and one and a fifth of what is served."""
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(seed)
    leaves, head, inside, now = np.zeros(_CAPACITY), 0, 0, 0.0
    schema = pyarrow.schema([("arrival", pyarrow.float64()), ("response", pyarrow.float64())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for begin in range(0, rows, _CHUNK):
            count = min(_CHUNK, rows - begin)
            swing = 0.7 - 0.5 * np.cos(2 * np.pi * np.arange(begin, begin + count) / rows)
            arrival = now + np.cumsum(rng.exponential(_SERVICE / swing))
            services = rng.exponential(_SERVICE, count)
            response, head, inside = _served(arrival, services, leaves, head, inside)
            now = arrival[-1]
            lost = np.isnan(response)
            columns = [pyarrow.array(arrival), pyarrow.array(response, mask=lost)]
            writer.write_table(pyarrow.table(columns, schema=schema))


def main() -> None:
    """Print requests a second and peak memory of both."""
    given = dict(word.split("=") for word in sys.argv if "=" in word)
    rows = int(given.get("rows", 50_000_000))
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "requests.parquet", Path(folder) / "windows.csv"
        simulate(file, rows)
        size = file.stat().st_size
        memory = given.get("memory", f"{max(size // 4_000_000, 100)}MB")
        rival = min(rows, _RIVAL)
        lines = []
        for name, count, command in (
            (f"DuckDB within {memory}", rows, [_ENGINE, str(file), memory, str(out)]),
            ("pandas, in memory", rival, [_PANDAS, str(file), str(rival), f"{out}.rival.csv"]),
        ):
            seconds, peak = _measured([sys.executable, "-c", *command])
            speed = f"{count / seconds / 1e6:.2f}"
            lines.append([name, f"{count:,}", f"{seconds:.1f}", speed, f"{peak:,.0f}"])
        table(
            f"{rows:,} requests, {size / 1e6:,.0f} MB of Parquet, to windows of a second",
            ["way", "requests", "seconds", "million a second", "peak MB of the process"],
            lines,
        )
        _compare(out, Path(f"{out}.rival.csv"))


def _compare(ours: Path, rival: Path) -> None:
    import pandas as pd

    left = pd.read_csv(ours, comment="#").filter(like="Q=").to_numpy()
    right = pd.read_csv(rival, index_col=0)
    right = right.reindex(columns=[str(k) for k in range(_CAPACITY + 1)], fill_value=0).to_numpy()
    same = bool((left[: len(right)] == right).all())
    print(f"\nThe first {len(right):,} of {len(left):,} windows are the same in both: {same}.")


def _measured(command: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a process."""
    began = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[-3:]} failed")
    return time.perf_counter() - began, usage.ru_maxrss / 1e3
