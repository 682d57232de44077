"""Service of any variability, and percentiles of response times."""

import ciw
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch

import stationary as st
from stationary.models.latency import percentile_of
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


def test_losses_keep_their_digits():
    deep = Service(capacity=2049, service_rate=1.0)
    plain = st.models.MMmK(capacity=2049, service_rate=1.0)
    for load in (0.5, 0.9, 1.1):
        ours, expected = (float(m.measure("loss")(m.at([load])).detach()) for m in (deep, plain))
        assert ours == pytest.approx(expected, rel=1e-8, abs=1e-300)


def test_derivatives_are_those_of_differences():
    model = Service(servers=2, capacity=9, service_rate=60.0, variability=0.6)
    x = torch.tensor([[50.0], [130.0]], dtype=torch.float64)
    for name in ("loss", "p50", "p99", "response_time"):
        theta = model.theta.detach().clone().requires_grad_()

        def total(theta, name=name):
            return model.measure(name)(model.at(x, theta)).sum()

        (found,) = torch.autograd.grad(total(theta), theta)
        for k in range(2):
            step = 1e-5 * torch.eye(2, dtype=torch.float64)[k] * theta.detach()
            with torch.no_grad():
                slope = (total(theta + step) - total(theta - step)) / (2 * step[k])
            assert float(found[k]) == pytest.approx(float(slope), rel=1e-4)


@pytest.mark.parametrize("name", ["p50", "p95", "p99", "p97.5", "p999"])
def test_percentiles_of_one_exponential_server_are_exact(name):
    model = st.models.MMmK(capacity=17, service_rate=111.0)
    found = model.measure(name)(model.at(LOADS)).detach()
    for row, t in zip(pi(model).numpy(), found.tolist(), strict=True):
        weights = row[:-1] / row[:-1].sum()

        def share(t, weights=weights):
            return weights @ scipy.stats.gamma.cdf(t, np.arange(1, 18), scale=1 / 111.0)

        expected = scipy.optimize.brentq(lambda t: share(t) - percentile_of(name), 0, 5)
        assert t == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "share"),
    {"p50": 0.5, "p9": 0.09, "p97.5": 0.975, "p999": 0.999, "p0": None, "p_3": None}.items(),
)
def test_names_of_percentiles(name, share):
    assert percentile_of(name) == pytest.approx(share)


def test_a_model_that_does_not_know_its_response_times_says_so():
    model = st.models.BatchArrivals(capacity=5)
    with pytest.raises(st.errors.InputError, match=r"BatchArrivals has no measure 'p99'"):
        model.measure("p99")


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
