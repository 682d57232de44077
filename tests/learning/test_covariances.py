"""Kinds of covariance: against simulation, sums by hand, and each other."""

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.learning.autocorrelation import obstacle, score_covariance
from stationary.learning.covariances import Minimum, overdispersion
from stationary.learning.likelihood import Likelihood

M = st.models
TRUTH = M.MMmK(servers=1, capacity=9, service_rate=25.0)


def looks(load, per_time, duration, windows, seed):
    """Windows of regular looks at one long path."""
    path = st.simulation.trajectory(TRUTH, x=load, duration=windows * duration, seed=seed)
    many = round(per_time * duration)
    times = np.arange(windows)[:, None] * duration + (np.arange(many) + 0.5) / per_time
    states = np.asarray(path.at(times.ravel())).reshape(windows, many)
    counts = np.stack([(states == k).sum(1) for k in range(10)], 1)
    return st.Windows([load] * windows, counts, range(10), duration=duration)


def ratio(model, windows):
    """Scatter of the windows' scores, over what the chain's autocorrelation says."""
    theta = model.theta.detach()
    minimum = Minimum(Likelihood(model, windows), windows, theta)
    says = score_covariance(model, windows, theta, minimum.slopes, minimum.group)
    return np.diag(minimum.scores().T @ minimum.scores()) / np.diag(says)


@pytest.mark.parametrize(("load", "per_time"), [(20.0, 30.0), (15.0, 100.0), (24.0, 10.0)])
def test_regular_looks_scatter_as_the_chain_says(load, per_time):
    windows = looks(load, per_time, duration=2.0, windows=3000, seed=3)
    assert ratio(TRUTH, windows) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("duration", [1.0, 20.0])
@pytest.mark.parametrize("observe", [[0, 1], range(10)])
def test_arrivals_scatter_as_the_chain_says(duration, observe):
    windows = st.simulate(TRUTH, [20.0] * 3000, duration, seed=1, scheme=st.simulation.Arrivals())
    seen = windows.counts[:, list(observe)].sum(-1) > 0  # a window may see none of them
    windows = windows.select(seen.numpy()).observing(observe)
    assert ratio(TRUTH, windows) == pytest.approx(1.0, abs=0.1)


def test_arrivals_of_a_model_with_several_parameters():
    truth = M.MultiDiagonal(depth=3, capacity=9, rate_1=16.0, rate_2=8.0, rate_3=4.0)
    windows = st.simulate(truth, [12.0] * 3000, 10.0, seed=2, scheme=st.simulation.Arrivals())
    assert ratio(truth, windows) == pytest.approx(1.0, abs=0.12)


def fit(windows, **options):
    return st.fit(M.MMmK(servers=1, capacity=9), windows, method=st.Newton(starts=1), **options)


@pytest.fixture(scope="module")
def arrivals():
    loads = np.repeat(np.arange(11.0, 21.0), 20)
    return st.simulate(TRUTH, loads, 10.0, seed=5, scheme=st.simulation.Arrivals()).observing(
        [0, 1, 2, 3]
    )


def test_kinds_that_know_of_correlation_agree_and_the_naive_one_is_too_sure(arrivals):
    kinds = [st.covariances.Sandwich(), st.covariances.Correlated(), st.covariances.Information()]
    sandwich, correlated, naive = (
        fit(arrivals, covariance=kind).covariance.stderr[0] for kind in kinds
    )
    assert correlated == pytest.approx(sandwich, rel=0.15)
    assert naive < 0.75 * sandwich


@pytest.mark.slow
def test_correlated_covers_with_few_windows_where_the_naive_one_does_not():
    hits = dict.fromkeys((st.covariances.Correlated(), st.covariances.Information()), 0)
    for seed in range(100):
        windows = st.simulate(
            TRUTH, [20.0, 21.0, 22.0, 23.0], 10.0, seed=seed, scheme=st.simulation.Arrivals()
        )
        for kind in hits:
            row = fit(windows, covariance=kind).table(level=0.9).iloc[0]
            hits[kind] += row["low"] <= 25.0 <= row["high"]
    assert hits[st.covariances.Correlated()] >= 82
    assert hits[st.covariances.Information()] <= 60


def test_information_is_the_inverse_hessian(arrivals):
    found = fit(arrivals, covariance=st.covariances.Information())
    H = Likelihood(found.model, arrivals).hessian(np.log(found.model.theta.detach().numpy()))
    np.testing.assert_allclose(found.covariance.matrix, np.linalg.inv(H), rtol=1e-9)
    assert any("independent, which they are not" in note for note in found.warnings())


def test_overdispersion_of_independent_counts_is_one_and_of_repeated_ones_their_number():
    loads = np.repeat(np.arange(11.0, 21.0), 30)
    counts = st.simulate(TRUTH, loads, 10.0, seed=6, scheme=st.simulation.PoissonCounts())
    windows = counts.observing([0, 1, 2, 3])
    model = fit(windows).model
    phi, df = overdispersion(model, windows, model.theta.detach())
    assert phi == pytest.approx(1.0, abs=0.1)
    assert df == 3 * len(windows) - 1
    thrice = st.Windows(windows.x, 3 * windows.counts, windows.observe, windows.sampling)
    phi, _ = overdispersion(model, thrice, model.theta.detach())
    assert phi == pytest.approx(3.0, rel=0.1)
    plain, wide = (
        fit(thrice, covariance=kind).covariance
        for kind in (st.covariances.Information(), st.covariances.Dispersed())
    )
    assert wide.matrix[0, 0] == pytest.approx(phi * plain.matrix[0, 0], rel=1e-3)


def test_a_block_sandwich_sees_what_hangs_together(arrivals):
    doubled = arrivals.select(np.repeat(np.arange(len(arrivals)), 2))  # every window twice over
    plain = fit(doubled, covariance=st.covariances.Sandwich()).covariance
    blocks = fit(doubled, covariance=st.covariances.Sandwich(block=2)).covariance
    whole = fit(arrivals, covariance=st.covariances.Sandwich()).covariance
    assert blocks.matrix[0, 0] == pytest.approx(whole.matrix[0, 0], rel=1e-6)
    assert plain.matrix[0, 0] == pytest.approx(whole.matrix[0, 0] / 2, rel=0.01)
    assert blocks.df == len(arrivals) - 1
    assert (blocks.kind, blocks.block) == ("sandwich", 2)


@pytest.mark.parametrize(
    ("count", "duration", "kind"),
    [
        (9, None, "sandwich"),
        (8, None, "dispersed"),
        (8, 1.0, "correlated"),
    ],
)
def test_the_best_kind_is_what_the_data_can_carry(count, duration, kind):
    made = st.simulate(TRUTH, np.linspace(11, 15, count), duration=1.0, seed=4)
    windows = st.Windows(made.x, made.counts, made.observe, duration=duration)
    found = fit(windows)
    assert found.covariance.kind == kind
    assert any("they suppose that" in note for note in found.warnings()) == (count == 8)


def test_what_cannot_be_had_is_said():
    windows = st.Windows([10.0, 12.0], [[60, 24], [52, 25]], [0, 1])
    with pytest.raises(InputError, match="pass duration= "):
        fit(windows, covariance=st.covariances.Correlated())
    with pytest.raises(InputError, match="more windows than parameters"):
        fit(windows, covariance=st.covariances.Sandwich(block=2))
    with pytest.raises(InputError, match="block must be at least 1"):
        st.covariances.Sandwich(block=0)


def grows_with_the_square(load, p):
    return {(0, 1): load**2, (1, 0): p.back}


def test_what_keeps_the_chain_from_telling_is_a_code_and_the_automatic_kind_goes_on():
    chain = M.FromFunction(grows_with_the_square, states=2, params={"back": 4.0})
    windows = st.Windows([1.0, 2.0], [[60, 24], [52, 50]], [0, 1], sampling="arrival")
    theta = chain.theta.detach()
    assert "in proportion to the load" in obstacle(chain, windows, theta)
    assert st.fit(chain, windows).covariance.kind == "dispersed"
    with pytest.raises(InputError, match="in proportion to the load"):
        st.fit(chain, windows, covariance=st.covariances.Correlated())
    assert obstacle(TRUTH, windows, TRUTH.theta.detach()) is None
    silent = st.Windows([1.0], [[6, 2]], [0, 1])
    assert "length of a window" in obstacle(TRUTH, silent, TRUTH.theta.detach())


def test_a_chain_that_hardly_forgets_gets_another_kind_and_never_a_certain_one():
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=25.0)
    windows = st.simulate(truth, x=[11.0, 13.0], duration=10.0, seed=0).observing([0, 1])
    free = st.models.StateDependent(capacity=10)
    theta = torch.tensor([26.125, 3.9015, 0.003562], dtype=torch.float64)  # full, for ever
    minimum = Minimum(Likelihood(free, windows), windows, theta)
    assert st.covariances.AutoCovariance().at(minimum).kind == "dispersed"
    assert np.isnan(st.covariances.Correlated().at(minimum).stderr).all()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [None, st.simulation.Arrivals()])
@pytest.mark.parametrize("lengths", [[2.0] * 12 + [2000.0], list(2.0 ** np.arange(10))])
def test_windows_of_very_different_lengths_are_covered(lengths, scheme):
    """One window holds nearly all of the data: its own scatter is not known from itself."""
    truth = st.models.MMmK(capacity=15, service_rate=25.0)
    loads = np.random.default_rng(0).permutation(np.linspace(8, 16, len(lengths)))
    inside, repeats = 0, 60
    for seed in range(repeats):
        parts = [
            st.simulate(truth, [load], duration=each, seed=1000 * seed + k, scheme=scheme)
            for k, (load, each) in enumerate(zip(loads, lengths, strict=True))
        ]
        windows = st.Windows(
            loads,
            torch.cat([part.counts for part in parts]),
            parts[0].observe,
            parts[0].states.sampling,
            duration=lengths,
        )
        row = st.fit(st.models.MMmK(capacity=15), windows).table().iloc[0]
        inside += row["low"] <= 25.0 <= row["high"]
    assert inside / repeats > 0.88
