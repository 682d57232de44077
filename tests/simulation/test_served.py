"""Simulated logs of requests, against the closed form and another simulator's rules."""

import numpy as np
import pytest

from stationary.errors import InputError
from stationary.models import MMmK, Slowing
from stationary.simulation.served import simulate_requests


@pytest.mark.parametrize("servers", [1, 3])
def test_losses_and_responses_are_those_of_the_queue(servers):
    model = MMmK(servers=servers, capacity=6, service_rate=10.0 / servers)
    log = simulate_requests(model, [9.0] * 20, duration=500.0, seed=2)
    pi = model.closed_form([9.0])[0].detach()
    assert len(log) == pytest.approx(90_000, rel=0.02)
    assert (~log.answered).mean() == pytest.approx(float(pi[-1]), rel=0.1)
    # What arrivals find, and Little's law.
    found = np.bincount(log.in_system, minlength=7)[:6] / len(log)
    np.testing.assert_allclose(found, pi[:6].detach().numpy(), atol=0.01)
    inside = float((pi.numpy() * np.arange(7)).sum())
    mean = np.nanmean(log.response)
    assert mean == pytest.approx(inside / (9.0 * (1 - float(pi[-1]))), rel=0.05)


def test_nobody_is_served_before_those_who_came_earlier():
    log = simulate_requests(MMmK(capacity=8, service_rate=1.0), [0.9] * 5, duration=200.0, seed=0)
    leaves = (log.arrival + log.response)[log.answered]
    assert (np.diff(leaves) > 0).all()


def test_other_models_are_refused():
    with pytest.raises(InputError, match="Slowing is none"):
        simulate_requests(Slowing(capacity=3), [1.0])
