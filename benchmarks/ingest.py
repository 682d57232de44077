"""Requests to windows: python -m benchmarks ingest rows=1e6,1e7,1e8 lines=1e6 window=10.

A single server with room for 20 requests, driven through loads from light to overload, is simulated
into Parquet files; windows of so many seconds are made of them. `stationary` makes counts, latency
buckets and service times. The rivals, pandas and polars (where it is installed), hold everything in
memory and make the counts only, of at most `_RIVAL` requests. DuckDB adds up the columns of the
file, which shows the cost of reading. Each runs in a process of its own, and times itself without
its imports, by the clock and by the time of processors, which other work on the machine hardly
changes. At the end an access log of nginx with ``lines`` lines is read.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numba
import numpy as np

from benchmarks.timing import table

_CAPACITY = 20
_SERVICE = 1e-3
_CHUNK = 1_000_000
_RIVAL = 10_000_000

_TIMES = """
import re, sys, time
def begin():
    global began
    began = time.perf_counter(), time.process_time()
def end():
    peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())
    print(time.perf_counter() - began[0], time.process_time() - began[1], int(peak[1]) / 1e3)
"""

_OURS = """
from stationary.ingest import Cut, Source, windows_from_events
import duckdb, ibis, pandas, stationary.ingest.sweep
length = float(sys.argv[4])
windows_from_events(Source(sys.argv[3]), Cut(window=1.0, capacity=20))  # compiles, or loads
begin()
made = windows_from_events(Source(sys.argv[1]), Cut(window=length, capacity=20))
end()
made.table.filter(like="Q=").to_csv(sys.argv[2])
"""

_SCAN = """
import duckdb
begin()
duckdb.sql(f"SELECT sum(arrival), sum(response) FROM '{sys.argv[1]}'").fetchall()
end()
"""

_PANDAS = """
import numpy as np, pandas as pd
begin()
log = pd.read_parquet(sys.argv[1])
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
window = np.floor((came.time - log.arrival.iloc[0]) / float(sys.argv[4])).astype(int)
counts = pd.crosstab(window, state).iloc[:-1]
end()
counts.to_csv(sys.argv[2])
"""

_POLARS = """
import polars as pl
begin()
log = pl.read_parquet(sys.argv[1])
first = log["arrival"][0]
came = log.select(time="arrival", kind=pl.lit(1), lost=pl.col("response").is_null(),
                  change=pl.col("response").is_not_null().cast(pl.Int64))
left = log.filter(pl.col("response").is_not_null()).select(
    time=pl.col("arrival") + pl.col("response"), kind=pl.lit(0), lost=pl.lit(False),
    change=pl.lit(-1, pl.Int64))
edges = pl.concat([came, left]).sort("time", "kind").with_columns(
    found=pl.col("change").cum_sum() - pl.col("change"))
state = pl.when("lost").then(20).otherwise(pl.min_horizontal("found", pl.lit(19)))
counts = edges.filter(pl.col("kind") == 1).group_by(
    window=((pl.col("time") - first) / float(sys.argv[4])).floor().cast(pl.Int64),
    state=state).len()
wide = counts.pivot("state", index="window", values="len").fill_null(0).sort("window")[:-1]
end()
wide.write_csv(sys.argv[2])
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
    """Write requests whose load swings between 0.2 and 1.2 times the service rate."""
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
    """Print requests per second, peak memory and the exponent of growth of each way."""
    given = dict(word.split("=") for word in sys.argv if "=" in word)
    sizes = [int(float(size)) for size in given.get("rows", "1e6,1e7").split(",")]
    ways = {"stationary": _OURS, "DuckDB, sums of the columns": _SCAN, "pandas": _PANDAS}
    if importlib.util.find_spec("polars"):
        ways["polars"] = _POLARS
    else:
        print("polars is not installed, and has no row.")
    length = given.get("window", "10")
    lines, before = [], dict[str, tuple[int, float]]()
    with tempfile.TemporaryDirectory() as folder:
        small, file = Path(folder) / "small.parquet", Path(folder) / "requests.parquet"
        simulate(small, 10_000)
        for rows in sizes:
            simulate(file, rows)
            for name, code in ways.items():
                if rows > _RIVAL and name in ("pandas", "polars"):
                    continue
                out = Path(folder) / f"{name}.csv"
                seconds, cpu, peak = _measured(code, file, out, small, length)
                growth = "-"
                if name in before:
                    few, quick = before[name]
                    growth = f"{np.log(cpu / quick) / np.log(rows / few):.2f}"
                before[name] = rows, cpu
                speed = f"{rows / seconds / 1e6:.2f}"
                clock = [f"{seconds:.2f}", speed, f"{rows / cpu / 1e6:.2f}"]
                lines.append([name, f"{rows:,}", *clock, f"{peak:,.0f}", growth])
            if rows <= _RIVAL:
                _compare(Path(folder) / "stationary.csv", Path(folder) / "pandas.csv")
        table(
            f"Requests in Parquet, to windows of {length} s",
            ["way", "requests", "seconds", "M/s", "M/s of one processor", "peak MB", "exponent"],
            lines,
        )
        count = int(float(given.get("lines", "1e6")))
        log = Path(folder) / "access.log"
        write_log(log, count)
        small_log = Path(folder) / "small.log"
        write_log(small_log, 10_000)
        seconds, cpu, peak = _measured(_OURS, log, Path(folder) / "log.csv", small_log, length)
        print(
            f"\nAn access log of nginx, {count:,} lines, {log.stat().st_size / 1e6:,.0f} MB: "
            f"{seconds:.2f} s, {count / seconds / 1e6:.2f} million lines/s, "
            f"{count / cpu / 1e6:.2f} on one processor, {peak:,.0f} MB."
        )


def write_log(path: Path, lines: int, seed: int = 0) -> None:
    """Write an access log as nginx does, in order of completion."""
    rng = np.random.default_rng(seed)
    arrival = 1.7e9 + np.cumsum(rng.exponential(_SERVICE, lines))
    response = np.round(rng.exponential(2 * _SERVICE, lines), 3)
    done = np.round(arrival + response, 3)
    with path.open("w", encoding="utf-8") as file:
        for k in np.argsort(done):
            stamp = datetime.fromtimestamp(int(done[k]), UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
            file.write(
                f'203.0.113.7 - - [{stamp}] "GET /api/items/{k % 999}?q=1 HTTP/1.1" 200 2326 '
                f'"http://example.org/" "Mozilla/5.0 (X11; Linux x86_64)" {response[k]:.3f} '
                f"{done[k]:.3f}\n"
            )


def _compare(ours: Path, rival: Path) -> None:
    import pandas as pd

    left = pd.read_csv(ours, index_col=0).to_numpy()
    right = pd.read_csv(rival, index_col=0)
    right = right.reindex(columns=[str(k) for k in range(_CAPACITY + 1)], fill_value=0).to_numpy()
    if left.shape != right.shape or (left != right).any():
        raise SystemExit("the windows differ from those of pandas")


def _measured(code: str, *arguments: object) -> list[float]:
    """Seconds by the clock and of processors, and peak megabytes, as a process says."""
    command = [sys.executable, "-c", _TIMES + code, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [float(word) for word in done.stdout.split()[-3:]]
