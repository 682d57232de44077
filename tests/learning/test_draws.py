"""Draws: reproducible, smooth, honest about what could not be solved."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import RateError
from stationary.learning.draws import COUNT, Draws, from_estimate, from_refits
from stationary.planning.forecast import forecast, quantiles
from stationary.planning.limits import limit
from stationary.terms.slo import Slo

M = st.models
LOADS = np.tile(np.arange(8.0, 21.0, 2.0), 6)
TRUTH = M.MMmK(servers=1, capacity=10, service_rate=25.0)
LOSS = [Slo("loss", 0.01)]


@pytest.fixture(scope="module")
def fit():
    windows = st.simulate(TRUTH, LOADS, duration=10.0, seed=0).observing([0, 1, 2])
    return st.fit(M.MMmK(servers=1, capacity=10), windows)


def test_they_are_reproducible(fit):
    one, again, other = (from_estimate(fit.estimate, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.theta, again.theta)
    assert not torch.equal(one.theta, other.theta)
    assert fit.max_load(loss=0.01) == fit.max_load(loss=0.01)


def test_they_are_those_of_the_covariance(fit):
    part = from_estimate(fit.estimate)
    assert part.theta.shape == (COUNT, 1)
    assert part.weights.sum() == pytest.approx(1.0)
    z = part.theta.log().numpy().ravel()
    df, stderr = fit.covariance.df, fit.covariance.stderr[0]
    assert z.mean() == pytest.approx(np.log(fit.estimates["service_rate"]), abs=0.01 * stderr)
    assert z.std() == pytest.approx(stderr * np.sqrt(df / (df - 2)), rel=0.02)


def test_seeds_hardly_matter(fit):
    ends = [
        limit(Draws((from_estimate(fit.estimate, seed=seed),)), LOSS, 20.0) for seed in range(8)
    ]
    for end in ("low", "high"):
        values = np.array([getattr(each, end) for each in ends])
        assert values.std() / values.mean() < 1e-3


def test_answers_vary_smoothly(fit):
    # Along the load and the bound: no steps from one draw to the next.
    loads = np.linspace(20.0, 21.0, 101)
    table = forecast(fit.draws, loads, ["loss"])
    for ends in (table.low[:, 0], table.high[:, 0]):
        bend = np.abs(np.diff(np.log(ends), 2))
        assert bend.max() < 1e-3
    bounds = [limit(fit.draws, [Slo("loss", b)], 20.0).high for b in np.linspace(0.01, 0.011, 21)]
    assert np.abs(np.diff(bounds, 2)).max() < 1e-3


class Fragile(M.MMmK):
    """Cannot be solved where the service is slower than it may be."""

    name = ""
    least = 0.0

    def edge_rates(self, x, theta):
        if bool((theta[..., 0] < self.least).any()):
            raise RateError("too slow")
        return super().edge_rates(x, theta)


def test_draws_that_cannot_be_solved_are_counted_and_widen_both_ends(fit):
    theta = from_estimate(fit.estimate).theta
    model = Fragile(servers=1, capacity=10, service_rate=fit.estimates["service_rate"])
    model.least = float(theta.quantile(0.02))
    lost = int((theta < model.least).sum())
    broken = Draws((replace(from_estimate(fit.estimate), model=model),))
    values = broken.parts[0].drawn(torch.tensor([[[22.0]]], dtype=torch.float64), ["loss"])
    assert np.isnan(values).sum() == lost > 10
    whole, found = forecast(fit.draws, [22.0], ["loss"]), forecast(broken, [22.0], ["loss"])
    assert (whole.failed, found.failed) == (0, lost)
    assert found.low[0, 0] < whole.low[0, 0]  # although those that are lost have the largest loss
    assert found.high[0, 0] >= whole.high[0, 0]
    one, other = limit(fit.draws, LOSS, 20.0), limit(broken, LOSS, 20.0)
    assert other.failed == lost
    assert other.load == pytest.approx(one.load)
    assert other.low <= one.low < one.high < other.high
    # More of them than the interval leaves out: it has no ends any more.
    model.least = float(theta.quantile(0.05))
    open_ = forecast(broken, [22.0], ["loss"])
    assert (open_.low[0, 0], open_.high[0, 0]) == (0.0, 1.0)
    assert open_.doubts[0] is not None


def test_weighted_quantiles_are_those_of_repeated_values():
    random = np.random.default_rng(0)
    values, many = random.normal(size=(400, 3, 2)), random.integers(1, 6, size=400)
    ends, low, high = (0.025, 0.5, 0.975), np.full(2, -np.inf), np.full(2, np.inf)
    found = quantiles(values, many / many.sum(), ends, low, high)
    expected = np.quantile(np.repeat(values, many, axis=0), ends, axis=0, method="hazen")
    np.testing.assert_allclose(found, expected, atol=0.05)  # within two neighbours
    plain = quantiles(values, np.full(400, 1 / 400), ends, low, high)
    np.testing.assert_allclose(plain, np.quantile(values, ends, axis=0, method="hazen"), rtol=1e-9)


def test_infinite_draws_keep_finite_ends_apart():
    values = np.r_[np.arange(1.0, 97.0), np.full(4, np.inf)][:, None, None]
    low, middle, high = quantiles(
        values, np.full(100, 0.01), (0.025, 0.5, 0.975), np.zeros(1), np.full(1, np.inf)
    ).ravel()
    assert (low, middle, high) == pytest.approx((3.0, 50.5, np.inf))


# Several models, what-ifs and bootstraps.


@pytest.fixture(scope="module")
def pool():
    windows = st.simulate(TRUTH, LOADS, duration=10.0, seed=0).observing([0, 1, 2])
    models = {"mmmk": M.MMmK(capacity=10), "slowing": M.Slowing(servers=1, capacity=10)}
    return st.compare(models, windows, starts=1, jobs=1)


def test_pooled_draws_weigh_as_their_models(pool):
    assert pool.draws.weights.sum() == pytest.approx(1.0)
    assert len(pool.draws.parts) == 2
    for part, weight in zip(pool.draws.parts, pool.weights.values(), strict=True):
        assert part.weights.sum() == pytest.approx(weight)
    assert pool.draws.first is pool.fitted[max(pool.weights, key=pool.weights.get)].model
    assert set(pool.draws.measures) <= set(pool.fitted["slowing"].model.measures)


def test_a_what_if_keeps_the_draws(fit):
    (now,), (then,) = fit.draws.parts, fit.what_if(servers=2, faster=1.5).draws.parts
    torch.testing.assert_close(then.theta, 1.5 * now.theta, rtol=1e-14, atol=0)
    np.testing.assert_array_equal(then.weights, now.weights)
    assert then.model.options == {"servers": 2, "capacity": 10}


def test_a_bootstrap_draws_its_refits(fit):
    drawn = fit.bootstrap(40, jobs=1)
    (part,) = drawn.draws.parts
    assert torch.equal(part.theta, drawn.refits.theta)
    np.testing.assert_allclose(part.weights, 1 / 40)
    assert torch.equal(from_refits(fit.estimate, part.theta).theta, part.theta)
    values = part.drawn(torch.tensor([[[25.0]]], dtype=torch.float64), ["loss"]).ravel()
    exact = [M.MMmK(1, 10, float(rate)).closed_form([25.0])[0, -1] for rate in part.theta[:, 0]]
    np.testing.assert_allclose(values, exact, rtol=1e-10)


def test_what_the_data_leave_open_is_drawn_far_and_what_they_know_is_kept():
    # A steady state knows the ratio of two rates, not their size.
    def ratio(load, p):
        return {(0, 1): p.fail, (1, 0): p.repair}

    model = M.FromFunction(ratio, states=2, params={"fail": 1.0, "repair": 1.0})
    down = np.random.default_rng(0).binomial(50, 0.3, size=30)
    windows = st.Windows(np.ones(30), np.column_stack([50 - down, down]), [0, 1])
    found = st.fit(model, windows)
    part = from_estimate(found.estimate)
    assert float(part.theta[:, 0].max() / part.theta[:, 0].min()) > 1e20
    odds = (part.theta[:, 0] / part.theta[:, 1]).log().numpy()
    direction = np.array([1.0, -1.0])
    df = found.covariance.df
    stderr = np.sqrt(direction @ found.covariance.matrix @ direction * df / (df - 2))
    assert odds.std() == pytest.approx(stderr, rel=0.05)
