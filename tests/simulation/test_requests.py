"""Simulated logs of requests, against the closed form and the rules of a queue."""

import numpy as np
import pytest

from stationary.errors import InputError
from stationary.models import MMmK, Slowing
from stationary.simulation import simulate_requests


@pytest.mark.parametrize("servers", [1, 3])
def test_losses_and_responses_are_those_of_the_queue(servers):
    model = MMmK(servers=servers, capacity=6, service_rate=10.0 / servers)
    log = simulate_requests(model, [9.0] * 20, duration=500.0, seed=2)
    pi = model.closed_form([9.0])[0].detach().numpy()
    assert len(log) == pytest.approx(90_000, rel=0.02)
    assert (~log.answered).mean() == pytest.approx(pi[-1], rel=0.1)
    # What arrivals find, and Little's law.
    found = np.bincount(log.in_system, minlength=7)[:6] / len(log)
    np.testing.assert_allclose(found, pi[:6], atol=0.01)
    mean = np.nanmean(log.response)
    assert mean == pytest.approx(pi @ np.arange(7) / (9.0 * (1 - pi[-1])), rel=0.05)


def test_requests_are_served_in_order_of_arrival():
    log = simulate_requests(MMmK(capacity=8, service_rate=1.0), [0.9] * 5, duration=200.0, seed=0)
    leaves = (log.arrival + log.response)[log.answered]
    assert (np.diff(leaves) > 0).all()


def test_other_models_are_refused():
    with pytest.raises(InputError, match=r"takes an M/M/m/K queue.* got Slowing"):
        simulate_requests(Slowing(capacity=3), [1.0])
    with pytest.raises(InputError, match=r"one service rate and nothing else.* overhead"):
        simulate_requests(MMmK(capacity=3, overhead=0.01), [1.0])
