"""Chains too large to solve for every draw: a curve gives the answers of exact draws."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import stationary as st
from rule_models import TANDEM
from stationary.learning.curve import is_costly
from stationary.learning.draws import Draws, from_estimate
from stationary.learning.estimate import End, Ended, Estimate
from stationary.learning.expansion import Expansion
from stationary.learning.inference import Covariance, Link
from stationary.planning.forecast import forecast
from stationary.planning.limits import limit
from stationary.terms.slo import Slo

M = st.models
CONVERGED = Ended(End.CONVERGED, True)
NINE_AND_ONE = {"K": 9, "L": 9, "servers": 1, "mu2": 30.0}
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


def test_a_large_chain_has_a_cost():
    small, large = M.MMmK(servers=1, capacity=10), tandem()
    assert not is_costly(small, 20 * 1024)
    assert is_costly(large, 10**6)
    # A chain that is solved at once may have rates that take their time.
    assert not is_costly(M.MMmK(capacity=2049), 20 * 1024)
    assert is_costly(M.Service(capacity=2049, slowing=0.01), 20 * 1024)


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.05])
def test_a_few_loads_take_one_factor_each(spread, monkeypatch):
    model = tandem()
    exact = forecast(known_to(spread, model), [16.0, 24.0])
    monkeypatch.setattr("stationary.learning.draws.is_costly", lambda *given: True)
    solved, make = [], st.Model.generator

    def counting(self, *given):
        generator = make(self, *given)
        solved.append(len(generator.rates))
        return generator

    monkeypatch.setattr(st.Model, "generator", counting)
    found = forecast(known_to(spread, model), [16.0, 24.0])
    assert sum(solved) == 2
    np.testing.assert_allclose(found.value, exact.value, rtol=1e-12)
    np.testing.assert_allclose(found.low, exact.low, rtol=5e-3)
    np.testing.assert_allclose(found.high, exact.high, rtol=5e-3)


def known_to(spread, model):
    """Draws of a model whose two rates are known to a share of themselves."""
    cov = Covariance(spread**2 * np.eye(2), 0, "given", np.zeros((2, 0)), model.scale())
    return Draws((from_estimate(Estimate(model, cov, 0.0, CONVERGED, 0.0, 0)),))


def expanded(model, names, load):
    """The measures of a model around its parameters, and the coordinates of these."""
    pairs = [(measure, Link(measure)) for measure in map(model.measure, names)]
    z = model.scale().free(model.theta.detach()).numpy()
    return Expansion(model, pairs, model.scale(), model.as_inputs([load]), z)


def levels(model, names, load):
    """The same measures on their links, of the chain solved at one load."""
    with torch.no_grad():
        point = model.at([load])
        return np.array([Link(m).level(m(point)).item() for m in map(model.measure, names)])


def moved(model, step):
    other = tandem()
    other.set_theta(model.scale().natural(model.scale().free(model.theta.detach()) + step))
    return other


def test_a_series_is_that_of_chains_solved_along_the_line():
    model, step = tandem(), torch.tensor([0.04, -0.03])
    chain = expanded(model, model.measures, 20.0)
    below, level, above = (
        levels(moved(model, t * step), model.measures, 20.0) for t in (-1.0, 0.0, 1.0)
    )
    found = chain.along(step.double().numpy(), range(len(level)))
    assert found.settled
    np.testing.assert_allclose(chain.level, level, rtol=1e-12)
    np.testing.assert_allclose([found.below, found.above], [below, above], atol=2e-3)
    # Central differences of chains that were solved anew.
    h = 1e-3
    near = [levels(moved(model, t * step), model.measures, 20.0) for t in (-h, h)]
    np.testing.assert_allclose(
        chain.slope @ step.double().numpy(), (near[1] - near[0]) / (2 * h), rtol=1e-5
    )
    bend = (near[0] + near[1] - 2 * level) / (2 * h**2)
    np.testing.assert_allclose(found.second, bend, rtol=1e-2, atol=1e-4)
    near = [levels(model, model.measures, 20.0 * np.exp(t)) for t in (-h, h)]
    np.testing.assert_allclose(chain.in_load, (near[1] - near[0]) / (2 * h), rtol=1e-5)


def test_a_series_that_does_not_settle_says_so():
    chain = expanded(tandem(), ["loss"], 24.0)
    assert not chain.along(np.array([1.5, 0.0]), [0]).settled


def test_draws_far_from_the_estimates_are_solved_where_a_series_would_not_settle(monkeypatch):
    model = M.RuleModel(**{**TANDEM, "params": {"mu1": 25.0}, "constants": NINE_AND_ONE})
    cov = Covariance(np.array([[0.3**2]]), 0, "given", np.zeros((1, 0)), model.scale())
    estimate = Estimate(model, cov, 0.0, CONVERGED, 0.0, 0)
    exact = forecast(Draws((from_estimate(estimate),)), [24.0], ("loss",))
    monkeypatch.setattr("stationary.learning.draws.is_costly", lambda *given: True)
    found = forecast(Draws((from_estimate(estimate),)), [24.0], ("loss",))
    np.testing.assert_allclose(found.low, exact.low, rtol=0.05)
    np.testing.assert_allclose(found.high, exact.high, rtol=0.05)
