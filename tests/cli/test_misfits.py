"""Data that no model fits: commands say so, and never die of it."""

import json

import numpy as np
import pytest

import stationary as st

M = st.models
LOADS = np.tile([6.0, 10.0, 14.0, 18.0, 22.0], 4)


def written(path, windows, states):
    """Write windows of counts, one column per state."""
    rows = [",".join(["load", *(f"Q={k}" for k in range(states))])]
    for load, counts in zip(windows.loads.tolist(), windows.counts.int().tolist(), strict=True):
        rows.append(",".join(map(str, [load, *counts[:states]])))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def wrong_servers():
    return st.simulate(M.MMmK(servers=4, capacity=12, service_rate=7.0), LOADS, 30.0, seed=1)


def wrong_capacity():
    return st.simulate(M.MMmK(servers=1, capacity=40, service_rate=21.0), LOADS, 30.0, seed=2)


def drift():
    """A server that loses two thirds of its speed in the course of the recording."""
    parts = [
        st.simulate(M.MMmK(servers=1, capacity=12, service_rate=mu), LOADS[:5], 30.0, seed=k)
        for k, mu in enumerate([36.0, 28.0, 20.0, 12.0])
    ]
    counts = np.concatenate([part.counts.numpy() for part in parts])
    return st.Windows(LOADS, counts, range(13))


def bursts():
    """Requests that come in batches of about ten."""
    chain = M.RuleModel(
        variables={"q": (0, 12)},
        rules={
            "burst": "q < 12 -> q = min(q + 10, 12) at load / 10",
            "serve": "q > 0 -> q -= 1 at mu",
        },
        params={"mu": 25.0},
        jobs="q",
        count="q",
    )
    return st.simulate(chain, LOADS, 120.0, seed=4)  # in 30 s chance may hide it


def retries():
    """Requests that found the system full come back until they are let in."""
    chain = M.RuleModel(
        variables={"q": (0, 6), "waiting": (0, 30)},
        rules={
            "arrive": "q < 6 -> q += 1 at load",
            "refused": "q == 6 and waiting < 30 -> waiting += 1 at load",
            "retry": "q < 6 and waiting > 0 -> q += 1, waiting -= 1 at 2 * waiting",
            "serve": "q > 0 -> q -= 1 at mu",
        },
        params={"mu": 20.0},
        jobs="q + waiting",
        count="q",
    )
    return st.simulate(chain, LOADS, 30.0, seed=5)


SHOWN = ("drift", "bursts", "retries")
"""What counts of light load show; wrong servers and capacities they may not."""

CASES = {
    "wrong servers": (wrong_servers, 9, ["--servers", 1, "--capacity", 12]),
    "wrong capacity": (wrong_capacity, 9, ["--servers", 1, "--capacity", 8]),
    "drift": (drift, 9, ["--servers", 1, "--capacity", 12]),
    "bursts": (bursts, 9, ["--servers", 1, "--capacity", 12]),
    "retries": (retries, 7, ["--servers", 1, "--capacity", 6]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_misfit_gets_an_answer_and_no_trust_where_the_data_show_it(call, tmp_path, case):
    make, states, options = CASES[case]
    file, run = tmp_path / "windows.csv", tmp_path / "run"
    written(file, make(), states)
    code, out, err = call(
        *("compare", file, *options, "--jobs", 1, "--starts", 1),
        *("--slo", "loss<1%", "--slo", "response_time<1", "-o", run, "--json"),
    )
    assert code in (0, 1), err
    found = json.loads(out)
    assert found["limit"]["low"] <= found["limit"]["load"] <= found["limit"]["high"]
    if case in SHOWN:
        assert found["recommended"] is None
        assert not found["limit"]["trusted"]
    code, out, err = call("report", run, "-o", tmp_path / "report.html", "--no-compare")
    assert code in (0, 1), err
    assert "Traceback" not in out + err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "</html>" in page
    code, out, err = call("forecast", run, "--x", "5:40:5", "--json")
    assert code in (0, 1), err
