"""Distributions of response times: digits, derivatives and percentiles."""

import statistics

import mpmath
import pytest
import torch

import stationary as st
from stationary.models.latency import (
    Erlangs,
    Gammas,
    Shifted,
    incomplete_gamma,
    percentile_of,
)


def slower(weights, servers, rate, t):
    """P(T > t) of M/M/m by the textbook formula, in forty digits."""
    with mpmath.workdps(40):
        mu, a, total = mpmath.mpf(rate), mpmath.mpf(rate) * servers, mpmath.mpf(0)

        def gamma(k, x):
            return mpmath.gammainc(k, 0, x, regularized=True)

        for n, weight in enumerate(weights):
            k = n - servers + 1
            if k <= 0:
                share = 1 - mpmath.exp(-mu * t)
            elif servers == 1:
                share = gamma(k + 1, mu * t)
            else:
                share = gamma(k, a * t)
                share -= mpmath.exp(-mu * t) * (a / (a - mu)) ** k * gamma(k, (a - mu) * t)
            total += mpmath.mpf(weight) * (1 - share)
        return total


@pytest.mark.parametrize(("servers", "capacity"), [(1, 20), (2, 60), (3, 3), (16, 40)])
def test_the_distribution_keeps_its_digits(servers, capacity):
    model = st.models.MMmK(servers=servers, capacity=capacity, service_rate=2.5)
    for load in (0.5 * servers, 2.4 * servers, 10.0 * servers):
        point = model.at([load])
        t = torch.tensor([1e-4, 0.1, 1.0, 5.0, 20.0], dtype=torch.float64)
        found = point.response_times.survival(t).detach()[0]
        pi = point.pi.detach()[0, :-1]
        for time, share in zip(t.tolist(), found.tolist(), strict=True):
            expected = slower((pi / pi.sum()).tolist(), servers, 2.5, time)
            assert share == pytest.approx(float(expected), rel=1e-11, abs=1e-20)


def test_a_long_queue_keeps_its_digits_too():
    n = 50_000
    weights = torch.zeros(1, n + 1, dtype=torch.float64)
    weights[0, n] = 1.0
    times = Erlangs(weights, torch.ones(1, 1, dtype=torch.float64))
    for t in (49_000.0, 50_000.0, 51_000.0):
        found = float(times.cdf(torch.tensor([t], dtype=torch.float64)))
        with mpmath.workdps(30):
            assert found == pytest.approx(
                float(mpmath.gammainc(n, 0, t, regularized=True)), abs=1e-11
            )


@pytest.mark.parametrize("servers", [1, 3])
def test_means_are_those_of_littles_law(servers):
    model = st.models.MMmK(servers=servers, capacity=12, service_rate=2.0)
    point = model.at([1.0, 6.0, 20.0])
    expected = model.measure("response_time")(point)
    torch.testing.assert_close(point.response_times.mean, expected, rtol=1e-12, atol=0)
    waiting = model.measure("waiting_time")(point)
    torch.testing.assert_close(waiting + 0.5, expected, rtol=1e-12, atol=0)


def some_times():
    torch.manual_seed(1)
    weights = torch.rand(3, 7, dtype=torch.float64)
    weights = weights / weights.sum(-1, keepdim=True)
    means, rate = 1 + torch.rand(3, 7).double(), torch.tensor([[0.5], [2.0], [9.0]]).double()
    erlangs, gammas = Erlangs(weights, rate), Gammas(weights, means + 2, 0 * means + 0.5, 0 * means)
    return {"erlangs": erlangs, "gammas": gammas, "shifted": Shifted(erlangs, rate / 10)}


def test_times_that_hardly_lean_have_shapes_that_are_quick():
    one = torch.ones(1, 1, dtype=torch.float64)
    times = Gammas.of_moments(one, 5 * one, one / 12, 1e-9 * one)
    assert float(times.shapes) <= 10_001
    normal = 5 + statistics.NormalDist().inv_cdf(0.99) * 12**-0.5
    assert float(times.percentile(0.99)) == pytest.approx(normal, rel=1e-3)
    assert (float(times.mean), float(times.variance)) == pytest.approx((5.0, 1 / 12))


@pytest.mark.parametrize("kind", ["erlangs", "gammas", "shifted"])
def test_a_density_is_the_slope_and_moments_are_integrals(kind):
    times = some_times()[kind]
    t = torch.linspace(0.0, 60.0, 200_001, dtype=torch.float64).expand(3, -1)
    density, survival = times.density(t), times.survival(t)
    slope = (survival[:, :-2] - survival[:, 2:]) / (t[:, 2:] - t[:, :-2])
    away = (density[:, 2:] - density[:, :-2]).abs() < 0.01  # where a delay may begin, it jumps
    torch.testing.assert_close(slope[away], density[:, 1:-1][away], rtol=1e-3, atol=1e-4)
    mean = torch.trapezoid(survival, t)
    torch.testing.assert_close(mean, times.mean, rtol=1e-4, atol=1e-4)
    second = 2 * torch.trapezoid(t * survival, t)
    torch.testing.assert_close(second - times.mean**2, times.variance, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["erlangs", "gammas", "shifted"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.99, 0.99999])
def test_percentiles_invert_the_distribution(kind, share):
    times = some_times()[kind]
    found = times.percentile(share)
    at = times.survival(found[..., None])[..., 0]
    torch.testing.assert_close(
        at, torch.full((3,), 1 - share, dtype=torch.float64), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("delay", [0.0, 1e-17, 1e-12, 1e-6])
def test_a_delay_of_almost_nothing_changes_almost_nothing(delay):
    erlangs = some_times()["erlangs"]
    shifted = Shifted(erlangs, torch.full((3, 1), delay, dtype=torch.float64, requires_grad=True))
    t = torch.tensor([[0.5, 2.0, 8.0]], dtype=torch.float64)
    torch.testing.assert_close(shifted.survival(t), erlangs.survival(t), rtol=0, atol=1e-5)
    torch.testing.assert_close(shifted.density(t), erlangs.density(t), rtol=0, atol=1e-4)
    percentile = shifted.percentile(0.99)
    torch.testing.assert_close(percentile, erlangs.percentile(0.99) + delay, rtol=1e-8, atol=0)
    (slope,) = torch.autograd.grad(percentile.sum(), shifted.shift)
    torch.testing.assert_close(slope, torch.ones_like(slope), rtol=1e-3, atol=0)


def test_tails_after_a_delay_are_computed_once_for_all_loads(monkeypatch):
    sizes, exact = [], torch.special.gammainc
    watched = lambda shape, x: sizes.append(x.numel()) or exact(shape, x)  # noqa: E731
    monkeypatch.setattr(torch.special, "gammainc", watched)
    model = st.models.Service(capacity=10, service_rate=20.0, overhead=0.01)
    t = torch.tensor([0.05, 0.1, 0.2], dtype=torch.float64)
    one = model.at([5.0]).response_times.survival(t)
    many = model.at([5.0] + [9.0] * 99).response_times.survival(t)
    assert max(sizes) <= 2 * len(t) * len(model.states)
    torch.testing.assert_close(many[:1], one, rtol=1e-11, atol=0.0)


def test_requests_that_do_not_wait_have_a_percentile_of_zero():
    model = st.models.MMmK(servers=4, capacity=9, service_rate=1.0)
    point = model.at([0.5, 3.9])
    found = model.measure("wait_p50")(point)
    assert found[0] == 0.0
    assert found[1] > 0.0
    (slope,) = torch.autograd.grad(found.sum(), model.theta)
    assert slope.isfinite().all()


def test_derivatives_of_erlangs_are_exact_to_second_order():
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25] * 4], dtype=torch.float64)
    rate = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    t = torch.tensor([[0.3, 2.0, 8.0]], dtype=torch.float64)
    weights, rate, t = (part.requires_grad_() for part in (weights, rate, t))

    def both(weights, rate, t):
        times = Erlangs(weights, rate)
        return times.survival(t), times.density(t)

    assert torch.autograd.gradcheck(both, (weights, rate, t))
    assert torch.autograd.gradgradcheck(both, (weights, rate, t))


def test_derivatives_of_gammas_are_right_to_second_order():
    shape = torch.tensor([[0.4], [1.1], [60.0]], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([0.3, 2.0, 55.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(incomplete_gamma, (shape, x), atol=1e-7)
    assert torch.autograd.gradgradcheck(incomplete_gamma, (shape, x), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        st.models.MMmK(servers=1, capacity=9, service_rate=2.0),
        st.models.MMmK(servers=2, capacity=9, service_rate=2.0),
        st.models.MMmK(servers=2, capacity=9, service_rate=2.0, overhead=0.1),
        st.models.Service(servers=2, capacity=9, service_rate=2.0, overhead=0.1),
    ],
)
@pytest.mark.parametrize("name", ["p50", "p99", "wait_p95", "slower_0.7", "wait_slower_0.3"])
def test_derivatives_of_measures_are_those_of_differences(name, model):
    x = torch.tensor([[1.8 * model.servers], [5.0]], dtype=torch.float64)
    theta = model.theta.detach().clone().requires_grad_()

    def value(theta):
        return model.measure(name)(model.at(x, theta))

    assert torch.autograd.gradcheck(value, theta, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "share"),
    {"p50": 0.5, "p9": 0.09, "p97.5": 0.975, "p999": 0.999, "p0": None, "p_3": None}.items(),
)
def test_names_of_percentiles(name, share):
    assert percentile_of(name) == pytest.approx(share)


def test_slower_requests_are_those_beyond_a_percentile():
    model = st.models.MMmK(servers=2, capacity=9, service_rate=2.0)
    point = model.at([3.0])
    for name, of in (("p97.5", ""), ("wait_p97.5", "wait_")):
        t = model.measure(name)(point).item()
        share = model.measure(f"{of}slower_{t!r}")(point).item()
        assert share == pytest.approx(0.025, rel=1e-9)
    for wrong in ("slower_", "slower_x", "slower_-1", "wait_", "p", "p100", "wait_p_3"):
        with pytest.raises(st.errors.InputError, match="no measure"):
            model.measure(wrong)
