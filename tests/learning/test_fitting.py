"""Fits find the optimum, recover the truth within their own standard errors, and own up if not."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import torch

import stationary as st
from stationary import words
from stationary.data import Latencies
from stationary.errors import ConvergenceWarning, InputError
from stationary.learning import newton
from stationary.learning.estimate import End
from stationary.learning.inference import Covariance
from stationary.learning.likelihood import Likelihood
from stationary.terms.trust import Doubt, Reason

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 10)


def draw(truth, gamma, observe, seed, duration=1.0):
    """The paper's Algorithm 1 with its gamma, windows that saw nothing left out."""
    scheme = st.simulation.Events(gamma=gamma.tolist())
    windows = st.simulate(truth, LOADS, duration=duration, seed=seed, scheme=scheme)
    seen = windows.counts[:, observe].sum(-1) > 0
    return windows.select(seen.numpy()).observing(observe)


def scores(fit, truth):
    """Errors over standard errors, on the scale the intervals are built on."""
    free, true = fit.model.free(fit.model.theta.detach()), truth.free(truth.theta.detach())
    return (free - true).numpy() / fit.covariance.stderr


def assert_standard(z, df=45, slack=1.0):
    """Mean 0 and the variance of Student's t, up to the noise of a study of this size.

    ``slack`` is how much larger the true variance may be, where a case is known to be too small for
    its asymptotics.
    """
    z = np.asarray(z)
    count, expected = len(z), df / (df - 2)
    low, high = scipy.stats.chi2.ppf([0.0005, 0.9995], count - 1) / (count - 1)
    assert (np.abs(z.mean(0)) < 3.3 * np.sqrt(z.var(0, ddof=1) / count)).all()
    assert (z.var(0, ddof=1) > low * expected).all()
    assert (z.var(0, ddof=1) < high * expected * slack).all()


# The truth is recovered within sampling error, in the paper's settings.

DIAGONALS = M.MultiDiagonal(depth=3, capacity=19, rate_1=16.0, rate_2=8.0, rate_3=4.0)
RECOVERED = {
    "mm1k": (M.MMmK(1, 19, 25.0), 65, [0, 1], 1.0, 120, 45, 1.0),
    # In a second, states 0 and 1 of five servers are seen in few of the 50 windows, which carry the
    # whole estimate: there the sandwich is known to be somewhat too small.
    "mm5k": (M.MMmK(5, 19, 5.0), 125, [0, 1], 1.0, 120, 42, 1.2),
    "mm5k in ten seconds": (M.MMmK(5, 19, 5.0), 125, [0, 1], 10.0, 120, 42, 1.1),
    "multidiagonal": (DIAGONALS, 71, [0, 1, 2, 3], 10.0, 60, 45, 1.0),
}


def refit(truth, windows):
    fit = st.fit(type(truth)(**truth.options), windows, method=st.Newton(starts=1))
    assert fit.converged
    return fit


@pytest.mark.parametrize("name", RECOVERED)
@pytest.mark.slow
def test_the_truth_is_recovered(name):
    truth, gamma, observe, duration, count, df, slack = RECOVERED[name]
    data = (draw(truth, LOADS + gamma, observe, 1000 + k, duration) for k in range(count))
    assert_standard([scores(refit(truth, windows), truth) for windows in data], df, slack)


@pytest.mark.slow
def test_multidiagonal_intervals_cover_the_truth_where_a_rate_may_vanish():
    # With windows of a second about one data set in five puts the third rate at zero, where no
    # error is normal; its interval must then reach from nothing to far above.
    hits, first = [], []
    for seed in range(1000, 1060):
        fit = refit(DIAGONALS, draw(DIAGONALS, LOADS + 71, [0, 1, 2, 3], seed))
        table, true = fit.table(), DIAGONALS.theta.detach().numpy()
        hits.append((table["low"] <= true) & (true <= table["high"]))
        first.append(scores(fit, DIAGONALS)[0])
    assert (np.sum(hits, 0) >= scipy.stats.binom.ppf(0.0005, len(hits), 0.95)).all()
    assert_standard(first)


@pytest.mark.slow
def test_uppertriangular_recovers_the_steady_state_at_a_new_load():
    # All states seen at loads far apart, long enough that none of the six rates is put at zero.
    rates = {"rate_1_0": 20.0, "rate_2_0": 3.0, "rate_2_1": 15.0}
    rates |= {"rate_3_0": 2.0, "rate_3_1": 4.0, "rate_3_2": 10.0}
    truth = M.UpperTriangular(states=4, **rates)
    true = st.steady_state(truth([60.0])).pi.detach().numpy()[0]
    loads = np.repeat([5.0, 10.0, 15.0, 20.0, 30.0], 10)
    z = []
    for seed in range(1000, 1040):
        windows = st.simulate(truth, loads, duration=500.0, seed=seed)
        fit = refit(truth, windows)
        assert fit.model.theta.min() > 0.1
        row = fit.forecast([60.0]).iloc[0]
        for name, value in (("loss", true[3]), ("utilisation", 1 - true[0])):
            z.append(logit_score(row, name, value, fit.covariance.quantile(0.95)))
    assert_standard(np.reshape(z, (-1, 2)), df=44, slack=1.1)


def test_a_well_known_loss_of_rates_that_are_not_has_a_narrow_interval():
    # Flows balance: the data know sums of rates, of which each alone is known to a third.
    rates = {"rate_1_0": 20.0, "rate_2_0": 3.0, "rate_2_1": 15.0}
    rates |= {"rate_3_0": 2.0, "rate_3_1": 4.0, "rate_3_2": 10.0}
    truth = M.UpperTriangular(states=4, **rates)
    windows = st.simulate(truth, np.repeat([5.0, 10.0, 15.0, 20.0, 30.0], 10), 500.0, seed=1000)
    fit = st.fit(M.UpperTriangular(states=4), windows, method=st.Newton(starts=1))
    row = fit.forecast([30.0]).iloc[0]
    assert row["loss_low"] == pytest.approx(0.3956, abs=5e-4)  # by the delta method
    assert row["loss_high"] == pytest.approx(0.4008, abs=5e-4)


def logit_score(row, name, truth, reach):
    """Error of a forecast probability over the standard error behind its interval."""
    low, mid, high = scipy.special.logit(row[[f"{name}_low", name, f"{name}_high"]].tolist())
    return (mid - scipy.special.logit(truth)) / ((high - low) / 2 / reach)


@pytest.mark.slow
def test_a_rate_estimated_at_zero_is_not_known_to_be_zero():
    # A quarter of the data sets puts rate_2 = 2 at zero; its logarithm would have no interval.
    truth = M.MultiDiagonal(depth=2, capacity=9, rate_1=20.0, rate_2=2.0)
    loss = st.steady_state(truth([40.0])).pi[0, -1].item()
    hits, highs = [], []
    for seed in range(60):
        windows = draw(truth, 59.0 + LOADS, [0, 1, 2], seed)
        fit = st.fit(M.MultiDiagonal(depth=2, capacity=9), windows, method=st.Newton(starts=1))
        if fit.estimates["rate_2"] < 1e-3:
            row, table = fit.forecast([40.0]).iloc[0], fit.table()
            hits.append(row["loss_low"] <= loss <= row["loss_high"])
            highs.append(table["high"][1])
            assert table["low"][1] == 0
    assert len(hits) > 5
    assert np.mean(hits) > 0.6  # those data sets all lie to one side of the truth
    assert min(highs) > 0.5


def machine(load, warmth, p):
    wear = p.wear * load * torch.exp(p.heat * warmth)
    still = torch.ones_like(wear)
    return torch.cat([wear, 20 * still, (p.worsen * load).expand_as(wear), 10 * still], -1)


def two_inputs(wear=1.0, heat=0.0, worsen=1.0):
    return M.FromFunction(
        machine,
        states=["up", "slow", "down"],
        params={"wear": wear, "heat": M.Param(heat, positive=False), "worsen": worsen},
        edges=[(0, 1), (1, 0), (1, 2), (2, 1)],
        inputs=["load", "warmth"],
    )


@pytest.mark.slow
def test_a_function_of_two_inputs_recovers_the_truth():
    truth = two_inputs(wear=3.0, heat=-0.4, worsen=2.0)
    x = np.random.default_rng(0).uniform([1, -2], [6, 2], size=(60, 2))
    data = (st.simulate(truth, x, duration=5.0, seed=seed) for seed in range(1000, 1060))
    fits = [st.fit(two_inputs(), each, method=st.Newton(starts=1)) for each in data]
    assert all(fit.converged for fit in fits)
    assert_standard([scores(fit, truth) for fit in fits], df=57)


def test_a_weaker_penalty_leaves_more_of_the_extra_rates():
    truth = M.MMmK(servers=1, capacity=5, service_rate=25.0)
    windows = draw(truth, LOADS + 65, [0, 1, 2, 3, 4, 5], 1, duration=10.0)
    fits = [
        st.fit(
            M.Relaxed(M.MMmK(servers=1, capacity=5), alpha=alpha),
            windows,
            method=st.Newton(starts=1),
        )
        for alpha in (1.0, 100.0, 1e6)
    ]
    size = [float(fit.model.theta[1:].detach().norm()) for fit in fits]
    assert size[0] > 2 * size[1] > 20 * size[2]
    assert size[2] < 1e-3
    assert fits[2].estimates["service_rate"] == pytest.approx(
        st.fit(M.MMmK(1, 5), windows).estimates["service_rate"], rel=1e-3
    )


# The optimum is the optimum.


def closed_form_nll(log_rate, windows, servers):
    """Conditional negative log-likelihood of M/M/m/K from its product form, without a chain."""
    k = np.arange(len(windows.observe))
    served = np.where(
        k <= servers,
        scipy.special.gammaln(k + 1),
        scipy.special.gammaln(servers + 1) + (k - servers) * np.log(servers),
    )
    logits = k * (np.log(windows.loads.numpy())[:, None] - log_rate) - served
    logits -= scipy.special.logsumexp(logits, axis=-1, keepdims=True)
    return -(windows.counts.numpy() * logits).sum()


@pytest.mark.parametrize(("servers", "rate", "offset"), [(1, 25.0, 40), (5, 5.0, 100)])
def test_nll_is_that_of_another_optimiser_on_the_closed_form(servers, rate, offset):
    truth = M.MMmK(servers=servers, capacity=19, service_rate=rate)
    for seed in range(10):
        windows = draw(truth, LOADS + 25 + offset, [0, 1, 2, 3], seed)
        fit = st.fit(M.MMmK(servers=servers, capacity=19), windows)
        reference = scipy.optimize.minimize_scalar(
            closed_form_nll,
            bounds=(np.log(rate) - 3, np.log(rate) + 3),
            args=(windows, servers),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert fit.converged
        assert fit.estimate.gradient_norm < 1e-8
        assert fit.nll == pytest.approx(reference.fun, rel=1e-9)
        assert fit.nll <= reference.fun * (1 + 1e-12)
        assert np.log(fit.estimates["service_rate"]) == pytest.approx(reference.x, abs=1e-6)


def test_few_hessians_reach_the_optimum_of_the_closed_form(monkeypatch):
    # Response times of an M/M/1 queue, of which the system of 60 is one at these loads, are
    # exponential at the rate that is left.
    edges, loads = np.array([0.01, 0.03, 0.1, 0.3]), np.linspace(3.0, 12.0, 15)

    def shares(rate):
        tail = np.exp(-np.multiply.outer(rate - loads, edges))
        ends = np.ones((len(loads), 1))
        inside = -np.diff(np.concatenate([ends, tail, 0 * ends], 1))
        return 0.999 * inside + 0.001 / 5  # one in a thousand may have taken any time

    counts = np.random.default_rng(3).multinomial(2000, shares(20.0))
    reference = scipy.optimize.minimize_scalar(
        lambda rate: -(counts * np.log(shares(rate))).sum(), bracket=(18.0, 20.0, 22.0)
    )
    hessian, calls = Likelihood.hessian, []
    monkeypatch.setattr(Likelihood, "hessian", lambda *args: calls.append(1) or hessian(*args))
    windows = st.Windows(loads, observations=[Latencies(counts, edges)])
    fit = st.fit(M.MMmK(capacity=60), windows, method=st.Newton(starts=1))
    assert fit.estimates["service_rate"] == pytest.approx(reference.x, rel=1e-6)
    assert len(calls) < fit.estimate.evaluations / 2


def test_seventy_three_parameters_converge():
    # Line searches alone stall here, orders of magnitude above the tolerance.
    truth = M.MMmK(servers=1, capacity=9, service_rate=25.0)
    windows = draw(truth, LOADS + 65, list(range(10)), 3, duration=10.0)
    fit = st.fit(
        M.Relaxed(M.MMmK(servers=1, capacity=9), alpha=100.0), windows, method=st.Newton(starts=1)
    )
    assert len(fit.model.theta) == 73
    assert fit.converged
    assert fit.estimate.gradient_norm < 1e-8
    assert fit.model.theta[1:].max() < 0.5
    assert fit.estimates["service_rate"] == pytest.approx(25.0, rel=0.1)


def test_starts_agree_and_the_seed_makes_them_again():
    truth = M.MultiDiagonal(depth=2, capacity=9, rate_1=16.0, rate_2=8.0)
    windows = st.simulate(truth, LOADS, duration=10.0, seed=5).observing([0, 1, 2])
    model = M.MultiDiagonal(depth=2, capacity=9)
    one, same, other = (
        st.fit(model, windows, method=st.Newton(starts=4), seed=s) for s in (1, 1, 2)
    )
    assert one.estimates == same.estimates
    assert one.nll == same.nll
    assert one.estimate.evaluations == same.estimate.evaluations
    assert other.nll == pytest.approx(one.nll, rel=1e-12)
    np.testing.assert_allclose(list(other.estimates.values()), list(one.estimates.values()), 1e-5)


def test_counts_of_trillions_are_no_trouble():
    windows = st.Windows([11.0, 13.0], [[4e12, 2e12], [4e12, 2.2e12]], [0, 1])
    fit = st.fit(M.MMmK(servers=1, capacity=10), windows)
    reference = scipy.optimize.minimize_scalar(
        closed_form_nll, bounds=(0, 6), args=(windows, 1), method="bounded"
    )
    assert fit.converged
    assert fit.nll == pytest.approx(reference.fun, rel=1e-9)


# What a fit says about itself.


def example():
    windows = draw(M.MMmK(1, 19, 25.0), LOADS + 65, [0, 1], 7)
    return windows, st.fit(M.MMmK(servers=1, capacity=19), windows)


def test_the_model_of_a_fit_is_a_copy():
    windows, _ = example()
    fit = st.fit(M.MMmK(servers=1, capacity=19), windows)
    before = fit.forecast([9.0])
    fit.model.set_theta(torch.tensor([1.0], dtype=torch.float64))
    assert fit.forecast([9.0]).equals(before)


def test_refits_use_the_solver_and_the_covariance_of_the_fit(tmp_path):
    chains = []

    @dataclass(frozen=True)
    class Watched(st.solvers.Solver):
        def factor(self, generator):
            chains.append(generator)
            return st.solvers.GTH().factor(generator)

    rng = np.random.default_rng(0)
    loads = np.linspace(5.0, 12.0, 24)
    truth = st.models.MMmK(capacity=5, service_rate=15.0)
    windows = st.simulate(truth, loads, duration=40.0, seed=rng)
    kind = st.covariances.Dispersed()
    fit = st.fit(truth, windows, solver=Watched(), covariance=kind)
    (name,) = fit.fitted
    chains.clear()
    below = [part for part in fit.studies[name].below if part is not None]
    assert len(below) > 1
    assert len(chains) >= len(below)
    assert {part.covariance.kind for part in below} == {"none"}  # nothing reads it
    assert all(isinstance(part.solver, Watched) for part in below)
    chains.clear()
    fit.bootstrap(20, jobs=1)
    assert len(chains) >= 20
    # They are code of the user's, which a folder does not hold.
    fit.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.estimate.solver is None
    assert again.table().equals(fit.table())


def test_table_has_intervals_of_positive_and_of_real_parameters():
    truth = two_inputs(wear=3.0, heat=-0.4, worsen=2.0)
    x = np.random.default_rng(0).uniform([1, -2], [6, 2], size=(60, 2))
    fit = st.fit(two_inputs(), st.simulate(truth, x, duration=5.0, seed=1))
    table = fit.table(0.9).set_index("parameter")
    half = fit.covariance.quantile(0.9) * fit.covariance.stderr
    assert list(table.index) == ["wear", "heat", "worsen"]
    wear, heat = table.loc["wear"], table.loc["heat"]
    assert wear["std_error"] == pytest.approx(wear["estimate"] * fit.covariance.stderr[0])
    assert [wear["low"], wear["high"]] == pytest.approx(
        wear["estimate"] * np.exp([-half[0], half[0]])
    )
    assert heat["std_error"] == pytest.approx(fit.covariance.stderr[1])
    assert [heat["low"], heat["high"]] == pytest.approx(heat["estimate"] + [-half[1], half[1]])
    assert (fit.table(0.5)["high"] < fit.table(0.99)["high"]).all()


def test_summary_says_what_a_reader_needs():
    _, fit = example()
    text = words.summary(fit.having(question=fit.asking((), 0.999, None)))
    assert str(fit) == words.summary(fit)
    for part in (
        "MMmK(servers=1, capacity=19, service_rate=",
        f"{len(fit.windows)} windows, loads 11 to 15, observed 0, 1",
        "service_rate",
        f"negative log-likelihood {fit.nll:.6f}",
        "converged: no step improves the likelihood",
        "3 starts",
        "intervals 99.9%",
    ):
        assert part in text
    assert "WARNING" not in text
    assert "NOT" not in text


def test_summary_of_many_parameters_is_cut_short():
    windows, _ = example()
    fit = st.fit(M.Relaxed(M.MMmK(servers=1, capacity=9)), windows, method=st.Newton(starts=1))
    assert "and 43 more parameters: fit.table()" in str(fit)
    assert len(fit.table()) == 73


def test_progress_is_told_of_every_start():
    windows, _ = example()
    calls = []
    fit = st.fit(
        M.MMmK(1, 19),
        windows,
        method=st.Newton(starts=2, progress=lambda *call: calls.append(call)),
    ).estimate
    assert {start for start, _, _ in calls} == {0, 1}
    evaluations = [count for _, count, _ in calls]
    assert evaluations == sorted(evaluations)
    assert evaluations[-1] == fit.evaluations
    assert min(nll for _, _, nll in calls) == pytest.approx(fit.nll)


# Fits that cannot succeed.


def test_a_state_never_seen_drives_a_rate_to_infinity_and_the_fit_says_so():
    windows = st.Windows(LOADS, [[30, 0]] * len(LOADS), [0, 1])
    with pytest.warns(ConvergenceWarning, match=r"service_rate runs to its limit.*observe more"):
        fit = st.fit(M.MMmK(servers=1, capacity=19), windows)
    assert not fit.converged
    assert not fit.table()["determined"].any()
    assert fit.doubt == Doubt(Reason.NOT_CONVERGED)
    assert fit.estimate.ended.why is End.RAN_AWAY
    assert fit.estimate.ended.parameter == "service_rate"
    assert "NOT converged" in str(fit)
    assert any("do not bound it" in note for note in fit.warnings())


def test_a_rate_that_goes_to_zero_is_no_run_away():
    # Data of M/M/1/K: nobody ever leaves in threes, and the fit may say so.
    windows = draw(M.MMmK(1, 9, 25.0), LOADS + 65, [0, 1, 2, 3], 8, duration=10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = st.fit(M.MultiDiagonal(depth=3, capacity=9), windows)
    assert fit.converged
    assert fit.estimates["rate_1"] == pytest.approx(25.0, rel=0.15)


def test_too_few_iterations_are_said_with_advice():
    windows, _ = example()
    with pytest.warns(ConvergenceWarning, match="nats above the optimum.*max_iterations="):
        fit = st.fit(
            M.MMmK(servers=1, capacity=19), windows, method=st.Newton(starts=1, max_iterations=1)
        )
    assert not fit.converged
    assert not fit.forecast([20.0])["trusted"].any()


@pytest.mark.parametrize("starts", [0, -1])
def test_starts_must_be_positive(starts):
    windows, _ = example()
    with pytest.raises(InputError, match=f"starts must be .*at least 1; got {starts}"):
        st.fit(M.MMmK(servers=1, capacity=19), windows, method=st.Newton(starts=starts))


def test_seed_must_be_a_whole_number():
    windows, _ = example()
    with pytest.raises(InputError, match="seed must be a whole number from 0 up; got -1"):
        st.fit(M.MMmK(servers=1, capacity=19), windows, seed=-1)


def test_an_observed_state_must_be_in_the_model():
    windows = st.Windows([11.0], [[3, 4]], [0, 7])
    with pytest.raises(InputError, match=r"category '7': state '7' is not in the model.*0\.\.5"):
        st.fit(M.MMmK(servers=1, capacity=5), windows)


def test_the_inputs_must_be_those_of_the_model():
    windows = st.Windows([[11.0, 3.0]], [[3, 4]], [0, 1], inputs=["load", "warmth"])
    with pytest.raises(InputError, match="takes 1 input column"):
        st.fit(M.MMmK(servers=1, capacity=5), windows)


def test_a_model_that_is_reducible_from_the_start_is_an_error():
    model = M.FromFunction(
        lambda load, p: {(0, 1): 0 * load, (1, 0): 0 * p.back},
        states=2,
        params={"back": 1.0},
    )
    with pytest.raises(st.errors.ReducibleError):
        st.fit(model, st.Windows([1.0], [[3, 4]], [0, 1]))


def test_loads_in_absurd_units_give_an_answer_or_an_error_but_no_crash():
    windows = st.Windows([1e300, 1e-300], [[4, 2], [5, 5]], [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            fit = st.fit(M.MMmK(servers=1, capacity=10), windows)
        except st.errors.StationaryError as error:
            assert "units of the loads" in str(error)  # noqa: PT017
        else:
            assert not fit.converged or not fit.forecast([1.0])["trusted"].any()


def test_a_long_queue_does_not_overflow():
    # At the first start the observed states of a queue this long are too unlikely for float64.
    windows = draw(M.MMmK(1, 19, 25.0), LOADS + 65, [0, 1], 9)
    long, short = (st.fit(M.MMmK(servers=1, capacity=k), windows) for k in (20_000, 60))
    assert long.converged
    assert long.estimates["service_rate"] == pytest.approx(
        short.estimates["service_rate"], rel=1e-6
    )


def test_standard_errors_of_overflowing_second_derivatives_are_open(monkeypatch):
    windows, _ = example()
    monkeypatch.setattr(Likelihood, "hessian", lambda self, z: np.full((1, 1), np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = st.fit(M.MMmK(servers=1, capacity=19), windows, method=st.Newton(starts=1))
    assert isinstance(fit.covariance, Covariance)
    assert not fit.table()["determined"].any()


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6, 1e12])
def test_the_longest_step_that_a_slope_asks_for_exists(size):
    # By rounding, the least damping that is enough seemed too little.
    random = np.random.default_rng(0)
    for _ in range(300):
        curvature = np.sort(random.exponential(size=3)) * np.array([0.0, 1.0, 1.0])
        slope = size * random.exponential() * np.eye(3)[0]
        step, _ = newton._bounded_step(curvature, slope, 0.5 * np.sqrt(3))
        assert np.linalg.norm(step) <= 0.5 * np.sqrt(3) * 1.05


@pytest.mark.parametrize("patience", [None, 0.15])
def test_counts_at_light_load_determine_service_in_a_long_queue(patience):
    # Probabilities of 260 arrivals during a service are e^-800: a sum had no second derivatives.
    truth = M.Service(servers=4, capacity=30, service_rate=77.0, variability=0.6)
    windows = st.simulate(truth, x=np.linspace(20.0, 200.0, 12), duration=20.0, seed=1)
    fits = [
        st.fit(M.Service(servers=4, capacity=size, patience=patience), windows)
        for size in (60, 232)
    ]
    assert fits[1].estimate.determined
    np.testing.assert_allclose(fits[1].covariance.matrix, fits[0].covariance.matrix, rtol=1e-4)


def test_a_few_requests_that_were_too_fast_do_not_decide_the_overhead():
    truth = M.Service(servers=1, capacity=20, service_rate=100.0, overhead=0.002)
    edges = np.geomspace(5e-4, 0.5, 24)
    windows = st.simulate(truth, x=np.linspace(10.0, 60.0, 15), duration=60.0, seed=1)
    point = truth.at(windows.loads)
    with torch.no_grad():
        share = Latencies(np.ones((15, 25)), edges).on(truth).probabilities(point).numpy()
    counts = np.random.default_rng(0).multinomial(3000, share)
    counts[:, 0] += np.eye(15, dtype=int)[3] * 5  # five of 45,000, below the overhead
    timed = st.Windows(windows.x, latency=counts, edges=edges)
    fit = st.fit(M.Service(servers=1, capacity=20, overhead=1e-4), timed)
    assert fit.converged
    assert fit.estimate.determined
    assert fit.estimates["overhead"] == pytest.approx(0.002, rel=0.2)
    assert fit.estimates["service_rate"] == pytest.approx(100.0, rel=0.03)
