"""Service of any variability, and percentiles of response times."""

import heapq
import math

import ciw
import numpy as np
import pytest
import torch

import stationary as st
from stationary.errors import InputError
from stationary.models.queues.service import Service

LOADS = [20.0, 80.0, 111.0, 400.0]


def pi(model, loads=LOADS):
    return st.steady_state(model(loads)).pi.detach()


@pytest.mark.parametrize("servers", [1, 4])
def test_variability_one_is_exponential_service(servers):
    ours = Service(servers=servers, capacity=17, service_rate=111.0 / servers)
    plain = st.models.MMmK(servers=servers, capacity=17, service_rate=111.0 / servers)
    torch.testing.assert_close(pi(ours), pi(plain), rtol=1e-12, atol=0)


@pytest.mark.parametrize("phases", [2, 4, 16])
def test_erlang_service_is_a_special_case(phases):
    ours = Service(capacity=12, service_rate=111.0, variability=1 / phases)
    erlang = st.models.ErlangService(phases=phases, capacity=12, service_rate=111.0)
    for name in ("loss", "response_time", "mean_queue"):
        found, expected = (m.measure(name)(m.at(LOADS)).detach() for m in (ours, erlang))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("servers", "variability", "load"),
    [(1, 0.1, 0.95), (1, 3.0, 0.8), (2, 0.5, 2.2), (4, 0.3, 3.9)],
)
def test_losses_and_percentiles_are_those_of_a_simulation(servers, variability, load):
    capacity = 12
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(load)],
        service_distributions=[ciw.dists.Gamma(1 / variability, variability)],
        number_of_servers=[servers],
        queue_capacities=[capacity - servers],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(60_000)
    records = simulation.get_all_records()
    lost = np.mean([r.record_type == "rejection" for r in records])
    times = [r.exit_date - r.arrival_date for r in records if r.record_type == "service"]
    model = Service(servers, capacity, service_rate=1.0, variability=variability)
    point = model.at([load])
    assert float(model.measure("loss")(point).detach()) == pytest.approx(lost, rel=0.12)
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99)):
        expected = np.percentile(times, share)
        assert float(model.measure(name)(point).detach()) == pytest.approx(expected, rel=0.05)


def test_variability_is_learnt_from_counts():
    truth = st.models.ErlangService(phases=4, capacity=12, service_rate=25.0)
    windows = st.simulate(truth, [8.0, 12.0, 16.0, 20.0] * 8, duration=60.0, seed=1)
    fit = st.fit(Service(capacity=12), windows.observing(range(6)))
    assert fit.estimates["variability"] == pytest.approx(0.25, abs=0.08)
    assert fit.estimates["service_rate"] == pytest.approx(25.0, rel=0.03)


def test_a_limit_on_a_percentile():
    windows = st.simulate(Service(capacity=12, service_rate=25.0), [8.0, 12.0] * 8, 60.0, seed=1)
    fit = st.fit(Service(capacity=12), windows)
    limit = fit.max_load("p99 < 400ms", "loss < 1%")
    assert limit.low < limit.load < limit.high
    at = fit.forecast([limit.load], measures=["p99", "loss"])
    assert limit.binding.measure == "p99"
    assert at["p99"][0] == pytest.approx(0.4, rel=1e-3)
    assert at["loss"][0] < 0.01


def simulated(load, variability, servers, capacity, patience, requests=200_000, seed=0):
    """Share lost, waits and response times of a queue whose requests give up after a wait."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1 / load, requests))
    services = random.gamma(1 / variability, variability, requests)
    free, inside, waits, times = [0.0] * servers, [], [], []
    for arrival, service in zip(arrivals, services, strict=True):
        while inside and inside[0] <= arrival:
            heapq.heappop(inside)
        begin = max(free[0], arrival)
        if len(inside) < capacity and begin - arrival <= patience:
            heapq.heapreplace(free, begin + service)
            heapq.heappush(inside, begin + service)
            waits.append(begin - arrival)
            times.append(begin + service - arrival)
    return 1 - len(times) / requests, waits, times


@pytest.mark.parametrize(
    ("servers", "variability", "load", "patience"),
    [(1, 1.0, 0.9, 8.0), (1, 0.1, 1.2, 8.0), (2, 0.01, 1.9, 4.0), (4, 0.5, 5.2, 3.0)],
)
def test_patience_loses_what_would_wait_too_long(servers, variability, load, patience):
    lost, waits, times = simulated(load, variability, servers, 200, patience)
    model = Service(servers, 200, service_rate=1.0, variability=variability, patience=patience)
    point = model.at([load], model.theta.detach())
    assert float(model.measure("loss")(point)) == pytest.approx(lost, rel=0.08)
    assert float(model.measure("response_time")(point)) == pytest.approx(np.mean(times), rel=0.02)
    for name, share in (("p95", 95), ("p99", 99)):
        found = float(model.measure(name)(point))
        assert found == pytest.approx(np.percentile(times, share), rel=0.03)
    assert model.measure("wait_p99")(point) == pytest.approx(np.percentile(waits, 99), rel=0.03)
    assert model.measure("wait_p99.99")(point) <= patience
    assert model.measure(f"wait_slower_{patience}")(point) == 0


def test_slowing_by_the_queue_is_that_of_a_birth_death_chain_for_exponential_service():
    # A service keeps the speed at which it began, so the two differ by what changes during one.
    ours = Service(1, 15, service_rate=1.0, variability=1.0, slowing=0.02)
    level = torch.arange(1.0, 16.0, dtype=torch.float64)
    chain = torch.cumsum((0.7 * (1 + 0.02 * (level - 1))).log(), 0)
    expected = torch.softmax(torch.cat([torch.zeros(1, dtype=torch.float64), chain]), 0)
    torch.testing.assert_close(pi(ours, [0.7])[0, :8], expected[:8], rtol=0.1, atol=0)
    none = Service(1, 15, service_rate=1.0, variability=1.0, slowing=1e-12, contention=1e-12)
    torch.testing.assert_close(pi(none), pi(Service(1, 15)), rtol=1e-9, atol=0)


@pytest.mark.parametrize("capacity", [1, 2, 17, 300, 2049])
@pytest.mark.parametrize("load", [0.001, 0.5, 0.99, 1.5, 30.0])
def test_long_queues_keep_their_digits(capacity, load):
    ours, plain = Service(1, capacity), st.models.MMmK(1, capacity)
    expected = pi(plain, [load])
    seen = expected > 1e-280
    torch.testing.assert_close(pi(ours, [load])[seen], expected[seen], rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    "options", [{}, {"overhead": 0.1, "contention": 0.1, "slowing": 0.02}, {"slowing": 1e-4}]
)
def test_gradients_and_second_derivatives_are_those_of_differences(options):
    model = Service(2, 8, service_rate=1.1, variability=0.6, **options)
    x = model.as_inputs([0.5, 2.5, 1e-9, 1e9])
    theta = model.theta.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: model.edge_rates(x, t), (theta,))
    assert torch.autograd.gradgradcheck(lambda t: model.edge_rates(x, t), (theta,))


@pytest.mark.parametrize("patience", [0.0, -1.0, float("nan")])
def test_a_patience_that_is_no_time_is_refused(patience):
    with pytest.raises(InputError, match="patience"):
        Service(patience=patience)


@pytest.mark.parametrize("capacity", [150, 300, 700])
def test_services_in_the_middle_of_a_long_queue_are_left_out_where_nothing_asks_for_them(capacity):
    plain = Service(capacity=capacity, service_rate=100.0, variability=1.5)
    slowed = Service(capacity=capacity, service_rate=100.0, variability=1.5, slowing=1e-12)
    loads = torch.tensor([[60.0], [99.0], [140.0]], dtype=torch.float64)
    found, exact = (m.edge_rates(loads, m.theta.detach()) for m in (slowed, plain))
    torch.testing.assert_close(found, exact, rtol=1e-7, atol=0.0)


@pytest.mark.parametrize("options", [{}, {"patience": 5.0}, {"full": 50.0}])
def test_any_light_load_can_be_solved(options):
    model = Service(2, 300, service_rate=0.5, **options)
    loss = model.measure("loss")(model.at([1e-12, 1e-9, 1e-6]))
    (slope,) = torch.autograd.grad(loss.sum(), model.theta)
    assert bool(((loss >= 0) & (loss < 1e-9)).all())
    assert bool(slope.isfinite().all())


@pytest.mark.parametrize("variability", [0.001, 0.02, 1.0, 3.0])
def test_any_overload_can_be_solved(variability):
    """A search for a limit that no load breaks goes there."""
    model = Service(1, 18, service_rate=97.0, variability=variability)
    loads = torch.tensor([1e4, 1e6, 1e8], dtype=torch.float64)
    loss = model.measure("loss")(model.at(loads)).detach()
    torch.testing.assert_close(1 - loss, 97.0 / loads, rtol=0.01, atol=0)


def test_a_capacity_below_the_servers_is_refused():
    """It would have no queue to solve."""
    for options in ({"capacity": 3}, {"capacity": 1}, {"capacity": 4, "full": 3.0}):
        with pytest.raises(InputError, match=r"capacity .*servers, 4; got"):
            Service(servers=4, **options)
    full = Service(servers=4, capacity=4, service_rate=1.0, variability=1.0)
    pi = full.at([3.0]).pi
    erlang = torch.tensor([3.0**k / math.factorial(k) for k in range(5)], dtype=torch.float64)
    torch.testing.assert_close(pi[0], erlang / erlang.sum())
    with pytest.raises(InputError, match="capacity"):
        full.changed(servers=5)
