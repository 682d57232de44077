"""What is not known is never called certain: NaN, lost draws, tiny probabilities, no measures."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import stationary as st
from stationary import words
from stationary.errors import InputError, SolverError
from stationary.learning.covariances import CovarianceKind
from stationary.planning.forecast import forecast
from stationary.terms.trust import Reason

M = st.models


class Odd(M.MMmK):
    """A queue with measures that are not numbers at a load of 10."""

    own = {
        "ratio": st.Measure(lambda q: q.pi[..., 0] / (q.load[..., 0] - 10)),
        "share": st.Measure(lambda q: 0 * q.pi[..., 0] / (q.load[..., 0] - 10), 0.0, 1.0),
    }

    def measure(self, name):
        return self.own[name] if name in self.own else super().measure(name)


class Broken(CovarianceKind):
    """A covariance that could not be computed."""

    def __init__(self, value):
        self.value = value

    def at(self, minimum):
        return minimum.covariance(np.full((len(minimum.curvature),) * 2, self.value), 0, "broken")


@pytest.fixture(scope="module")
def windows():
    truth = M.MMmK(capacity=8, service_rate=20.0)
    return st.simulate(truth, [4.0, 6.0, 8.0, 10.0, 12.0] * 8, duration=40.0, seed=3)


@pytest.fixture(scope="module")
def fit(windows):
    return st.fit(Odd(capacity=8), windows)


@pytest.mark.parametrize("name", ["ratio", "share"])
def test_a_measure_that_is_not_a_number_is_not_trusted(fit, name):
    found = fit.forecast([9.0, 10.0, 11.0], measures=[name])
    assert found["trusted"].tolist() == [True, False, True]
    assert not np.isfinite(found[name][1])
    if name == "share":
        assert "not a number" in found["reason"][1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_standard_errors_that_are_not_numbers_determine_nothing(windows, value):
    fit = st.fit(M.MMmK(capacity=8), windows, covariance=Broken(value))
    assert not fit.estimate.determined
    assert not fit.table()["determined"].any()
    found = fit.forecast([9.0])
    assert not found["trusted"].any()
    assert "standard errors" in found["reason"][0]
    limit = fit.max_load(loss=0.01)
    assert limit.doubt.reason is Reason.NO_ERRORS
    assert (limit.low, limit.high) == (0.0, np.inf)
    assert any("standard errors could not be computed" in note for note in fit.warnings())


def test_a_draw_that_breaks_a_bound_where_the_estimate_does_not_widens_the_interval(windows):
    def bump(q):
        load, rate = q.load[..., 0], q.p.service_rate[..., 0]
        return (rate / 20) ** 9 * torch.exp(-((load - 6) ** 2)) / 2 + load / 40

    class Near(Odd):
        own = {"bump": st.Measure(bump, 0.0)}

    fit = st.fit(Near(capacity=8), windows)
    top = float(fit.forecast(np.linspace(5, 7, 201), measures=["bump"])["bump"].max())
    limit = fit.max_load(bump=1.01 * top)
    assert limit.load > 20
    assert limit.low < 7


def test_probabilities_without_digits_are_not_trusted(fit, monkeypatch):
    part = fit.draws.parts[0]
    tiny = fit.forecast([0.01], measures=["loss"])
    assert tiny["trusted"].all()  # birth-death chains are entrywise accurate
    assert fit.max_load(loss=1e-9).doubt is None
    monkeypatch.setattr(type(part), "is_entrywise", lambda self, x: False)
    found = forecast(fit.draws, [0.01, 12.0], ["loss"], 0.95, fit.doubt, fit.horizon)
    assert found.doubts[0].reason is Reason.ROUNDING
    assert found.doubts[1] is None
    # Another bound than above: limits are computed once.
    assert fit.max_load(loss=2e-9).doubt.reason is Reason.ROUNDING
    assert fit.max_load(loss=1e-3).doubt is None
    assert "1e-8" in words.doubt(found.doubts[0])


def test_draws_know_how_accurate_their_solver_is(fit, monkeypatch):
    part = fit.draws.parts[0]
    x = part.model.as_inputs([10.0])
    assert part.is_entrywise(x)
    monkeypatch.setattr(st.solvers.BirthDeath, "factor", st.solvers.SparseLU().factor)
    assert not part.is_entrywise(x)


def test_a_model_without_measures_is_refused_before_any_refit(windows, monkeypatch):
    class Bare(M.MMmK):
        measures = ()

    fit = st.fit(Bare(capacity=8), windows)
    monkeypatch.setattr("stationary.planning.record.study", None)  # which would refit
    with pytest.raises(InputError, match="no measures"):
        fit.forecast([12.0])


def test_one_model_of_several_that_cannot_be_solved_leaves_the_others(windows, monkeypatch):
    plan = st.compare([M.MMmK(capacity=8), M.Slowing(capacity=8)], windows, jobs=1)
    before = plan.max_load(loss=0.01)
    first, second = plan.draws.parts
    centre = type(first).centre

    def failing(self, x, names):
        if self is second:
            raise SolverError("no")
        return centre(self, x, names)

    monkeypatch.setattr(type(first), "centre", failing)
    assert plan.max_load(loss=0.01).load == pytest.approx(before.load, rel=0.05)
    assert plan.forecast([14.0])["loss"].notna().all()


def test_estimates_without_standard_errors_are_not_pooled(windows):
    plan = st.compare([M.MMmK(capacity=8), M.Slowing(capacity=8)], windows, jobs=1)
    name = "slowing"
    cov = replace(plan.fitted[name].covariance, matrix=np.full((2, 2), np.nan))
    fitted = {**plan.fitted, name: replace(plan.fitted[name], covariance=cov)}
    other = plan.having(fitted=fitted)
    assert other.weights[name] == 0
    assert "standard errors" in words.left_out(fitted[name])
