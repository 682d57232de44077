"""Candidates for the servers and the capacity: the data choose where they can."""

import numpy as np
import pytest

import stationary as st
from stationary.errors import InputError
from stationary.terms.candidates import as_candidates, parse_candidates
from stationary.trust.ladder import likely_capacities


@pytest.fixture(scope="module")
def windows():
    truth = st.models.MMmK(servers=2, capacity=12, service_rate=10.0)
    return st.simulate(truth, np.linspace(3, 14, 30), duration=60.0, seed=0)


def test_the_counts_choose_the_servers(windows):
    plan = st.plan(windows, servers=[1, 2, 4], capacity=12, slo="loss < 1%")
    assert plan.weights["service:servers=2,capacity=12"] > 0.95
    assert plan.recommended == "service:servers=2,capacity=12"


def test_light_load_does_not_choose_the_capacity_and_the_interval_spans_it(windows):
    light = windows.between(None, 9.0).observing([0, 1, 2, 3, 4])
    wide = st.plan(light, servers=2, capacity=(8, 24), slo="loss < 1%")
    shares = [weight for name, weight in wide.weights.items() if weight]
    assert len(shares) == 5
    assert max(shares) < 0.4
    ends = [
        st.plan(light, servers=2, capacity=size, slo="loss < 1%").limit.load for size in (8, 24)
    ]
    assert wide.limit.low < ends[0] < ends[1] < wide.limit.high


@pytest.mark.parametrize(
    ("text", "numbers"), [("4", (4,)), ("1,2,4", (1, 2, 4)), ("17-19", (17, 18, 19))]
)
def test_candidates_are_read(text, numbers):
    assert parse_candidates(text, "--servers") == numbers


@pytest.mark.parametrize("text", ["", "x", "3-", "0", "-2", "5-3", "1.5"])
def test_other_texts_are_refused(text):
    with pytest.raises(InputError, match="--servers"):
        parse_candidates(text, "--servers")


@pytest.mark.parametrize("value", [0, 1.5, "4", [], (1, 2, 3), True, [2, 0]])
def test_other_values_are_refused(value):
    with pytest.raises(InputError, match="servers"):
        as_candidates(value, "servers")


def test_a_capacity_below_the_servers_is_refused(windows):
    with pytest.raises(InputError, match="at least the number of servers"):
        st.plan(windows, servers=4, capacity=3)


@pytest.mark.parametrize(
    ("full", "lost", "asked", "found"),
    [
        ([0, 0], None, {}, (3,)),  # named, and never seen
        ([2, 1], None, {}, (3, 24, 200)),  # full, or the longest queue that there happened to be
        ([2, 1], [2, 1], {}, (3,)),  # lost requests, which count as finding a full system
        ([2, 1], [0, 0], {}, (4, 28, 200)),  # requests that were let in
        ([2, 1], [0, 0], {"servers": (1, 8)}, (8, 200)),
        ([2, 1], [0, 0], {"patience": 0.5}, (81,)),
    ],
)
def test_which_capacities_may_be(full, lost, asked, found):
    counts = [[60, 30, 9, full[0]], [50, 30, 19, full[1]]]
    kinds = [st.data.States(counts, range(4), sampling="arrival")]
    if lost is not None:
        kinds.append(st.data.Losses([[each, 100] for each in lost]))
    windows = st.Windows(x=[10.0, 20.0], observations=kinds)
    assert likely_capacities(windows, **asked) == found


def test_without_counts_the_capacity_may_be_anything():
    seen = st.data.Latencies([[60, 30, 10]], edges=[0.01, 0.02])
    windows = st.Windows(x=[10.0], observations=[seen])
    assert likely_capacities(windows) == (10, 45, 200)
