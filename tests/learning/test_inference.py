"""Standard errors and intervals: against sums by hand, and against what they promise."""

import warnings
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch

import stationary as st
from stationary.errors import ConvergenceWarning, InputError
from stationary.learning.covariances import covariance
from stationary.learning.derivatives import value_and_jacobian
from stationary.learning.draws import Draws, from_estimate
from stationary.learning.inference import UNDETERMINED, Covariance, Link, nats_above_minimum
from stationary.learning.likelihood import Likelihood
from stationary.models.measures import Measure
from stationary.models.scales import Scale
from stationary.planning.forecast import forecast

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 10)
NO_FLAT = np.zeros((1, 0))


def fast_mix(seed, duration=1.0):
    """The paper's M/M/1/K fast-mix data: Algorithm 1, 20 states, states 0 and 1 observed."""
    truth = M.MMmK(servers=1, capacity=19, service_rate=25.0)
    scheme = st.simulation.Events(gamma=(LOADS + 25 + 40).tolist())
    windows = st.simulate(truth, LOADS, duration=duration, seed=seed, scheme=scheme)
    seen = windows.counts[:, :2].sum(-1) > 0  # a window may see neither state
    return windows.select(seen.numpy()).observing([0, 1])


# Coverage: what the intervals promise, over fresh data sets.


@dataclass
class Study:
    """What the intervals of many data sets covered; ``naive`` by the plain inverse Hessian."""

    parameter: np.ndarray
    loss: np.ndarray
    naive_parameter: np.ndarray
    naive_loss: np.ndarray


TRUE_LOSS = float(M.MMmK(1, 19, 25.0).closed_form([40.0])[0, -1])


def loss_at(estimate, load):
    """Interval of the loss from an estimate alone, without a horizon."""
    found = forecast(Draws((from_estimate(estimate),)), [load], ["loss"])
    return found.low[0, 0], found.high[0, 0]


@pytest.fixture(scope="module")
def study():
    rows = []
    for seed in range(300):
        windows = fast_mix(seed)
        fit = st.fit(M.MMmK(servers=1, capacity=19), windows, method=st.Newton(starts=1))
        table, z = fit.table(), np.log(fit.model.theta.detach().numpy())
        H = Likelihood(fit.model, windows).hessian(z)
        naive = Covariance(np.linalg.inv(H), 0, "naive", NO_FLAT, fit.covariance.scale)
        reach = naive.quantile(0.95) * naive.stderr[0]
        sure, unsure = (
            loss_at(replace(fit.estimate, covariance=cov), 40.0) for cov in (fit.covariance, naive)
        )
        rows.append(
            (
                table["low"][0] <= 25.0 <= table["high"][0],
                sure[0] <= TRUE_LOSS <= sure[1],
                abs(z[0] - np.log(25.0)) <= reach,
                unsure[0] <= TRUE_LOSS <= unsure[1],
            )
        )
    return Study(*np.array(rows).T)


@pytest.mark.parametrize("what", ["parameter", "loss"])
@pytest.mark.slow
def test_intervals_cover_what_they_promise(study, what):
    hits = getattr(study, what)
    low, high = scipy.stats.binom.interval(0.999, len(hits), 0.95)
    assert low <= hits.sum() <= high


@pytest.mark.parametrize("what", ["naive_parameter", "naive_loss"])
@pytest.mark.slow
def test_the_plain_inverse_hessian_would_not(study, what):
    # Counts inside a window are autocorrelated: it covers about three times in four.
    hits = getattr(study, what)
    assert hits.sum() < scipy.stats.binom.ppf(0.001, len(hits), 0.85)


@pytest.mark.slow
def test_on_independent_counts_both_agree():
    truth = M.MMmK(servers=1, capacity=5, service_rate=25.0)
    ratios = []
    for seed in range(20):
        windows = st.simulate(
            truth, LOADS, duration=20.0, seed=seed, scheme=st.simulation.PoissonCounts()
        ).observing([0, 1])
        fit = st.fit(M.MMmK(servers=1, capacity=5), windows, method=st.Newton(starts=1))
        H = Likelihood(fit.model, windows).hessian(np.log(fit.model.theta.detach().numpy()))
        ratios.append(fit.covariance.matrix[0, 0] * H[0, 0])
    assert np.mean(ratios) == pytest.approx(1.0, abs=4 * np.std(ratios) / np.sqrt(20))


# The sandwich by hand.


def test_sandwich_is_the_sum_over_windows():
    windows = fast_mix(3)
    model = M.MMmK(servers=1, capacity=19)
    z = np.array([np.log(24.0)])
    found = covariance(Likelihood(model, windows), windows, model.natural(torch.tensor(z)))

    def slope(one):
        part = Likelihood(model, windows.select([one]))
        return (part.value_and_gradient(z + 1e-5)[0] - part.value_and_gradient(z - 1e-5)[0]) / 2e-5

    scores = np.array([slope(k) for k in range(len(windows))])
    scores -= scores.mean()
    H = Likelihood(model, windows).hessian(z)[0, 0]
    spare = len(windows) - 1
    expected = (scores**2).sum() * len(windows) / spare / H**2
    assert found.matrix[0, 0] == pytest.approx(expected, rel=1e-6)
    assert found.stderr[0] == pytest.approx(np.sqrt(expected), rel=1e-6)
    assert found.df == spare
    assert (found.kind, found.block) == ("sandwich", 1)


@pytest.mark.parametrize("inputs", [1, 2, 3, 7])
def test_jacobian_is_that_of_autograd(inputs):
    def function(z):
        return torch.stack([z.prod(), z.sin().sum(), (z**2).sum() * z[0]]).reshape(3, 1)

    z = np.random.default_rng(0).normal(size=inputs)
    _, found = value_and_jacobian(function, z)
    expected = torch.autograd.functional.jacobian(function, torch.tensor(z))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-13)


# What the data does not determine.


def ratio_only(load, p):
    return {(0, 1): p.fail, (1, 0): p.repair}


def test_a_flat_direction_is_undetermined_and_the_rest_is_not():
    # A steady state knows the ratio of two rates, not their size.
    model = M.FromFunction(ratio_only, states=2, params={"fail": 1.0, "repair": 1.0})
    counts = np.random.default_rng(0).binomial(50, 0.3, size=30)
    windows = st.Windows(np.ones(30), np.column_stack([50 - counts, counts]), [0, 1])
    fit = st.fit(model, windows)
    assert fit.covariance.flat.shape == (2, 1)
    np.testing.assert_allclose(np.abs(fit.covariance.flat), np.sqrt(0.5), rtol=1e-6)
    np.testing.assert_allclose(fit.covariance.stderr, UNDETERMINED * np.sqrt(0.5), rtol=1e-4)
    assert not fit.table()["determined"].any()
    ratio = np.array([1.0, -1.0])
    share = counts.mean() / 50
    spread = np.sqrt(ratio @ fit.covariance.matrix @ ratio)
    expected = counts.std(ddof=1) / np.sqrt(30) / 50 / (share * (1 - share))
    assert spread == pytest.approx(expected, rel=0.02)
    row = fit.forecast([1.0])
    assert row["trusted"][0]
    assert row["p_1"][0] == pytest.approx(share, rel=1e-6)


def free_birth_death(load, p):
    return torch.cat([p.up0, p.up1, p.up2, p.down0, p.down1, p.down2], -1)


def test_the_papers_example_a1_is_undetermined():
    # Appendix A1: two four-state chains with the same first two probabilities, 0.4 and 0.3.
    names = ("up0", "up1", "up2", "down0", "down1", "down2")
    model = M.FromFunction(
        free_birth_death,
        states=4,
        params=dict.fromkeys(names, 1.0),
        edges=[(0, 1), (1, 2), (2, 3), (1, 0), (2, 1), (3, 2)],
    )
    counts = np.random.default_rng(1).multinomial(70, [4 / 7, 3 / 7], size=40)
    fit = st.fit(model, st.Windows(np.ones(40), counts, [0, 1]))
    assert not fit.table()["determined"].any()
    assert any("do not determine 6 of 6" in note for note in fit.warnings())
    row = fit.forecast([1.0]).iloc[0]
    assert not row["trusted"]
    assert "open by more than a factor of 10" in row["reason"]
    assert row["p_3_low"] < 0.1 < 0.2 < row["p_3_high"]  # the paper's two answers
    # All four observed, the same data set is enough for every probability.
    four = np.random.default_rng(1).multinomial(70, [0.4, 0.3, 0.2, 0.1], size=40)
    all_seen = st.fit(model, st.Windows(np.ones(40), four, [0, 1, 2, 3])).forecast([1.0]).iloc[0]
    assert all_seen["trusted"]
    share = four[:, 3].sum() / four.sum()
    assert all_seen["p_3"] == pytest.approx(share, rel=1e-6)
    width = 2 * 1.96 * np.sqrt(share * (1 - share) / four.sum())
    assert all_seen["p_3_high"] - all_seen["p_3_low"] == pytest.approx(width, rel=0.3)


def test_mm1k_is_determined():
    fit = st.fit(M.MMmK(servers=1, capacity=19), fast_mix(7))
    assert fit.table()["determined"].all()
    assert fit.warnings() == []
    assert (fit.forecast(range(20, 61))["loss_low"] > 0).all()


def test_the_papers_model_on_its_recording_is_undetermined(recording_file):
    windows = st.read_windows(
        recording_file, x="callrate", counts="Q={}", observe=[1, 2], loads=(1.0, 1000.0)
    )
    assert len(windows) == 86
    with warnings.catch_warnings():  # whether so flat a likelihood has an end is rounding
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = st.fit(M.UpperTriangular(states=22), windows)
    # Two states tell one number at each load; 231 rates can do without any one of them.
    assert (~fit.table()["determined"]).sum() > 200
    assert any("do not determine" in note for note in fit.warnings())
    ahead = fit.forecast(range(1100, 2001, 100))
    assert not ahead["trusted"].any()
    assert (ahead["reason"] != "").all()
    assert not fit.max_load(loss=0.01).trusted


# Intervals.

PROBABILITY = Measure(lambda point: point.pi[..., 0], 0.0, 1.0)
POSITIVE = Measure(lambda point: point.pi[..., 0], 0.0, np.inf)
REAL = Measure(lambda point: point.pi[..., 0])


def cov(variance, df=0):
    scale = Scale(torch.tensor([True]), torch.ones(1, dtype=torch.float64))
    return Covariance(np.array([[variance]]), df, "", NO_FLAT, scale)


@pytest.mark.parametrize("df", [0, 10])
@pytest.mark.parametrize("measure", [PROBABILITY, POSITIVE, REAL], ids=["logit", "log", "plain"])
def test_ends_are_those_of_the_delta_method_where_it_is_right(measure, df):
    # On its link the measure is linear in the draw, so the delta method is exact.
    link, slope, centre = Link(measure), 0.3, 0.2
    z = float(link.to(np.array(centre)))
    found = drawn(lambda theta: link.back(z + slope * np.log(theta)), measure, cov(1.0, df))
    half = cov(1.0, df).quantile(0.95) * slope
    np.testing.assert_allclose(
        [link.to(found.low[0, 0]), link.to(found.high[0, 0])],
        [z - half, z + half],
        atol=0.03 * half,
    )


def drawn(value, measure, covariance):
    """Forecast of a measure that is a function of one positive parameter."""

    class One(M.MMmK):
        name = ""
        measures = ("own",)

        def measure(self, name):
            return replace(
                measure,
                function=lambda point: torch.from_numpy(
                    np.asarray(value(point.theta[..., 0].numpy()))
                ).expand(point.pi.shape[:-1]),
            )

    model = One(servers=1, capacity=1, service_rate=1.0)
    seen = st.Windows([1.0] * 12, [[30 + k % 5, 30] for k in range(12)], [0, 1])
    estimate = replace(st.fit(model, seen).estimate, model=model, covariance=covariance)
    return forecast(Draws((from_estimate(estimate),)), [1.0], ["own"])


@pytest.mark.parametrize("measure", [PROBABILITY, POSITIVE, REAL], ids=["logit", "log", "plain"])
@pytest.mark.parametrize("size", [0.0, 1e-17, 1e-3, 10.0])
@pytest.mark.parametrize("value", [1e-320, 1e-30, 1e-3, 1 / 3, 0.9, 1 - 1e-12, 1.0])
def test_an_interval_holds_its_value_and_stays_in_range(measure, size, value):
    def moved(theta):
        with np.errstate(over="ignore"):
            far = value * theta**size
        return np.clip(far, measure.low, measure.high)

    found = drawn(moved, measure, cov(UNDETERMINED**2))
    low, mid, high = found.low[0, 0], found.value[0, 0], found.high[0, 0]
    assert measure.low <= low <= mid <= high <= measure.high
    assert mid == pytest.approx(value, abs=1e-320)


def test_an_interval_of_what_underflows_has_no_width():
    found = drawn(lambda theta: 0.0 * theta, PROBABILITY, cov(1.0))
    assert found.low[0, 0] == found.value[0, 0] == found.high[0, 0] == 0


DELTA = {
    "mmmk": (M.MMmK(servers=1, capacity=10, service_rate=25.0), range(4)),
    "slowing": (M.Slowing(servers=1, capacity=10, service_rate=25.0, slowdown=0.2), range(8)),
    "multidiagonal": (M.MultiDiagonal(depth=2, capacity=9, rate_1=20.0, rate_2=8.0), range(8)),
}


@pytest.mark.parametrize(("truth", "observe"), DELTA.values(), ids=DELTA)
def test_a_well_determined_forecast_is_that_of_the_delta_method(truth, observe):
    windows = st.simulate(truth, LOADS, duration=400.0, seed=2).observing(observe)
    fit = st.fit(truth, windows)
    cov, model = fit.covariance, fit.model
    found = forecast(fit.draws, [20.0], ["loss", "mean_queue", "throughput"])
    z = cov.scale.free(fit.estimate.theta)
    for k, name in enumerate(found.names):
        link, measure = Link(model.measure(name)), model.measure(name)

        def level(free, measure=measure, link=link):
            x = torch.tensor([[20.0]], dtype=torch.float64)
            return link.level(measure(model.at(x, cov.scale.natural(free))))

        slope = torch.autograd.functional.jacobian(level, z)[0].numpy()
        half = cov.quantile(0.95) * np.sqrt(slope @ cov.matrix @ slope)
        mid = float(level(z)[0])
        ends = link.to(np.array([found.low[0, k], found.high[0, k]]))
        # What is left is how curved the measure is, and the noise of 1,024 draws.
        assert ends[1] - ends[0] == pytest.approx(2 * half, rel=0.03)
        np.testing.assert_allclose(ends, [mid - half, mid + half], atol=0.08 * half)


def test_quantiles_are_students_where_windows_were_counted():
    assert cov(1.0, 10).quantile(0.95) == pytest.approx(scipy.stats.t.ppf(0.975, 10))
    assert cov(1.0).quantile(0.95) == pytest.approx(scipy.stats.norm.ppf(0.975))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95.0, float("nan")])
def test_level_must_be_a_coverage(level):
    fit = st.fit(M.MMmK(servers=1, capacity=19), fast_mix(8))
    for ask in (
        fit.table,
        lambda v: fit.asking((), v, None),
        lambda v: fit.forecast([20.0], v),
        lambda v: fit.max_load(level=v, loss=0.01),
    ):
        with pytest.raises(InputError, match=r"level must lie between 0 and 1.*got"):
            ask(level)


class Parabola:
    """A likelihood of this curvature: all that a Newton step reads."""

    model = SimpleNamespace(weights=False)

    def __init__(self, curvature):
        self.curvature = np.diag(curvature)

    def hessian(self, z):
        return self.curvature


@pytest.mark.parametrize(
    ("curvature", "slope", "above"),
    [
        ([1e6, 1e6], [0.1, 0.0], 5e-9),  # 1e-7 per count of a million: near all the same
        ([1e6, 0.0], [0.1, 0.0], 5e-9),
        ([1e6, 0.0], [0.0, 1.0], 5e3),  # a slope along a flat direction goes on
        ([1e6, -1e-5], [0.1, 0.0], 5e-9),  # rounding of a flat likelihood
        ([1.0, -1.0], [0.1, 0.0], np.inf),  # a saddle
        ([1.0, np.nan], [0.1, 1.0], 5e3),
        ([1e6, 0.0], [1e-4, 1e-4], 1e-4),
    ],
)
def test_convergence_is_judged_by_nats_above_the_optimum(curvature, slope, above):
    found = nats_above_minimum(Parabola(curvature), np.zeros(2), np.array(slope))
    assert found == pytest.approx(above, rel=1e-2)
