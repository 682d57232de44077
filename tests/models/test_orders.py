"""Response times of every queue, by the order of service."""

import pytest
import torch

import stationary as st
from stationary.errors import InputError, SolverError

M = st.models
LOADS = [0.7, 2.5]
TIMES = torch.tensor([0.1, 1.0, 3.0, 10.0], dtype=torch.float64)

FOLLOWED = {
    "slowing": M.Slowing(servers=2, capacity=6, slowdown=0.3),
    "usl": M.UniversalScalability(capacity=6),
    "spilling": M.Leaking(servers=2, capacity=6, leak=0.2, spill=1),
    "multidiagonal": M.MultiDiagonal(depth=2, capacity=6),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_derivatives_are_exact_to_second_order(name):
    model = FOLLOWED[name].changed(capacity=3)
    x = torch.tensor([[0.7], [2.5]], dtype=torch.float64)
    theta = model.theta.detach().clone().requires_grad_()

    def tail(theta):
        return model.at(x, theta).response_times.survival(TIMES)

    assert torch.autograd.gradcheck(tail, theta, eps=1e-6, atol=1e-8)
    assert torch.autograd.gradgradcheck(tail, theta, eps=1e-6, atol=1e-7)


def test_a_subclass_with_moves_of_its_own_is_followed():
    class Closing(M.MMmK):
        """Serves at twice the speed while it is full."""

        def moves(self):
            yield from super().moves()
            yield self.capacity, self.capacity - 1, "service_rate", 1.0

    model = Closing(capacity=4)
    point = model.at(LOADS)
    expected = model.measure("response_time")(point)
    torch.testing.assert_close(point.response_times.mean, expected, rtol=1e-12, atol=0)


def test_default_measures_have_percentiles_where_they_cost_little():
    usual = ("loss", "response_time", "p50", "p95", "p99", "mean_queue", "throughput")
    for kind in (
        M.MMmK,
        M.OnOffArrivals,
        M.BatchArrivals,
        M.ErlangService,
        M.HyperexponentialService,
    ):
        assert kind(capacity=5).measures == (*usual, "utilisation")
    for model in (FOLLOWED["slowing"], M.MMmK(capacity=5000)):
        assert "p99" not in model.measures
        assert model.measure("p99")(model.at([0.5])).item() > 0  # on request


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: M.MMmK(discipline="lifo"), "discipline.*'fcfs'.*'ps'.*'lifo'"),
        (lambda: M.ErlangService(discipline="ps"), "ErlangService.*MMmK with discipline='ps'"),
        (lambda: M.MMmK(discipline="ps").measure("wait_p99"), "no request waits.*p99"),
        (lambda: M.UpperTriangular(states=5).measure("p99"), "UpperTriangular.*overload"),
        (
            lambda: M.Slowing(capacity=3000).measure("p99")(M.Slowing(capacity=3000).at([1.0])),
            "smaller capacity",
        ),
    ],
)
def test_what_has_no_meaning_says_so(make, says):
    with pytest.raises(InputError, match=says):
        make()


def test_an_overhead_is_a_parameter_that_shifts_all_times(tmp_path):
    plain = M.MMmK(servers=2, capacity=6, service_rate=3.0)
    model = M.MMmK(servers=2, capacity=6, service_rate=3.0, overhead=0.25)
    assert model.param_names == ("service_rate", "overhead")
    for name, tolerance in (("p99", 1e-3), ("response_time", 1e-12)):
        found, expected = (m.measure(name)(m.at(LOADS)).detach() for m in (model, plain))
        torch.testing.assert_close(found, expected + 0.25, rtol=tolerance, atol=0)
    again = st.models.registry.build(st.models.registry.describe(model))
    assert again.param_names == model.param_names
    assert model.changed(capacity=9).estimates == model.estimates
    assert "overhead" not in model.changeable
    assert plain.measure("slower_0.2")(plain.at([1.0])) < model.measure("slower_0.2")(
        model.at([1.0])
    )


def test_times_that_would_take_too_long_are_refused_before_they_are_followed(monkeypatch):
    model = M.MMmK(capacity=8, service_rate=100.0, discipline="ps")
    monkeypatch.setattr("stationary.models.latency._kernels.run", None)
    with pytest.raises(SolverError, match=r"cannot be computed.*too far apart"):
        model.measure("p99")(model.at([1e9]))
