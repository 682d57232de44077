"""Model error: what draws say of overload beyond what the data determine."""

import numpy as np
import pytest
import torch

import stationary as st
from stationary.learning.discrepancy import Discrepancy
from stationary.learning.draws import Draws, from_estimate


@pytest.fixture(scope="module")
def fit():
    truth = st.models.MMmK(capacity=12, service_rate=25.0)
    windows = st.simulate(truth, [8.0, 12.0, 16.0] * 10, duration=50.0, seed=0)
    return st.fit(st.models.MMmK(capacity=12), windows)


def test_each_draw_has_one_shift_of_speed_and_of_capacity(fit):
    draws = Draws((from_estimate(fit.estimate),))
    found = Discrepancy(rate=0.1, capacity=0.7).applied(draws)
    assert {part.model.capacity for part in found.parts} >= {11, 12, 13}
    assert found.weights.sum() == pytest.approx(1.0)
    theta = torch.cat([part.theta for part in found.parts])
    before = draws.parts[0].theta.log().var()
    assert float(theta.log().var()) == pytest.approx(float(before) + 0.1**2, rel=0.05)
    again = Discrepancy(rate=0.1, capacity=0.7).applied(draws)
    assert all(torch.equal(a.theta, b.theta) for a, b in zip(found.parts, again.parts, strict=True))


def test_nothing_is_what_no_model_error_adds(fit):
    draws = Draws((from_estimate(fit.estimate),))
    (part,) = Discrepancy(0.0, 0.0).applied(draws).parts
    assert torch.equal(part.theta, draws.parts[0].theta)


def test_answers_of_a_comparison_allow_for_it(fit):
    plan = st.compare([st.models.MMmK(capacity=12)], fit.windows, jobs=1)
    assert plan.discrepancy == Discrepancy()
    wide, narrow = (
        (p.max_load(loss=0.01).high / p.max_load(loss=0.01).low)
        for p in (plan, plan.having(discrepancy=None))
    )
    assert wide > 1.1 * narrow
    # It comes last: a changed system has it, too.
    bigger = plan.what_if(capacity=30)
    assert {part.model.capacity for part in bigger.answering.parts} >= {29, 30, 31}
    assert bigger.max_load(loss=0.01).load > plan.max_load(loss=0.01).load
    # The probability of a state needs the capacity as it is.
    assert list(plan.forecast([20.0], measures=["p_12"])["p_12"]) != []


def test_counts_of_several_servers_say_little_of_the_variability_of_service():
    truth = st.models.MMmK(servers=8, capacity=20, service_rate=10.0)
    windows = st.simulate(truth, [20.0, 30.0, 40.0] * 5, duration=50.0, seed=0)
    for servers, expected in {1: 0.0, 3: 0.2, 8: 0.7}.items():
        fit = st.fit(st.models.Service(servers, 20), windows)
        found = Discrepancy.of(fit.estimate, windows)
        assert found.variability == pytest.approx(expected)
    draws = Draws((from_estimate(fit.estimate),))
    (before,), (after,) = draws.parts, found.applied(draws).parts
    more = after.theta[:, 1].log().var() - before.theta[:, 1].log().var()
    assert float(more) == pytest.approx(0.7**2, rel=0.1)


def test_it_is_saved_with_a_plan(fit, tmp_path):
    plan = st.compare([st.models.MMmK(capacity=12)], fit.windows, jobs=1)
    plan = plan.having(discrepancy=Discrepancy(0.03, 0.0))
    plan.save(tmp_path / "run")
    again = st.load(tmp_path / "run")
    assert again.discrepancy == plan.discrepancy
    assert again.max_load(loss=0.01).high == plan.max_load(loss=0.01).high


@pytest.mark.parametrize("wrong", [{"rate": -0.1}, {"capacity": np.inf}, {"rate": np.nan}])
def test_wrong_sizes_get_a_sentence(wrong):
    with pytest.raises(st.errors.InputError, match=next(iter(wrong))):
        Discrepancy(**wrong)
