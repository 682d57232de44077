"""How far a model may be believed: by what it forecast of loads it had not seen."""

import numpy as np
import pytest

import stationary as st
from stationary import words
from stationary.terms.findings import Check, Finding, Verdict
from stationary.terms.trust import Reach
from stationary.trust.backtest import cuts, doubted, horizon, misplaced
from stationary.trust.study import study

M = st.models
LOADS = np.tile(np.arange(6.0, 21.0, 2.0), 8)


def windows(truth, loads=LOADS, duration=20.0, seed=0):
    return st.simulate(truth, loads, duration=duration, seed=seed)


@pytest.fixture(scope="module")
def right():
    seen = windows(M.MMmK(servers=1, capacity=10, service_rate=25.0)).observing([0, 1, 2, 3])
    return st.fit(M.MMmK(servers=1, capacity=10), seen)


def test_misplaced_is_half_the_sum_of_the_differences():
    seen = st.Windows([1.0, 1.0], [[60, 40], [20, 80]], [0, 1])
    assert misplaced(np.log([[0.5, 0.5], [0.5, 0.5]]), seen).share == pytest.approx(0.1)
    assert misplaced(np.log([[0.4, 0.6], [0.4, 0.6]]), seen).share == pytest.approx(0.0)


def test_the_noise_of_misplaced_is_what_fresh_windows_scatter():
    truth = M.MMmK(servers=1, capacity=5, service_rate=25.0)
    p = truth.closed_form([15.0])[0, :2].numpy()
    p = np.tile(p / p.sum() + [0.05, -0.05], (40, 1))
    found = []
    for seed in range(200):
        seen = st.simulate(truth, [15.0] * 40, duration=5.0, seed=seed).observing([0, 1])
        found.append(misplaced(np.log(p), seen))
    spread = np.std([wrong.share for wrong in found])
    assert np.mean([wrong.error for wrong in found]) == pytest.approx(spread, rel=0.15)
    assert np.mean([wrong.share for wrong in found]) == pytest.approx(0.05, abs=0.005)


def test_cuts_leave_windows_on_either_side():
    seen = st.Windows(np.arange(1.0, 21.0), [[5, 5]] * 20, [0, 1])
    for cut in cuts(seen, parameters=1):
        assert (seen.loads <= cut).sum() >= 5
        assert (seen.loads > cut).sum() >= 4
    assert cuts(seen, parameters=17) == []
    assert cuts(st.Windows([7.0] * 20, [[5, 5]] * 20, [0, 1]), parameters=1) == []


def test_a_right_model_is_believed_as_far_as_it_stretched(right):
    lightest = cuts(right.windows, 1)[0]
    assert right.horizon.load == pytest.approx(20.0 * 20.0 / lightest)
    frame = right.forecast([15.0, 20.0, right.horizon.load, 1.01 * right.horizon.load])
    assert frame["trusted"].tolist() == [True, True, True, False]
    assert frame["reason"][3].startswith("no data tests the model at this load: fitted to loads")


def test_a_model_that_fits_but_does_not_stretch_is_believed_no_further():
    # A service rate that moves with load, of which a fit to all loads sees the mean.
    loads = np.repeat(np.arange(6.0, 21.0, 2.0), 12)
    parts = [
        windows(M.MMmK(1, 10, 4 + 1.8 * load), loads=[load] * 12, seed=int(load))
        for load in np.unique(loads)
    ]
    counts = np.concatenate([part.counts.numpy() for part in parts])
    seen = st.Windows(loads, counts, range(11)).observing([0, 1])
    fit = st.fit(M.MMmK(servers=1, capacity=10), seen)
    found = study(fit.estimate, seen)
    bare = horizon(fit.estimate, found.below, found.cuts, seen)
    assert bare.load < 30.0  # a right model would be believed at 50
    # The checks of the data see it, too.
    assert fit.horizon.load in (0.0, 20.0)
    assert not fit.max_load(loss=0.01).trusted


@pytest.mark.parametrize(("check", "load"), [(Check.LACK_OF_FIT, 0.0), (Check.BURSTS, 20.0)])
def test_checks_that_warn_draw_the_horizon_in(right, check, load):
    bad = Finding(check, Verdict.WARNING, "bad")
    found = doubted(right.horizon, [bad])
    assert (found.load, found.why, found.finding) == (load, Reach.FINDING, bad)
    fine = [Finding(check, Verdict.OK, "fine"), Finding(Check.HYSTERESIS, Verdict.WARNING, "up")]
    assert doubted(right.horizon, fine) == right.horizon


def test_a_model_that_does_not_fit_is_not_believed_at_all(recording_file):
    seen = st.read_windows(recording_file, x="callrate", counts="Q={}", loads=(1.0, 1000.0))
    seen = st.Windows(seen.x, seen.counts[:, :22], range(22), "arrival")
    fit = st.fit(M.MMmK(servers=1, capacity=21), seen)
    assert fit.horizon.load == 0
    assert fit.horizon.why in (Reach.MISFIT, Reach.FINDING)
    assert not fit.forecast([300.0, 900.0, 1500.0])["trusted"].any()
    limit = fit.max_load(loss=0.05)
    assert limit.doubt.horizon == fit.horizon
    assert words.horizon(fit.horizon) in words.limit(limit)


@pytest.mark.parametrize("count", [3, 40])
def test_one_load_or_few_windows_test_nothing(count):
    truth = M.MMmK(servers=1, capacity=10, service_rate=25.0)
    seen = windows(truth, loads=[15.0] * count).observing([0, 1])
    found = st.fit(M.MMmK(servers=1, capacity=10), seen).horizon
    assert (found.load, found.why) == (15.0, Reach.TOO_FEW)


def test_a_horizon_survives_a_saved_run(right, tmp_path):
    right.save(tmp_path / "run")
    assert st.load(tmp_path / "run").horizon == right.horizon
    changed = right.what_if(capacity=30)
    assert changed.horizon == right.horizon
    assert right.what_if(servers=2, faster=1.5).horizon.load == 3 * right.horizon.load


def test_a_refit_that_fails_tests_nothing(right, monkeypatch):
    monkeypatch.setattr("stationary.trust.study.refit_below", lambda *given: None)
    found = study(right.estimate, right.windows)
    assert set(found.below) == {None}
    assert (found.horizon.load, found.horizon.why) == (20.0, Reach.NO_REFIT)


def test_loads_that_may_be_negative_stretch_by_a_step():
    def rates(load, p):
        return {("up", "down"): load.exp(), ("down", "up"): p.mend}

    model = M.FromFunction(rates, states=["up", "down"], params={"mend": 2.0})
    loads = np.tile(np.linspace(-2.0, 1.0, 7), 6)
    fit = st.fit(model, st.simulate(model, loads, duration=200.0, seed=1))
    assert 1.0 < fit.horizon.load <= 4.0
    assert fit.identify().ranges["load"].max() == 2.0
    table = st.compare({"own": model}, fit.windows, jobs=1).ranking()
    assert "trend in the load" not in set(table["model"])
