"""Lost requests as data."""

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.data import Latencies, Losses
from stationary.errors import InputError

M = st.models
TRUTH = M.MMmK(servers=1, capacity=8, service_rate=100.0)
LOADS = np.repeat([40.0, 60.0, 75.0, 85.0], 8)


def drawn(seed=0, each=3000):
    """Losses, and latencies of a fifth as many independent requests, at the same loads."""
    random, point = np.random.default_rng(seed), TRUTH.at(LOADS)
    edges = np.geomspace(1e-3, 0.3, 20)
    times = Latencies(np.full((len(LOADS), 21), each // 100), edges).draw(point, random)
    lost = Losses([[0, each]] * len(LOADS)).draw(point, random)
    return lost, times


def test_the_probability_is_the_loss_of_an_arriving_request():
    model = M.Resetting(capacity=8, service_rate=90.0)  # which loses some inside
    point = model.at([70.0, 120.0])
    found = Losses([[1, 9], [2, 8]]).on(model).probabilities(point)
    torch.testing.assert_close(found[:, 0], model.measure("loss")(point))
    torch.testing.assert_close(found.sum(-1), torch.ones(2, dtype=torch.float64))


def test_losses_alone_determine_a_service_rate():
    lost, _ = drawn()
    fit = st.fit(M.MMmK(capacity=8), st.Windows(LOADS, observations=[lost]))
    row = fit.table(0.999).iloc[0]
    assert row["low"] < 100.0 < row["high"]
    assert row["std_error"] < 1.0


def test_beside_latencies_they_are_used_and_narrow_the_answer():
    lost, times = drawn()
    both = st.fit(M.MMmK(capacity=8), st.Windows(LOADS, observations=[lost, times]))
    assert [kind.kind for kind in both.windows.observations] == ["losses", "latencies"]
    alone = st.fit(M.MMmK(capacity=8), both.windows, observations=["latencies"])
    assert both.table()["std_error"][0] < 0.9 * alone.table()["std_error"][0]
    assert both.estimates["service_rate"] == pytest.approx(100.0, rel=0.02)
    # Checks look at the latencies, not at two categories.
    assert both.windows.counted is times


def test_beside_states_or_without_a_loss_they_are_not():
    lost, times = drawn()
    states = st.simulate(TRUTH, LOADS, duration=5.0, seed=1).states
    seen = st.Windows(LOADS, observations=[lost, states])
    assert seen.informing([TRUTH]).observations == (states,)
    none = lost.with_data(lost.data * torch.tensor([0.0, 1.0]))
    seen = st.Windows(LOADS, observations=[none, times])
    assert seen.informing([TRUTH]).observations == (times,)


def test_files_hold_them(tmp_path):
    frame = pd.DataFrame({"load": [5.0, 6.0], "sent": [50, 60], "lost": [1, 4]})
    seen = st.Windows.from_frame(frame)
    assert seen.observations == (Losses([[1, 49], [4, 56]]),)
    seen.to_csv(tmp_path / "w.csv")
    assert st.read_windows(tmp_path / "w.csv") == seen


def test_more_lost_than_sent_is_refused():
    frame = pd.DataFrame({"load": [5.0, 6.0], "sent": [50, 60], "lost": [1, 61]})
    with pytest.raises(InputError, match=r"61 requests were lost of 60 sent"):
        st.Windows.from_frame(frame)
