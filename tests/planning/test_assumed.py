"""What an answer takes as given, and where its interval comes from."""

import numpy as np
import pytest

import stationary as st
from stationary import words
from stationary.errors import InputError
from stationary.planning.assumed import assumed
from stationary.terms.slo import as_slos


@pytest.fixture(scope="module")
def plan():
    truth = st.models.MMmK(servers=2, capacity=12, service_rate=10.0)
    windows = st.simulate(truth, np.linspace(3, 14, 24), duration=60.0, seed=0)
    return st.plan(windows, servers=2, capacity=12, slo="loss < 1%")


def test_what_was_not_said_is_known_and_its_effect_too(plan):
    found = {each.name: each for each in plan.assumed()}
    assert [each.given for each in found.values()] == [True, True, False, False]
    assert found["servers"].value == 2
    (low, light), (high, heavy) = found["capacity"].others
    assert low < found["capacity"].value < high
    assert light < plan.limit.load < heavy
    # The same limit as that of a plan with this capacity, at its estimates.
    other = plan.what_if(capacity=int(high)).having(discrepancy=None)
    assert heavy == pytest.approx(other.limit.load, rel=0.02)
    ((_, impatient),) = found["patience"].others
    assert impatient < plan.limit.load
    # Of every hundred requests at the limit one is lost, and would come again.
    ((_, insistent),) = found["retries"].others
    assert insistent == pytest.approx(0.99 * plan.limit.load, rel=3e-3)


def test_a_capacity_that_nobody_gave_is_a_range_and_its_effect_is_said(plan):
    unknown = st.plan(plan.windows.observing(range(7)), servers=2, slo="loss < 1%")
    found = {each.name: each for each in unknown.assumed()}["capacity"]
    assert (found.value, found.most, found.given) == (6, 200, False)
    (low, light), (high, heavy) = found.others
    assert (low, high) == (6, 200)
    # The interval spans what either end would mean, the true limit too.
    assert unknown.limit.low < light < plan.limit.load < heavy < unknown.limit.high
    assert unknown.breakdown().shares["capacity"] > 0.5
    said = words.assumed(unknown.assumed(), unknown.limit.load)
    assert "a capacity between 6 and 200 (not known: give --capacity; with 6 the limit is" in said


def test_a_range_of_capacities_is_named_with_what_lies_beside_it(plan):
    short = plan.windows.observing(range(7))  # which hold nothing of the capacity
    ranged = st.plan(short, servers=2, capacity=(10, 14), slo="loss < 1%")
    found = {each.name: each for each in ranged.assumed()}["capacity"]
    assert (found.value, found.most) == (10, 14)
    (low, light), (high, heavy) = found.others
    assert low < 10
    assert high > 14
    assert light < ranged.limit.load < heavy
    assert "at most 10 to 14 requests at a time" in words.assumed(ranged.assumed())


def test_without_an_slo_there_are_no_effects(plan):
    bare = plan.having(question=type(plan.question)())
    assert all(each.others == () for each in bare.assumed())


def test_the_parts_of_an_interval_add_up(plan):
    found = plan.breakdown()
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.shares["model error"] > found.shares["capacity"] > 0
    exact = plan.having(discrepancy=None).breakdown()
    assert "model error" not in exact.shares


def test_it_is_saved_which_numbers_were_defaults(plan, tmp_path):
    plan.save(tmp_path / "plan")
    assert st.load(tmp_path / "plan").question.missing == ("patience",)


def test_a_what_if_keeps_every_way_to_slow_down(plan):
    assert len(plan.what_if(servers=3).draws.parts) == len(plan.draws.parts)


def test_a_limit_that_no_load_meets_has_no_breakdown(plan):
    hopeless = plan.having(question=type(plan.question)(as_slos("p99 < 10ms")))
    assert hopeless.limit.load == 0
    assert hopeless.breakdown().shares == {}


def test_a_changed_system_has_no_effect_of_servers_that_nobody_saw(plan):
    found = {each.name: each for each in plan.what_if(servers=4).assumed()}
    assert found["servers"].others == ()


def test_a_system_is_given_once(plan):
    with pytest.raises(InputError, match="not both"):
        st.plan(plan.windows, models=[st.models.MMmK(2, 12)], servers=2)


def test_servers_that_the_data_leave_open_are_a_range_and_others_are_not_named():
    truth = st.models.MMmK(servers=3, capacity=12, service_rate=10.0)
    few = st.simulate(truth, x=[2.0, 3.0, 4.0, 5.0] * 4, duration=10.0, seed=4)
    many = st.simulate(truth, x=[6.0, 10.0, 14.0, 18.0] * 8, duration=100.0, seed=1)
    told = {"servers": (2, 4), "capacity": 12, "slo": "loss < 1%"}
    unsure, sure = (st.plan(windows, **told).assumed()[0] for windows in (few, many))
    assert (sure.value, sure.most) == (3, None)
    assert unsure.most == 4 > unsure.value
    assert [servers for servers, _ in unsure.others] == [unsure.value, 4]
    limits = [load for _, load in unsure.others]
    assert limits[0] < limits[1]
    assert words.assumed([unsure]).startswith(f"{unsure.value} to 4 servers (if {unsure.value} or")


def test_nothing_is_scaled_by_a_limit_of_zero(plan):
    never = as_slos("response_time < 1e-6")
    found = assumed(plan.draws.parts, None, never, plan.heaviest, 5.0, ())
    assert all(each.others == () for each in found)
