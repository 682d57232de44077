"""Held-out loads: how far a model may be trusted, and which model to take."""

import numpy as np
import pytest

import stationary as st
from stationary import words
from stationary.data import Misplaced
from stationary.terms.findings import Finding, Untrusted, Verdict
from stationary.terms.trust import Chosen, Reach
from stationary.trust.backtest import Score, can_be_refitted, cuts, horizon, misplaced
from stationary.trust.scoring import recommend
from stationary.trust.study import study

M = st.models
LOADS = np.tile(np.arange(6.0, 21.0, 2.0), 8)
TRUTH = M.MMmK(servers=1, capacity=10, service_rate=25.0)


def fitted(windows):
    return st.fit(M.MMmK(servers=1, capacity=10), windows)


@pytest.fixture(scope="module")
def right():
    return fitted(st.simulate(TRUTH, LOADS, duration=20.0, seed=0).observing([0, 1, 2, 3]))


def test_misplaced_is_half_the_sum_of_the_differences():
    seen = st.Windows([1.0, 1.0], [[60, 40], [20, 80]], [0, 1])
    assert misplaced(np.log([[0.5, 0.5], [0.5, 0.5]]), seen).share == pytest.approx(0.1)
    assert misplaced(np.log([[0.4, 0.6], [0.4, 0.6]]), seen).share == pytest.approx(0.0)


def test_the_noise_of_misplaced_is_its_scatter_over_fresh_windows():
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


# The horizon.


def test_a_right_model_is_trusted_as_far_as_it_was_tested(right):
    far = right.horizon.load
    assert far == pytest.approx(20.0 * 20.0 / cuts(right.windows, 1)[0])
    frame = right.forecast([15.0, 20.0, far, 1.01 * far])
    assert frame["trusted"].tolist() == [True, True, True, False]
    assert "no data tests the model at this load" in frame["reason"][3]


def test_a_model_that_fits_but_does_not_extrapolate_is_trusted_no_further():
    # The service rate changes with load, and a fit to all loads sees its mean.
    loads = np.repeat(np.arange(6.0, 21.0, 2.0), 12)
    parts = [
        st.simulate(M.MMmK(1, 10, 4 + 1.8 * load), [load] * 12, duration=20.0, seed=int(load))
        for load in np.unique(loads)
    ]
    counts = np.concatenate([part.counts.numpy() for part in parts])
    seen = st.Windows(loads, counts, range(11)).observing([0, 1])
    fit = fitted(seen)
    found = study(fit.estimate, seen)
    assert (
        horizon(fit.estimate, found.scores, found.cuts, seen).load < 30.0
    )  # of 50 if it were right
    assert fit.horizon.load in (0.0, 20.0)  # the checks of the data see it, too
    assert not fit.max_load(loss=0.01).trusted


@pytest.mark.parametrize(
    ("untrusted", "load"), [(Untrusted.ALL, 0.0), (Untrusted.UNSEEN_LOADS, 20.0)]
)
def test_warnings_of_checks_reduce_the_horizon(right, untrusted, load):
    known = study(right.estimate, right.windows)

    def far(*findings):
        return horizon(right.estimate, known.scores, known.cuts, right.windows, findings)

    bad = Finding("mine", Verdict.WARNING, "bad", untrusted=untrusted)
    found = far(Finding("other", Verdict.WARNING, "bad"), bad)
    assert (found.load, found.why, found.finding) == (load, Reach.FINDING, bad)
    assert far(Finding("mine", Verdict.OK, "fine", untrusted=untrusted)) == right.horizon


def test_a_model_that_does_not_fit_is_trusted_at_no_load(recording_file):
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
    found = fitted(st.simulate(TRUTH, [15.0] * count, duration=20.0, seed=0).observing([0, 1]))
    assert (found.horizon.load, found.horizon.why) == (15.0, Reach.TOO_FEW)


def test_a_horizon_survives_a_saved_run(right, tmp_path):
    right.save(tmp_path / "run")
    assert st.load(tmp_path / "run").horizon == right.horizon
    assert right.what_if(capacity=30).horizon == right.horizon
    assert right.what_if(servers=2, faster=1.5).horizon.load == 3 * right.horizon.load


def test_a_refit_that_fails_tests_nothing(right, monkeypatch):
    monkeypatch.setattr("stationary.trust.study.refit_below", lambda *given: None)
    found = study(right.estimate, right.windows)
    assert set(found.below) == {None}
    assert (found.horizon.load, found.horizon.why) == (20.0, Reach.NO_REFIT)


def test_negative_loads_are_extrapolated_by_a_step():
    def rates(load, p):
        return {("up", "down"): load.exp(), ("down", "up"): p.mend}

    model = M.FromFunction(rates, states=["up", "down"], params={"mend": 2.0})
    loads = np.tile(np.linspace(-2.0, 1.0, 7), 6)
    fit = st.fit(model, st.simulate(model, loads, duration=200.0, seed=1))
    assert 1.0 < fit.horizon.load <= 4.0
    assert fit.identify().ranges["load"].max() == 2.0
    table = st.compare({"own": model}, fit.windows, jobs=1).ranking()
    assert "trend in the load" not in set(table["model"])


# The choice of a model, on 16 held-out windows.

HELD = [st.Windows(np.arange(10.0, 26.0), [[5, 5]] * 16, [0, 1])]
NOISE = np.tile([-0.1, 0.1], 8)


def score(mean, noise=0.0, wrong=0.01):
    return Score(1.0 + mean + noise * NOISE, Misplaced(wrong, 0.0))


@pytest.mark.parametrize(
    ("changed", "model", "why", "equal"),
    [
        # 0.01 behind, give or take 0.1 / sqrt(16): as good as the best.
        ({}, "simple", Chosen.SIMPLEST, ("simple", "rich")),
        ({"simple": 0.05}, "rich", Chosen.BEST, ("rich",)),
        ({"noise": 0.0}, "rich", Chosen.BEST, ("rich",)),
        ({"rival": -0.2}, None, Chosen.RIVAL, ()),
        ({"wrong": 0.3}, "rich", Chosen.BEST, ("rich",)),
        ({"fitting": ("rich",)}, "rich", Chosen.BEST, ("rich",)),
        ({"fitting": ()}, None, Chosen.MISFIT, ()),
    ],
)
def test_the_simplest_model_within_the_noise_of_the_best_is_taken(changed, model, why, equal):
    case = {
        "rival": 0.5,
        "simple": 0.01,
        "noise": 1.0,
        "wrong": 0.01,
        "fitting": ("simple", "rich"),
    }
    case |= changed
    scores = {
        "simple": score(case["simple"], case["noise"], case["wrong"]),
        "rich": score(0.0),
        "trend": score(case["rival"]),
    }
    found = recommend(scores, {"simple": 1, "rich": 3}, case["fitting"], HELD)
    assert (found.model, found.why, found.equal, found.rival) == (model, why, equal, "trend")
    # Only a model that is worse than the best, beyond noise, is warned of.
    assert [name for name in ("simple", "rich") if not words.preferred(found, name)] == list(equal)


def test_chains_in_a_row_are_tested_however_long():
    assert can_be_refitted(st.models.MMmK(capacity=2049))
    assert can_be_refitted(st.models.ErlangService(phases=2, capacity=900))
    assert not can_be_refitted(st.models.ErlangService(phases=2, capacity=2049))
