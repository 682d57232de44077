"""Draws that allow for service that slows down, and for windows that drift."""

import numpy as np
import pytest

import stationary as st
from service_windows import windows
from stationary.data import Cell, ServiceTimes
from stationary.learning.discrepancy import Discrepancy
from stationary.learning.draws import from_estimate
from stationary.learning.slowing import with_slowing
from stationary.models.queues import Service


def slowed(factor, servers=1, rows=30, each=100, seed=0):
    """Exponential services of mean 0.1 that take ``factor(level)`` times as long."""
    random = np.random.default_rng(seed)
    levels = [1, 2, 3, 4, 6, 8]
    cells = [Cell(servers, level <= servers, level) for level in levels]
    data = np.zeros((rows, len(cells), 3))
    for row in range(rows):
        for k, level in enumerate(levels):
            times = random.exponential(0.1 * factor(level), each)
            data[row, k] = each, times.sum(), (times**2).sum()
    kind = ServiceTimes(data.reshape(rows, -1), cells)
    return st.Windows(x=np.linspace(1, 6, rows), observations=[kind])


def parts(data, servers=1):
    fit = st.fit(Service(servers, 20, overhead=1e-4, service_rate=10.0), data)
    return list(with_slowing(from_estimate(fit.estimate), fit.windows))


def test_constant_service_keeps_most_weight_on_no_slowing():
    plain, slow = parts(slowed(lambda n: 1.0))
    assert plain.model.param_names[-1] == "overhead"
    assert slow.model.param_names[-1] == "slowing"
    assert plain.weights.sum() + slow.weights.sum() == pytest.approx(1.0)
    assert plain.weights.sum() > 0.9


def test_service_that_the_queue_slows_down_is_found():
    (slow,) = parts(slowed(lambda n: 1 + 0.05 * (n - 1)))  # nothing else is left
    assert slow.weights.sum() == pytest.approx(1.0)
    values = slow.theta[:, -1].numpy()
    assert abs(values.mean() - 0.05) < 3 * values.std() < 0.03
    # The rate is that of a service which nothing slows down.
    assert float(slow.theta[:, 0].mean()) == pytest.approx(10.0, rel=0.05)


def test_servers_in_each_others_way_are_found():
    found = parts(slowed(lambda n: min(n, 4) ** 0.3, servers=4), servers=4)
    (contention,) = [part for part in found if part.model.param_names[-1] == "contention"]
    assert contention.weights.sum() > 0.9
    assert float(contention.theta[:, -1].mean()) == pytest.approx(0.3, abs=0.05)


def test_other_models_are_left_as_they_are():
    truth = st.models.MMmK(capacity=12, service_rate=25.0)
    counts = st.simulate(truth, [8.0, 12.0, 16.0] * 5, duration=20.0, seed=0)
    part = from_estimate(st.fit(truth, counts).estimate)
    assert list(with_slowing(part, counts)) == [part]


@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_drift_is_what_windows_scatter_beyond_chance(spread):
    data = windows(rows=200, speed_spread=spread)
    fit = st.fit(Service(1, 20, overhead=0.01, service_rate=8.0), data)
    found = Discrepancy.of(fit.estimate, fit.windows)
    assert found.rate == 0.04
    assert found.drift == pytest.approx(spread, abs=0.025)


def test_very_many_requests_do_not_overflow_the_evidence():
    (slow,) = parts(slowed(lambda n: 1 + 0.05 * (n - 1), each=5000))
    assert slow.weights.sum() == pytest.approx(1.0)


def test_slowing_is_independent_of_the_other_parameters():
    plain, slow = parts(slowed(lambda n: 1 + 0.02 * (n - 1), each=30))
    rank = slow.theta.argsort(0).argsort(0).double()
    assert (
        abs(np.corrcoef(rank[:, -1], plain.theta[: len(rank), 1].argsort().argsort())[0, 1]) < 0.3
    )
