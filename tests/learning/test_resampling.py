"""The bootstrap: against the sandwich it should agree with, and what it promises."""

import numpy as np
import pytest
import scipy.optimize
import torch

import stationary as st
from stationary._support import parallel
from stationary.errors import InputError
from stationary.planning.roots import Excess

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 10)


def data(seed, scheme=None):
    truth = M.MMmK(servers=1, capacity=10, service_rate=25.0)
    windows = st.simulate(truth, LOADS, duration=4.0, seed=seed, scheme=scheme)
    return windows.observing([0, 1])


@pytest.fixture(scope="module")
def fit():
    return st.fit(M.MMmK(servers=1, capacity=10), data(0))


@pytest.fixture(scope="module")
def drawn(fit):
    return fit.bootstrap(400, seed=1, jobs=1)


def test_it_agrees_with_the_sandwich(fit, drawn):
    assert drawn.refits.failed == 0
    delta, boot = fit.table().iloc[0], drawn.table().iloc[0]
    assert boot["estimate"] == delta["estimate"]
    assert boot["std_error"] == pytest.approx(delta["std_error"], rel=0.15)
    assert boot["low"] == pytest.approx(delta["low"], rel=0.02)
    assert boot["high"] == pytest.approx(delta["high"], rel=0.02)
    near, far = fit.forecast([14.0, 25.0]), drawn.forecast([14.0, 25.0])
    for end in ("loss_low", "loss_high", "response_time_low", "response_time_high"):
        np.testing.assert_allclose(far[end], near[end], rtol=0.25)
    assert far["loss"].tolist() == near["loss"].tolist()


def test_its_limit_is_that_of_its_refits(fit, drawn):
    limit = drawn.max_load(loss=0.01)
    (part,) = drawn.draws.parts
    roots = np.exp(Excess(part, limit.slos).roots(np.log(15.0))[0])
    assert limit.load == fit.max_load(loss=0.01).load
    each = []
    for theta in drawn.refits.theta[:20].numpy():
        model = M.MMmK(servers=1, capacity=10, service_rate=theta[0])
        loads = np.linspace(5, 40, 7001)
        loss = model.closed_form(loads)[:, -1].numpy()
        each.append(loads[loss <= 0.01].max())
    np.testing.assert_allclose(roots[1:21], each, rtol=1e-3)
    assert limit.low < limit.load < limit.high


@pytest.mark.slow
def test_it_covers_what_it_promises():
    hits = 0
    for seed in range(60):
        fit = st.fit(M.MMmK(servers=1, capacity=10), data(seed), method=st.Newton(starts=1))
        row = fit.bootstrap(100, seed=seed, jobs=1).table(level=0.9).iloc[0]
        hits += row["low"] <= 25.0 <= row["high"]
    assert 46 <= hits <= 60


def test_blocks_see_what_hangs_together(fit):
    doubled = data(0).select(np.repeat(np.arange(len(LOADS)), 2))
    twice = st.fit(M.MMmK(servers=1, capacity=10), doubled, method=st.Newton(starts=1))
    single = twice.bootstrap(300, seed=2, jobs=1).table()["std_error"][0]
    blocks = twice.bootstrap(300, seed=2, block=8, jobs=1).table()["std_error"][0]
    assert blocks > 1.2 * single


def test_a_block_is_of_successive_windows(fit, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "stationary.learning.resampling.in_parallel",
        lambda refit, items, **_: drawn.extend(items) or [fit.estimate.theta] * 20,
    )
    fit.bootstrap(20, block=5, seed=1)
    # A refit is to weights of the windows: those of blocks add up to runs of five.
    around = np.array([np.roll([1.0] * 5 + [0.0] * (len(LOADS) - 5), k) for k in range(len(LOADS))])
    for weights in drawn:
        assert weights.sum() == len(LOADS)
        blocks = scipy.optimize.nnls(around.T, weights.numpy())
        assert blocks[1] < 1e-9


def test_the_same_seed_gives_the_same_refits_however_they_run(fit, monkeypatch):
    one = fit.bootstrap(30, seed=3, jobs=1)
    monkeypatch.setattr(parallel, "_WORTH_IT", 0.0)  # so that other processes are worth it
    again = fit.bootstrap(30, seed=3, jobs=2)
    other = fit.bootstrap(30, seed=4, jobs=1)
    assert torch.equal(one.refits.theta, again.refits.theta)
    assert not torch.equal(one.refits.theta, other.refits.theta)


def test_limits_that_some_refits_do_not_have(fit, drawn):
    assert drawn.max_load(response_time=1e-6).high == 0.0  # less than one service takes
    anywhere = drawn.max_load(response_time=1.0)  # ten requests at 25 a second
    assert (anywhere.low, anywhere.high) == (np.inf, np.inf)
    most = 10 / 25.0  # what a full system takes: reached by some refits, at high load
    some = drawn.max_load(response_time=most)
    assert some.low < some.high == np.inf


def test_a_parameter_at_zero_can_leave_it():
    truth = M.Resetting(servers=1, capacity=10, service_rate=25.0, reset=0.02)
    windows = st.simulate(truth, LOADS, duration=4.0, seed=3).observing(range(5))
    found = st.fit(M.Resetting(servers=1, capacity=10), windows, method=st.Newton(starts=1))
    repeats = found.bootstrap(40, seed=1, jobs=1)
    assert repeats.refits.failed <= 4


def test_a_what_if_has_no_windows_of_its_own(fit):
    with pytest.raises(InputError, match=r"a bootstrap .*what-if"):
        fit.what_if(servers=2).bootstrap()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"repeats": 5}, "at least 20 repeats; got 5"),
        ({"block": 0}, "block must be from 1"),
        ({"block": 40}, "block must be from 1"),
    ],
)
def test_bad_options(fit, options, words):
    with pytest.raises(InputError, match=words):
        fit.bootstrap(**options)
