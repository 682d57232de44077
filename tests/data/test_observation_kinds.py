"""A new kind of observation is one small class, and goes the whole way."""

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.learning.likelihood import Likelihood
from stationary.words import finding

M = st.models
TRUTH = M.MMmK(servers=1, capacity=10, service_rate=25.0)
LOADS = np.tile(np.arange(8.0, 21.0, 2.0), 6)


class Idle(st.Counts):
    """How often the system was seen idle, and how often busy."""

    kind = "idle"
    columns = ("idle", "busy")

    def on(self, model):
        return self

    def probabilities(self, point):
        idle = point.pi[..., :1]
        return torch.cat([idle, 1 - idle], -1)


class Failed(st.Counts):
    """Requests that failed: those that found the system full, and a share of the others."""

    kind = "failed"
    columns = ("failed", "served")

    def on(self, model):
        return self

    def probabilities(self, point):
        share = point.p.share / (1 + point.p.share)
        failed = point.pi[..., -1:] + (1 - point.pi[..., -1:]) * share
        return torch.cat([failed, 1 - failed], -1)


class Services(st.Observation):
    """How many services ended, and how long they took in all: exponential times."""

    kind = "services"
    columns = ("services", "time")

    def __init__(self, data):
        self.__dict__["data"] = torch.as_tensor(data, dtype=torch.float64)

    def on(self, model):
        return self

    def log_terms(self, point):
        rate = point.p.service_rate.expand(*point.x.shape[:-1], 1)
        return torch.cat([rate.log(), -rate], -1)

    def draw(self, point, random):
        n = self.data[:, 0].numpy()
        times = random.gamma(n, 1 / point.p.service_rate.detach().numpy())
        return self.with_data(torch.from_numpy(np.column_stack([n, times])))

    @property
    def size(self):
        return self.data[:, 0]


def idle(seed, samples=400):
    p = TRUTH.closed_form(LOADS)[:, 0].numpy()
    seen = np.random.default_rng(seed).binomial(samples, p)
    return Idle(np.column_stack([seen, samples - seen]))


@pytest.fixture(scope="module", params=["alone", "beside states"])
def windows(request):
    if request.param == "alone":
        return st.Windows(LOADS, observations=[idle(0)])
    states = st.simulate(TRUTH, LOADS, duration=20.0, seed=1).observing([0, 1, 2]).states
    return st.Windows(LOADS, observations=[states, idle(0)])


@pytest.fixture(scope="module")
def fit(windows):
    return st.fit(M.MMmK(servers=1, capacity=10), windows)


def test_it_is_fitted_and_covered(fit):
    assert fit.converged
    row = fit.table(0.999).iloc[0]
    assert row["low"] < 25.0 < row["high"]
    assert fit.covariance.kind == "sandwich"
    assert row["std_error"] < 1.0
    assert "idle, busy" in str(fit)


def test_both_kinds_together_are_the_sum_of_their_likelihoods():
    states = st.simulate(TRUTH, LOADS, duration=20.0, seed=1).observing([0, 1, 2]).states
    model, z = M.MMmK(servers=1, capacity=10), np.array([3.0])
    parts = [
        Likelihood(model, st.Windows(LOADS, observations=kinds)).value_and_gradient(z)
        for kinds in ([states], [idle(0)], [states, idle(0)])
    ]
    assert parts[2][0] == pytest.approx(parts[0][0] + parts[1][0], rel=1e-12)
    np.testing.assert_allclose(parts[2][1], parts[0][1] + parts[1][1], rtol=1e-10)


def test_it_is_checked_and_backtested(fit):
    assert all(map(finding, fit.findings))
    study = fit.studies["mmmk"]
    assert None not in study.below
    assert len(study.below) == len(study.cuts) > 1
    assert fit.horizon.load > 20.0


def test_it_forecasts_and_has_a_limit(fit):
    frame = fit.forecast([15.0, 25.0])
    exact = TRUTH.closed_form([15.0, 25.0])[:, -1].numpy()
    assert (frame["loss_low"] < exact).all()
    assert (exact < frame["loss_high"]).all()
    limit = fit.max_load("loss<1%")
    assert limit.low < limit.load < limit.high


def test_models_are_compared_on_it(windows):
    models = {"mmmk": M.MMmK(capacity=10), "slowing": M.Slowing(servers=1, capacity=10)}
    found = st.compare(models, windows, starts=1, jobs=1)
    assert found.recommended == "mmmk"
    assert sum(found.weights.values()) == pytest.approx(1.0)
    assert {"as on average", "trend in the load"} <= set(found.ranking()["model"])


def test_it_is_bootstrapped(fit):
    drawn = fit.bootstrap(60, jobs=1)
    assert drawn.refits.failed == 0
    wide, narrow = drawn.table()["std_error"][0], fit.table()["std_error"][0]
    assert wide == pytest.approx(narrow, rel=0.4)


def test_it_is_saved(fit, tmp_path):
    fit.save(tmp_path / "run")
    back = st.load(tmp_path / "run")
    assert back.windows == fit.windows
    assert type(back.windows.observations[-1]) is Idle
    pd.testing.assert_frame_equal(back.forecast([25.0]), fit.forecast([25.0]), check_exact=True)


def test_a_run_of_an_unknown_kind_says_what_to_import(fit, tmp_path, monkeypatch):
    fit.save(tmp_path / "run")
    monkeypatch.delitem(st.Observation.kinds, "idle")
    with pytest.raises(st.errors.RunError, match="'idle': import the module that defines it"):
        st.load(tmp_path / "run")


def test_the_next_experiment_knows_what_it_would_tell(fit):
    test = fit.next_experiment([10.0, 20.0], loss=0.01)
    assert (test.table["ratio"] < 1).all()


def test_fresh_data_of_it_can_be_drawn():
    point = TRUTH.at(torch.from_numpy(LOADS)[:, None])
    drawn = idle(0, samples=100_000).draw(point, np.random.default_rng(3))
    p = TRUTH.closed_form(LOADS)[:, 0]
    torch.testing.assert_close(drawn.data[:, 0] / drawn.size, p, rtol=0, atol=0.01)


def failing(load, p):
    return {(0, 1): load, (1, 2): load, (1, 0): p.service, (2, 1): p.service}


def test_a_kind_that_reads_parameters_has_their_slope():
    model = M.FromFunction(failing, states=3, params={"service": 5.0, "share": 0.1})
    counts = np.random.default_rng(0).integers(1, 50, size=(6, 2))
    data = st.Windows([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], observations=[Failed(counts)])
    likelihood, z = Likelihood(model, data), np.array([1.2, -1.5])
    value, gradient = likelihood.value_and_gradient(z)
    assert value == pytest.approx(float(likelihood(torch.from_numpy(z))), rel=1e-12)
    step = 1e-5 * np.eye(2)
    ends = [[likelihood.value_and_gradient(z + side * h)[0] for side in (1, -1)] for h in step]
    np.testing.assert_allclose(gradient, np.array(ends) @ [1, -1] / 2e-5, rtol=1e-7)
    hessian = [
        likelihood.value_and_gradient(z + h)[1] - likelihood.value_and_gradient(z - h)[1]
        for h in step
    ]
    np.testing.assert_allclose(likelihood.hessian(z), np.array(hessian) / 2e-5, rtol=1e-6)


def test_sums_of_service_times_give_the_closed_form():
    random = np.random.default_rng(1)
    n = random.integers(20, 60, size=12)
    data = np.column_stack([n, random.gamma(n, 1 / 25.0)])
    windows = st.Windows(np.linspace(5.0, 20.0, 12), observations=[Services(data)])
    fit = st.fit(M.MMmK(servers=1, capacity=10), windows)
    rate = n.sum() / data[:, 1].sum()
    assert fit.estimates["service_rate"] == pytest.approx(rate, rel=1e-7)
    assert fit.nll == pytest.approx(-(n.sum() * np.log(rate) - rate * data[:, 1].sum()), rel=1e-9)
    # Of exponential times the logarithm of the rate has the variance 1 / n.
    naive = st.fit(M.MMmK(1, 10), windows, covariance=st.covariances.Information())
    assert naive.covariance.stderr[0] == pytest.approx(n.sum() ** -0.5, rel=1e-6)
    assert fit.forecast([25.0])["loss"][0] > 0
    assert fit.horizon.load == 20.0  # what has no places cannot be misplaced
    assert all(map(finding, fit.findings))
