"""A limit on losses that the data contradict already."""

import numpy as np
import pytest
import torch

import stationary as st
from stationary.terms.trust import Reason


@pytest.fixture(scope="module")
def windows():
    truth = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    return st.simulate(truth, x=[5.0, 8.0, 11.0, 14.0] * 10, duration=60.0, seed=3)


def losing(windows, share):
    sent = torch.round(60.0 * windows.loads).numpy()
    lost = np.random.default_rng(0).binomial(sent.astype(int), share)
    losses = st.data.Losses(np.stack([lost, sent - lost], -1))
    return st.Windows(windows.x, observations=windows.observations, aside=[losses], duration=60.0)


def test_losses_at_light_load_contradict_a_limit_on_them(windows):
    fit = st.fit(st.models.MMmK(servers=1, capacity=20), losing(windows, 0.02))
    limit = fit.max_load(loss=0.01)
    assert not limit.trusted
    assert limit.doubt.reason is Reason.LOST
    assert "lost at lighter loads" in str(limit.doubt)
    for other in (fit.max_load(loss=0.05), fit.max_load(response_time=0.2)):
        assert other.doubt is None or other.doubt.reason is not Reason.LOST


@pytest.mark.parametrize("share", [0.0, 0.005])
def test_losses_below_the_bound_do_not(windows, share):
    plain = st.fit(st.models.MMmK(servers=1, capacity=20), windows).max_load(loss=0.01)
    found = st.fit(st.models.MMmK(servers=1, capacity=20), losing(windows, share))
    assert found.max_load(loss=0.01).trusted == plain.trusted
    assert found.max_load(loss=0.01).load == pytest.approx(plain.load)
