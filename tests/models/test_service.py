"""Service of any variability, and percentiles of response times."""

import heapq
import math

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from scipy.stats import poisson

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
    ("servers", "variability", "load", "capacity"),
    [(1, 0.1, 0.95, 12), (1, 3.0, 0.8, 12), (2, 0.5, 2.2, 12), (4, 0.3, 3.9, 12)],
)
def test_losses_and_percentiles_are_those_of_a_simulation(servers, variability, load, capacity):
    compare(load, variability, servers, capacity, math.inf)


@pytest.mark.parametrize(
    ("servers", "variability", "load", "patience"),
    [(1, 1.0, 0.9, 8.0), (1, 0.1, 1.2, 8.0), (2, 0.01, 1.9, 4.0), (4, 0.5, 5.2, 3.0)],
)
def test_patience_loses_what_would_wait_too_long(servers, variability, load, patience):
    model, point = compare(load, variability, servers, 200, patience)
    assert model.measure("wait_p99.99")(point) <= patience
    assert model.measure(f"wait_slower_{patience}")(point) == 0


def compare(load, variability, servers, capacity, patience):
    """Hold a model against a simulation."""
    lost, waits, times = simulated(load, variability, servers, capacity, patience)
    options = {"service_rate": 1.0, "variability": variability, "patience": patience}
    model = Service(servers, capacity, **options)
    point = model.at([load], model.theta.detach())
    rough = capacity == 12
    assert float(model.measure("loss")(point)) == pytest.approx(lost, rel=0.12 if rough else 0.08)
    for name, of, share in (("p95", times, 95), ("p99", times, 99), ("wait_p99", waits, 99)):
        within = 0.05 if rough else 0.03
        assert float(model.measure(name)(point)) == pytest.approx(
            np.percentile(of, share), rel=within
        )
    mean = float(model.measure("response_time")(point))
    assert mean == pytest.approx(np.mean(times), rel=0.03 if rough else 0.02)
    return model, point


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


# The exact distribution at one server.


def exact_tail(times, found, load, variability):
    """P(T > t) at one server of mean service 1, from the shares of requests that find 0, 1, ...

    With G_k the sum of k services, and e_i(k, t) the probability that G_k exceeds t, with i
    arrivals during the excess, it is

        f_0 sum_{n<K} e_{n-1}(n, t) + sum_{l<K} s_{K-l} sum_{i>=l} e_i(K, t),

    where s_1 = f_0 + f_1 and s_j = f_j. The excess is integrated numerically.
    """
    shape, arriving = 1 / variability, load * variability
    most = len(found)
    longest = most * shape + 8 * np.sqrt(most * shape) + 35
    place = np.arange(-40, np.sqrt((1 + arriving) * longest) + 1, 0.15)
    root = np.logaddexp(place, 0)
    excess = root**2 / (1 + arriving)
    step = 0.15 * 2 * root / (1 + np.exp(-place)) / (1 + arriving)
    n, fewer = np.arange(1, most + 1), np.arange(1, most)
    weights = found[0] * poisson.pmf(n - 1, arriving * excess[:, None])
    begins = found.copy()
    begins[1] += found[0]
    weights[:, -1] = poisson.sf(fewer - 1, arriving * excess[:, None]) @ begins[most - fewer]
    services = np.asarray(times)[:, None] * shape + excess
    logs = (n * shape - 1) * np.log(services)[..., None] - services[..., None]
    density = np.exp(logs - gammaln(n * shape))
    return np.einsum("tkn,kn->t", density, weights * step[:, None])


def found_by(point):
    found = point.pi[0, :-1].detach().numpy()
    return found / found.sum()


@pytest.mark.parametrize("phases", [1, 4, 16])
@pytest.mark.parametrize("load", [0.3, 0.9, 2.0])
def test_the_integral_is_exact_for_erlang_service(phases, load):
    erlang = st.models.ErlangService(phases=phases, capacity=6, service_rate=1.0)
    same = st.models.Service(capacity=6, service_rate=1.0, variability=1 / phases)
    times = torch.tensor([0.01, 0.5, 2.0, 6.0, 9.0], dtype=torch.float64)
    expected = erlang.at([load]).response_times.survival(times)[0].detach().numpy()
    ours = exact_tail(times.numpy(), found_by(same.at([load])), load, 1 / phases)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("capacity", "variability", "loads", "within"),
    [
        (20, 3.0, [0.3, 0.7, 1.5], 0.02),
        (20, 0.5, [0.3, 0.7, 1.5], 0.02),
        (20, 0.25, [0.3, 0.7, 1.5], 0.021),
        (20, 0.0625, [0.3, 0.7, 1.5], 0.04),
        (20, 0.02, [0.3, 0.7, 1.5], 0.051),
        (2, 3.0, [1.5, 4.0], 0.25),
        (5, 0.0625, [1.5, 4.0], 0.16),
    ],
)
def test_percentiles_are_as_close_as_the_documentation_says(capacity, variability, loads, within):
    model = st.models.Service(capacity=capacity, service_rate=1.0, variability=variability)
    for load in loads:
        point = model.at([load])
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            found = float(model.measure(name)(point).detach())
            ends = [found / (1 + within), found / (1 - within)]
            early, late = exact_tail(ends, found_by(point), load, variability)
            assert late < 1 - share < early
