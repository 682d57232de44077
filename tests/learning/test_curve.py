"""Chains too large to solve for every draw: a curve gives the answers of exact draws."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import stationary as st
from rule_models import TANDEM
from stationary.learning.curve import _unit_of_time, is_costly
from stationary.learning.draws import Draws, from_estimate
from stationary.learning.estimate import End, Ended, Estimate
from stationary.learning.inference import Covariance
from stationary.planning.forecast import forecast
from stationary.planning.limits import limit
from stationary.terms.slo import Slo

M = st.models
LOADS = np.tile(np.arange(8.0, 21.0, 2.0), 6)


def tandem():
    """Two stations in a row, of nine places each: 100 states, seen by how many are where."""
    spec = {
        **TANDEM,
        "params": {"mu1": 25.0, "mu2": 30.0},
        "constants": {"K": 9, "L": 9, "servers": 1},
        "count": "min(q1, 4) + 5 * min(q2, 4)",
    }
    return M.RuleModel(**spec)


def timed(load, p):
    """A queue of six places that also forgets at a rate of its own, in fixed seconds."""
    up, down = torch.broadcast_tensors(load, p.service + 0.5)
    return torch.cat([up] * 5 + [down] * 5, -1)


def fixed_unit():
    steps = [(k, k + 1) for k in range(5)]
    return M.FromFunction(
        timed,
        states=6,
        params={"service": 25.0},
        edges=[*steps, *((j, i) for i, j in steps)],
    )


CASES = {
    "mmmk": (M.MMmK(servers=1, capacity=10, service_rate=25.0), [0, 1, 2], "loss"),
    "two parameters": (M.Slowing(1, 10, service_rate=25.0, slowdown=0.1), range(6), "loss"),
    "tandem": (tandem(), range(25), "loss"),
    "unknown unit of time": (fixed_unit(), range(5), "p_5"),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    truth, observe, measure = CASES[request.param]
    windows = st.simulate(truth, LOADS, duration=60.0, seed=1).observing(observe)
    return request.param, st.fit(truth, windows), measure


def agree(draws, measure, bound, near, monkeypatch, names):
    loads = [near / 2, near, 1.3 * near]
    exact, far = forecast(draws, loads, names), limit(draws, [Slo(measure, bound)], near)
    with monkeypatch.context() as patch:
        patch.setattr("stationary.learning.draws.is_costly", lambda *given: True)
        again = anew(draws)
        assert all(part.costly for part in again.parts)
        curve, found = forecast(again, loads, names), limit(again, [Slo(measure, bound)], near)
    np.testing.assert_allclose(curve.value, exact.value, rtol=1e-3)
    np.testing.assert_allclose(curve.low, exact.low, rtol=5e-3)
    np.testing.assert_allclose(curve.high, exact.high, rtol=5e-3)
    for end in ("load", "low", "high"):
        assert getattr(found, end) == pytest.approx(getattr(far, end), rel=3e-3)


def anew(draws):
    """The same draws, of which it is not yet known whether they are costly."""
    return replace(draws, parts=tuple(replace(part) for part in draws.parts))


def test_they_agree_with_exact_draws(case, monkeypatch):
    _, fit, measure = case
    names = (measure,) if measure == "p_5" else ("loss", "mean_queue", "throughput")
    agree(fit.draws, measure, 0.01, 20.0, monkeypatch, names)


def test_they_know_where_the_unit_of_time_is_known(case):
    name, fit, _ = case
    unit = _unit_of_time(fit.model, fit.covariance.scale)
    assert bool(unit.any()) == (name != "unknown unit of time")


def test_a_large_chain_has_a_cost():
    small, large = M.MMmK(servers=1, capacity=10), tandem()
    assert not is_costly(small.edges, 20 * 1024)
    assert is_costly(large.edges, 10**6)


@pytest.mark.parametrize("spread", [0.01, 0.03])
def test_a_few_loads_take_one_solve_each_and_two_per_bent_axis(spread, monkeypatch):
    model = tandem()
    cov = Covariance(spread**2 * np.eye(2), 0, "given", np.zeros((2, 0)), model.scale())
    estimate = Estimate(model, cov, 0.0, Ended(End.CONVERGED, True), 0.0, 0)
    exact = forecast(Draws((from_estimate(estimate),)), [16.0, 24.0])
    monkeypatch.setattr("stationary.learning.draws.is_costly", lambda *given: True)
    solved, make = [], st.Model.generator

    def counting(self, *given):
        generator = make(self, *given)
        solved.append(len(generator.rates))
        return generator

    monkeypatch.setattr(st.Model, "generator", counting)
    found = forecast(Draws((from_estimate(estimate),)), [16.0, 24.0])
    assert 2 <= sum(solved) <= 2 * (1 + 2 * 2)
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-12)
    np.testing.assert_allclose(found.low, exact.low, rtol=5e-3)
    np.testing.assert_allclose(found.high, exact.high, rtol=5e-3)
