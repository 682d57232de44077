"""Compile the kernels for this processor, once per installation, so that no test waits for it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import stationary as st
from stationary.ingest import Cut, Source, windows_from_events
from stationary.models.registry import model_class, names

LINE = 'me - - [19/Nov/2026:10:00:{:02}.{:03} +0000] "GET / HTTP/1.1" 200 9 12000\n'
SCHEMES = ("Events", "Arrivals", "PoissonCounts", "Responses")


def measures():
    """Percentiles with their slopes, of every queue."""
    for name in names():
        model = model_class(name)()
        if name != "uppertriangular":
            model.measure("p99")(model.at([2.0, 3.0])).sum().backward()


def simulation():
    """Windows of every scheme, and a fit."""
    queue = st.models.MMmK(servers=2, capacity=5, service_rate=2.0)
    for scheme in SCHEMES:
        kind = getattr(st.simulation, scheme)()
        windows = st.simulate(queue, [1.0, 2.0] * 9, duration=50.0, scheme=kind)
    st.fit(queue, windows)


def solvers():
    """Every solver, forward and backward."""
    kinds = [getattr(st.solvers, name)() for name in ("SparseLU", "Multigrid", "SparseGTH", "GTH")]
    for solver in kinds:
        rates = torch.rand(1, 60, 60, dtype=torch.float64).add(0.1).requires_grad_()
        st.steady_state(rates, solver=solver).pi[0, 0].backward()


def logs():
    """Windows of requests, from a log and from a table."""
    with TemporaryDirectory() as folder:
        log, table = Path(folder, "access.log"), Path(folder, "requests.csv")
        times = [(k // 50, k % 50 * 20) for k in range(3000)]
        log.write_text("".join(LINE.format(s, ms) for s, ms in times))
        table.write_text("arrival,response\n" + "".join(f"{k / 50},0.03\n" for k in range(3000)))
        for file in (log, table):
            windows_from_events(Source(str(file)), Cut(window=10.0, capacity=5)).windows()


if __name__ == "__main__":
    for part in (measures, simulation, solvers, logs):
        part()
