"""Requests that give up: forecasts from every kind of observation, against a simulation."""

import heapq

import numpy as np
import pytest

import stationary as st
from stationary.ingest import Cut, Source, windows_from_events

SERVERS, MEAN, PATIENCE = 4, 0.03, 0.15


def log(loads, step, seed):
    """Requests at four servers that are lost where they would wait longer than the patience."""
    random = np.random.default_rng(seed)
    free, rows, start = [0.0] * SERVERS, [], 0.0
    for load in loads:
        for arrival in np.sort(random.uniform(start, start + step, random.poisson(load * step))):
            begin = max(free[0], arrival)
            lost = begin - arrival > PATIENCE
            if not lost:
                end = begin + random.gamma(1 / 0.6, 0.6 * MEAN)
                heapq.heapreplace(free, end)
            rows.append((arrival, PATIENCE if lost else end - arrival, 503 if lost else 200))
        start += step
    return np.array(rows)


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patience")
    light = log(np.random.default_rng(0).permutation(np.linspace(13, 80, 22)), 10.0, 1)
    header = "arrival,response,status"
    np.savetxt(folder / "log.csv", light, "%.9g", ",", header=header, comments="")
    cut = Cut(window=10.0, servers=(SERVERS,))
    windows_from_events(Source(str(folder / "log.csv")), cut).write(folder / "windows.csv")
    return st.read_windows(folder / "windows.csv")


@pytest.mark.parametrize("kind", ["service times", "latencies", "states"])
def test_patience_without_a_capacity_forecasts_what_happens_later(windows, kind):
    alone = windows.using([kind])
    alone = st.Windows(alone.x, observations=alone.observations, duration=alone.duration)
    plan = st.plan(alone, servers=SERVERS, patience=PATIENCE, slo="loss < 1%")
    assert set(plan.weights) == {"service"}  # no model without patience speaks for it
    assert [each.name for each in plan.assumed()] == ["servers", "patience", "retries"]
    loads = [133.0, 160.0, 200.0]
    rows = plan.forecast(loads, measures=["loss", "response_time", "p95"])
    for row, load in zip(rows.itertuples(), loads, strict=True):
        arrival, response, status = log([load], 1500.0, 2).T
        served = response[status == 200]
        assert row.loss_low < 1 - len(served) / len(arrival) < row.loss_high
        assert row.response_time_low < served.mean() < row.response_time_high
        assert row.p95_low < np.quantile(served, 0.95) < row.p95_high
    # A simulation of 25 loads crosses 1 % at 121.
    assert plan.limit.low < 121 < plan.limit.high
