"""Does a fit grow with the number of windows? Files of 100 to 10 million, at 100 different loads.

Each line is a process of its own, so that its peak of memory is its own: read a Parquet file with
``pooled=True``, fit, sandwich covariance included; then the same without pooling, but not for
the largest files.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.timing import milliseconds, table

SIZES = [10**k for k in range(2, 8)]
_MOST_SINGLE = 10**6
_LOADS = np.linspace(5.0, 20.0, 100)
_CATEGORIES = 4
_SERVICE = 25.0
_BLOCK = 10**6


def write(path: Path, windows: int) -> None:
    """Write windows of M/M/1/20, observed as 0..3, a block at a time."""
    random = np.random.default_rng(windows)
    shares = (_LOADS[:, None] / _SERVICE) ** np.arange(_CATEGORIES)
    shares /= shares.sum(1, keepdims=True)
    writer = None
    for first in range(0, windows, _BLOCK):
        # Every load is there, in mixed order.
        which = random.permutation(np.arange(first, min(first + _BLOCK, windows)) % len(_LOADS))
        counts = random.multinomial(40, shares[which])
        columns = {"load": _LOADS[which]} | {f"Q={k}": counts[:, k] for k in range(_CATEGORIES)}
        block = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, block.schema)
        writer.write_table(block)
    assert writer is not None  # noqa: S101
    writer.close()


def measure(path: Path, pooled: bool) -> dict[str, float]:
    """Read and fit a file in this process."""
    import stationary as st

    model = st.models.MMmK(servers=1, capacity=20)
    warm = st.Windows([10.0, 12.0], [[9, 5], [8, 6]], observe=[0, 1])
    st.fit(model, warm, method=st.Newton(starts=1))  # compiles
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    windows = st.read_windows(path, pooled=pooled)
    read = time.perf_counter()
    fit = st.fit(model, windows)
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "read": read - began,
        "fit": ended - read,
        "peak": peak / 1024,
        "more": (peak - start) / 1024,
        "estimate": fit.estimates["service_rate"],
        "error": float(fit.covariance.stderr[0]),
    }


def main() -> None:
    """Print one line per size."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for windows in SIZES:
            path = Path(folder, f"{windows}.parquet")
            write(path, windows)
            found = {
                pooled: _in_a_process(path, pooled)
                for pooled in (True, False)
                if pooled or windows <= _MOST_SINGLE
            }
            size = f"{path.stat().st_size / 1e6:.3g}"
            path.unlink()
            cells = [f"{windows:.0e}", size]
            for pooled in (True, False):
                one = found.get(pooled)
                cells += ["", "", ""] if one is None else _cells(one)
            lines.append([*cells, f"{found[True]['estimate']:.5g} +- {found[True]['error']:.1%}"])
    table(
        f"Fits of M/M/1/20 to files of windows at {len(_LOADS)} loads; ms, MB beyond an idle start",
        [
            *("windows", "file, MB", "pooled: read", "fit", "memory"),
            *("single: read", "fit", "memory", "service rate"),
        ],
        lines,
    )


def _cells(one: dict[str, float]) -> list[str]:
    return [milliseconds(one["read"]), milliseconds(one["fit"]), f"{one['more']:.0f}"]


def _in_a_process(path: Path, pooled: bool) -> dict[str, float]:
    script = (
        "import json, sys; from pathlib import Path; from benchmarks.windows import measure; "
        "print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2] == 'True')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(pooled)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found
