"""Percentiles of one server with gamma service against their exact distribution."""

import numpy as np
import pytest
import torch
from scipy.special import gammaln
from scipy.stats import poisson

import stationary as st


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
