from dataclasses import replace

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.paper import chains, testbed
from stationary.paper.columns import METHODS
from stationary.paper.runner import errors
from stationary.paper.settings import rows


@pytest.fixture(scope="module")
def recording(recording_file):
    return testbed.read_recording(recording_file)


def write(path, **columns):
    path.write_text(
        ",".join(columns)
        + "\n"
        + "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    )
    return path


def _sorted(recording, predicted):
    loads = recording.heavy.loads.numpy()
    order = np.argsort(loads)
    return loads[order], np.array(predicted)[order]


def test_columns_are_read_and_cut(tmp_path):
    levels = {f"Q={k}": [k + 1, k + 2] for k in range(24)}
    calls = {"callrate": [500, 1500], "successful_calls": [300, 5], "failed_calls": [0, 7]}
    file = write(tmp_path / "r.csv", **calls, **levels)
    found = testbed.read_recording(file)
    assert found.light.counts.shape == found.heavy.counts.shape == (1, 22)
    assert found.heavy.counts[0, -1] == 23 + 24 + 25  # sizes 21 to 23 are overload
    assert found.target.tolist() == [72 / 1500]
    assert found.failed.tolist() == [7]
    assert found.agree == 1  # the first window's 1 + 2 + ... + 24


CALLS = {"callrate": [500, 1500], "successful_calls": [24, 24], "failed_calls": [0, 0]}
LEVELS = {f"Q={k}": [1, 1] for k in range(24)}


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ({"callrate": [500], "Q=0": [3], "Q=1": [4]}, "no column 'successful_calls'"),
        ({**CALLS, "Q=0": [3, 3], "Q=1": [4, 4]}, "columns Q=0 to Q=21 or more"),
        ({**CALLS, "failed_calls": [0, "abc"], **LEVELS}, "line 3, column 'failed_calls'"),
        ({**CALLS, "callrate": [500, 600], **LEVELS}, "loads below and above 1000"),
    ],
)
def test_a_file_that_is_no_recording(tmp_path, columns, names):
    with pytest.raises(InputError, match=names):
        testbed.read_recording(write(tmp_path / "r.csv", **columns))
    with pytest.raises(InputError, match=r"none.csv: there is no such file"):
        testbed.read_recording(tmp_path / "none.csv")


@pytest.mark.parametrize("phases", [1, 3])
def test_burst_queue_is_a_chain_whose_clock_runs_at_its_rate(phases):
    """The phase is a clock of its own: uniform, whatever the queue does, but for the resets."""
    model = chains.bursts(phases)
    chain = model([200.0, 900.0])
    chain.check_irreducible()
    assert model.visible == tuple(map(str, range(22)))
    pi = st.steady_state(chain).pi.reshape(2, -1, phases).sum(1)
    assert torch.allclose(pi, torch.full_like(pi, 1 / phases), rtol=1e-9)


def test_burst_queue_of_one_phase_by_hand():
    """One phase: an M/M/1/K that is emptied at rate 100 and stalls, solved densely."""
    model = chains.bursts(1)
    load, service, stall = 300.0, 500.0, 3.0
    n = 23
    Q = np.zeros((n, n))
    for k in range(n - 1):
        if k < 21:
            Q[k, k + 1] += load
        if k >= 1:
            Q[k, k - 1] += service
            Q[k, 0] += 100.0
        Q[k, n - 1] += stall
    Q[n - 1, 0] += 100.0
    Q -= np.diag(Q.sum(1))
    A = np.vstack([Q.T, np.ones(n)])
    expected = np.linalg.lstsq(A, np.eye(n + 1)[-1], rcond=None)[0]
    theta = torch.tensor([service, stall], dtype=torch.float64)
    found = st.steady_state(model.generator(model.as_inputs([load]), theta)).pi[0]
    assert found.numpy() == pytest.approx(expected, rel=1e-8)


def test_facts_of_the_recording(recording):
    assert (len(recording.light), len(recording.heavy)) == (86, 137)
    low, high = recording.target.aminmax()
    assert (round(low.item(), 4), round(high.item(), 4)) == (0.0045, 0.1629)
    zero = errors(torch.zeros_like(recording.target), recording.target)
    assert (zero["mape"], zero["mse"]) == (1.0, pytest.approx(8.5e-3, abs=5e-5))
    assert recording.agree == 223  # windows whose counts add up to the successful calls
    slope, at_zero = testbed.plateau(recording.light)
    assert 0.009 < slope < 0.013  # bursts of about 10 ms
    assert abs(at_zero) < 1
    facts = testbed.facts(recording)
    assert facts["overload at light load"].startswith("1.9%")
    assert "129 of 137" in facts["overload, the target, against calls that failed, test windows"]


def test_upper_triangular_on_two_states_forecasts_anything(recording, monkeypatch):
    # The odds of overload are as free at one start's optimum as at the best of thirty.
    row = replace(rows()["testbed"], starts=1)
    monkeypatch.setattr(testbed, "rows", lambda: {"testbed": row})
    equal = testbed.undetermined(recording)
    assert equal["nll"].max() - equal["nll"].min() < 1e-6
    at_1500 = [np.interp(1500, *_sorted(recording, p)) for p in equal["predicted"]]
    assert min(at_1500) < 2e-6
    assert max(at_1500) > 0.999
    assert at_1500 == pytest.approx(equal["overload"].tolist(), rel=0.2)


def test_the_picked_chain_meets_the_goal_without_the_test_windows(recording):
    ladder = testbed.ladder(recording)
    picked = ladder[ladder["picked"]].iloc[0]
    assert picked["model"] == "bursts, 4 phases, stalls"
    assert picked["mape"] <= 0.48
    assert picked["mse"] <= 2e-3
    trivial = ladder[ladder["model"].isin(["predict zero", "training mean", "logistic on load"])]
    assert picked["mape"] < trivial["mape"].min()
    assert picked["mse"] < trivial["mse"].min()


def test_mm1k_on_the_recording_is_as_bad_as_printed(recording):
    problem = testbed.problems(recording)["testbed-mm1k"]
    found = METHODS["mle"].run([problem], [0], 1.0)[0]
    score = errors(found.predicted[-1], problem.target)
    assert score["mape"] == pytest.approx(4.49, rel=0.02)
    assert score["mse"] == pytest.approx(7.78e-2, rel=0.02)
