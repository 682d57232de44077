"""What one window shows, beside the long run: against simulated windows."""

import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.learning.draws import Draws, Part
from stationary.models.scales import Scale
from stationary.planning.prediction import prediction

MODEL = st.models.MMmK(servers=2, capacity=10, service_rate=10.0)


def known(model):
    """Draws of a model whose parameters are known exactly."""
    size = len(model.theta)
    theta = model.theta.detach().expand(256, -1)
    scale = Scale(torch.ones(size, dtype=torch.bool), torch.ones(size, dtype=torch.float64))
    return Draws((Part(model, theta, np.full(256, 1 / 256), scale),))


@pytest.mark.parametrize(("load", "window"), [(16.0, 20.0), (24.0, 5.0), (12.0, 30.0)])
def test_windows_lose_requests_between_the_ends(load, window):
    """Losses of 2,000 simulated windows; short ones often lose none."""
    seen = st.simulate(MODEL, [load] * 2000, duration=window, seed=1)
    # Requests that are lost in a window follow the time that it is full.
    full = seen.counts[:, -1].numpy() / seen.counts.sum(-1).numpy()
    ends = prediction(known(MODEL), torch.tensor([[load]]).double(), ["loss"], window, 0.9)
    low, high = (float(end[0, 0]) for end in ends)
    noise = 1 / (load * window)  # one request
    inside = np.mean((full >= low - noise) & (full <= high + noise))
    assert 0.85 < inside < 0.995


def test_longer_windows_show_less_noise_and_none_is_the_long_run():
    x = torch.tensor([[18.0]]).double()
    names = ["loss", "response_time", "p95"]
    widths = []
    for window in (5.0, 50.0, 5000.0):
        low, high = prediction(known(MODEL), x, names, window, 0.95)
        widths.append((high - low)[0])
    assert (np.diff(widths, axis=0) < 0).all()
    low, high = prediction(known(MODEL), x, names, 1e7, 0.95)
    for k, name in enumerate(names):
        value = MODEL.measure(name)(MODEL.at([18.0])).item()
        assert low[0, k] == pytest.approx(value, rel=0.02)
        assert high[0, k] == pytest.approx(value, rel=0.02)


def test_the_mean_response_time_of_simulated_requests_lies_between_the_ends():
    load, window = 17.0, 20.0
    low, high = prediction(
        known(MODEL), torch.tensor([[load]]).double(), ["response_time"], window, 0.9
    )
    seen = st.simulate(MODEL, [load] * 2000, duration=window, seed=2)
    states = torch.arange(11).double()
    counts = seen.counts / seen.counts.sum(-1, keepdim=True)
    accepted = load * (1 - counts[:, -1])
    times = ((counts @ states) / accepted).numpy()
    assert 0.84 < np.mean((times >= low[0, 0]) & (times <= high[0, 0])) < 0.97


def test_a_forecast_has_both_kinds_of_ends():
    windows = st.simulate(MODEL, np.linspace(4, 14, 20), duration=30.0, seed=0)
    fit = st.fit(st.models.MMmK(servers=2, capacity=10), windows)
    frame = fit.forecast([18.0, 22.0], measures=["loss", "p95", "mean_queue"], window=10.0)
    assert (frame["loss_seen_low"] < frame["loss_low"]).all()
    assert (frame["loss_seen_high"] > frame["loss_high"]).all()
    assert "mean_queue_seen_low" not in frame
    with pytest.raises(InputError, match=r"window.*-1"):
        fit.forecast([18.0], window=-1)
