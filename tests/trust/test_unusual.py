"""Windows unlike others at their load: found without a model, named, and hardly counted."""

import numpy as np
import pytest

import stationary as st
from stationary.data.service_times import Cell, ServiceTimes
from stationary.trust.unusual import unusual, weigh_unusual

CAPACITY = 12
TRUTH = st.models.MMmK(servers=1, capacity=CAPACITY, service_rate=20.0)
LOADS = np.linspace(2.0, 12.0, 22)


def recorded(seed=0, loads=LOADS):
    return st.simulate(TRUTH, x=loads, duration=40.0, seed=seed)


def with_counts(windows, **rows):
    """Windows of which some counted something else."""
    counts = windows.counts.clone()
    for row, other in rows.items():
        counts[int(row[1:])] = other
    kind = windows.states.with_data(counts)
    return st.Windows(windows.x, observations=[kind], duration=windows.duration)


def spoilt(windows):
    """One window holds the counts of a much heavier load, another those of two loads."""
    heavy = recorded(seed=99, loads=np.full(1, 17.0)).counts[0]
    counts = windows.counts
    return with_counts(windows, w4=heavy, w9=(counts[0] + counts[-1] * 3 + heavy) // 2)


def test_windows_with_nothing_wrong_are_hardly_ever_found():
    found = [len(unusual(recorded(seed))) for seed in range(40)]
    assert sum(found) <= 0.02 * 40 * len(LOADS)


def test_windows_of_other_loads_are_found_whatever_order_they_have():
    for seed in range(5):
        bad = spoilt(recorded(seed))
        assert {4, 9} <= set(unusual(bad))
        order = np.random.default_rng(seed).permutation(len(bad))
        assert {int(order[k]) for k in unusual(bad.select(order))} == set(unusual(bad))


def test_few_windows_at_equal_or_no_load_name_nobody():
    assert unusual(spoilt(recorded()).select(slice(0, 9))) == []
    assert unusual(recorded(loads=np.full(30, 8.0))) == []
    kind = recorded().states
    still = st.Windows(np.zeros(len(LOADS)), observations=[kind])
    assert unusual(still) == []


def test_windows_are_compared_at_the_same_other_inputs():
    kind = spoilt(recorded()).states
    half = np.arange(len(LOADS)) % 2
    both = st.Windows(np.stack([LOADS, half], -1), observations=[kind], inputs=["load", "cache"])
    for which in (0, 1):
        alone = np.flatnonzero(half == which)
        part = st.Windows(LOADS[alone], observations=[kind.with_data(kind.data[alone])])
        here = [int(alone[k]) for k in unusual(part)]
        assert [k for k in unusual(both) if half[k] == which] == here
    assert 4 in unusual(both)


def test_a_plan_hardly_counts_the_windows_that_it_names():
    good = recorded()
    kept = np.setdiff1d(np.arange(len(good)), [4, 9])
    bad = spoilt(good)
    models = {"service": st.models.Service(capacity=CAPACITY)}
    without, found = (st.compare(models, each, jobs=1) for each in (bad.select(kept), bad))
    full = st.fit(models["service"], bad).having(discrepancy=without.discrepancy)
    assert found.outlying == unusual(bad)
    assert found.windows.weights[[4, 9]].tolist() == [0.05, 0.05]
    assert float(found.windows.weights.sum()) == pytest.approx(20.1, abs=0.96)
    aim, near, far = (each.max_load(loss=0.01).load for each in (without, found, full))
    assert abs(near / aim - 1) < 0.02
    assert abs(far / aim - 1) > 0.05


def test_service_times_count_fully_and_windows_are_named():
    cells = [Cell(1, idle=True, level=1)]
    times = ServiceTimes([[100, 5.0, 0.5]] * len(LOADS), cells)
    both = st.Windows(LOADS, observations=[times, spoilt(recorded()).states])
    used = both.using(["service times"])
    assert weigh_unusual(used).weights is None
    assert unusual(used) == unusual(both)
    assert weigh_unusual(both.using(["states"])).weights is not None


def test_what_windows_weigh_is_saved(tmp_path):
    found = st.compare([st.models.MMmK(capacity=CAPACITY)], spoilt(recorded()), jobs=1)
    found.save(tmp_path / "plan")
    back = st.load(tmp_path / "plan")
    assert back.windows == found.windows
    assert back.windows.weights.tolist() == found.windows.weights.tolist()
    assert back.outlying == found.outlying
