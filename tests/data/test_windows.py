"""Windows: what is accepted, what is refused and how it says so, and the file it writes."""

import copy
import math
import string
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as some

import stationary as st
from stationary.data import Sampling, Windows, read_windows
from stationary.errors import DataWarning, InputError
from stationary.terms.categories import label, natural, parse_category

X = [11.0, 12.0, 11.0]
COUNTS = [[3, 2, 1], [4, 1, 0], [5, 5, 5]]


def windows(**changes):
    return Windows(**{"x": X, "counts": COUNTS, "observe": [0, 1, (2, 3, 4)], **changes})


def test_holds_float64_tensors_of_its_own_and_is_immutable():
    counts = np.array([[3, 2], [4, 1]])
    made = Windows(x=torch.tensor([1, 2]), counts=counts, observe=np.array([0, 1]))
    counts[:] = 9
    assert made.x.dtype == made.counts.dtype == torch.float64
    assert made.x.tolist() == [[1], [2]]
    assert made.counts.tolist() == [[3, 2], [4, 1]]
    assert (made.observe, made.sampling, len(made)) == ((0, 1), Sampling.TIME, 2)
    with pytest.raises(AttributeError, match="immutable"):
        made.x = torch.zeros(2, 1)


def test_windows_are_compared_by_all_they_hold():
    one = windows()
    assert one == windows() == copy.deepcopy(one)
    for change in ({"x": [11.0, 12.0, 13.0]}, {"sampling": "arrival"}, {"duration": 1.0}):
        assert one != windows(**change)
    assert one != 3


def test_categories_have_one_form_and_are_shown():
    one = windows(observe=["0", "overload", [3, "2", 10]])
    assert one.observe == (0, "overload", (2, 3, 10))
    assert one.labels == ("0", "overload", "2+3+10")
    assert windows(observe=[0, [1], range(2, 21)]).labels == ("0", "1", "2..20")
    shown = "Windows(3 windows, load 11..12, categories 0, 1, 2..4, 26 counts, sampling=time)"
    assert repr(windows()) == shown


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"counts": [[3, 2, 1], [4, -1, 0], [5, 5, 5]]}, ["window 1", "'1'", "-1.0", "whole"]),
        ({"counts": [[3, 2, 1], [4, 1, 0], [5, 5, 0.5]]}, ["window 2", "'2..4'", "0.5"]),
        ({"counts": [[math.nan, 2, 1], *COUNTS[1:]]}, ["window 0", "'0'", "nan"]),
        ({"counts": [[3, math.inf, 1], *COUNTS[1:]]}, ["window 0", "'1'", "inf"]),
        ({"counts": [[1e16, 2, 1], *COUNTS[1:]]}, ["window 0", "2**53", "shorter"]),
        ({"counts": [[3, 2, 1], [0, 0, 0], [5, 5, 5]]}, ["window 1: no", "drop_empty=True"]),
        ({"counts": [[0, 0, 0]] * 3}, ["every window has no counts", "Q=0, Q=1, Q=2..4"]),
        ({"counts": COUNTS[:2]}, ["each of the 2 windows", "(3, 1)"]),
        ({"counts": [[3, 2]] * 3}, ["one column for each", "3 categories", "0, 1, 2..4", "(3, 2)"]),
        ({"counts": [3, 2, 1]}, ["shape", "(3,)"]),
        ({"counts": [[3, 2, 1], [4, 1], [5]]}, ["counts must be a table of numbers"]),
        ({"counts": [["many", 2, 1]] * 3}, ["counts must be a table of numbers", "many"]),
        ({"counts": None}, ["counts= and observe= go together"]),
        ({"counts": None, "observe": None}, ["nothing was observed", "counts="]),
        ({"observations": ["states"]}, ["observations must be", "'states'"]),
        ({"observations": 3}, ["observations must be", "3"]),
        ({"observations": st.States([[1, 2]], [0, 1])}, ["same windows", "3 rows", "1 of Q=0"]),
        ({"x": [11.0, math.nan, 11.0]}, ["window 1", "'load'", "nan", "finite"]),
        ({"x": [11.0, 12.0, -math.inf]}, ["window 2", "'load'", "-inf"]),
        ({"x": [[1.0, 2.0]] * 3}, ["column for each input (load)", "(3, 2)", "inputs="]),
        ({"x": [], "counts": np.zeros((0, 3))}, ["there are no windows"]),
        ({"duration": [1.0, 2.0]}, ["duration", "3 windows", "(2,)"]),
        ({"duration": [1.0, 2.0, -3.0]}, ["duration must be positive", "-3.0"]),
        ({"inputs": ["load", "load"], "x": [[1, 2]] * 3}, ["different", "load"]),
        ({"inputs": [" load"]}, ["' load'"]),
        ({"observe": [0, 1, 1]}, ["state 1", "category 1", "category 2", "keep it in one"]),
        ({"observe": [0, 1, (1, 2, 3)]}, ["state 1", "'1..3'"]),
        ({"observe": [0, 1, (2, 2)]}, ["state 2", "listed twice"]),
        ({"observe": [0, 1, ()]}, ["at least one state"]),
        ({"observe": "012"}, ["must be a list", "'012'"]),
        ({"observe": [0, 1, -1]}, ["from 0 up", "-1"]),
        ({"observe": [0, 1, 1.5]}, ["1.5"]),
        ({"observe": [0, 1, True]}, ["True"]),
        ({"observe": [0, 1, "a\n"]}, ["printable"]),
        ({"observe": [0], "counts": [[1]] * 3}, ["at least two", "constant", "got 0"]),
        ({"sampling": "often"}, ["time", "arrival", "'often'"]),
    ],
)
def test_bad_input_is_named(changes, parts):
    with pytest.raises(InputError) as caught:
        windows(**changes)
    assert [part for part in parts if part not in str(caught.value)] == []


def test_empty_windows_are_dropped_on_request_with_their_rows():
    counts = [[3, 2, 1], [0, 0, 0], [5, 5, 5]]
    with pytest.warns(DataWarning, match=r"window 1: dropped, no counts .* Q=0, Q=1, Q=2\.\.4"):
        made = windows(counts=counts, drop_empty=True, duration=[1.0, 2.0, 3.0])
    assert made.loads.tolist() == [11, 11]
    assert made.size.tolist() == [6, 15]
    assert made.duration.tolist() == [1, 3]
    with pytest.raises(InputError, match=r"windows 1, 2, 3, .* 10 and 5 more: no counts"):
        Windows(range(16), [[1, 1], *[[0, 0]] * 15], [0, 1])


def test_select_and_between():
    one = windows()
    assert one.select([True, False, True]).counts.tolist() == [[3, 2, 1], [5, 5, 5]]
    assert one.select([2, 0]).counts.tolist() == [[5, 5, 5], [3, 2, 1]]
    assert one.select(slice(1, None)).loads.tolist() == [12, 11]
    assert one.select(one.loads > 11.5).loads.tolist() == [12]
    assert one.between(11.5, 12).loads.tolist() == [12]
    assert len(one.between(low=11)) == len(one.between(high=12)) == 3
    for which, part in [
        ([True], "one entry per window"),
        ([3], r"0\.\.2; got \[3\]"),
        ([], "leaves no window"),
        ([0.5], "list of positions"),
        (1, "list of positions"),
    ]:
        with pytest.raises(InputError, match=part):
            one.select(which)
    for ends, part in [((20, 30), r"load in \[20, 30\]; .* from 11 to 12"), (("a", 1), "numbers")]:
        with pytest.raises(InputError, match=part):
            one.between(*ends)


def test_a_weight_says_what_the_counts_of_a_window_are_worth():
    weighed = windows().weighed([1, 0.5, 2])
    assert weighed.data.tolist() == [[3, 2, 1], [2, 0.5, 0], [10, 10, 10]]
    assert weighed.size.tolist() == [6, 2.5, 30]
    assert weighed.counts.tolist() == COUNTS
    assert weighed.lengths.tolist() == windows().lengths.tolist()
    assert weighed.select([2, 0]).weights.tolist() == [2, 1]
    assert weighed != windows()
    assert weighed == windows().weighed([1, 0.5, 2])
    assert weighed.weighed([1, 1, 1]).data.tolist() == COUNTS
    for wrong in ([1, 1], [1, 0, 1], [1, -1, 1], [1, math.nan, 1]):
        with pytest.raises(InputError, match="a positive number for each of the 3 windows"):
            windows().weighed(wrong)


def test_observing_keeps_categories_by_state_or_label():
    one = windows()
    assert one.observing([1, 0]).counts.tolist() == [[2, 3], [1, 4], [5, 5]]
    assert one.observing(["0", "2..4"]) == one.observing([0, (4, 3, 2)])
    assert one.observing(["0", "2-4"]) == one.observing([0, range(2, 5)])
    few = windows(counts=[[3, 2, 1], [0, 0, 4], [5, 5, 5]])
    for made, categories, part in [
        (one, [0, 7], r"no category 7 .* there are: 0, 1, 2\.\.4"),
        (one, [0, 0], "asked for twice"),
        (one, "01", "must be a list"),
        (few, [0, 1], "window 1: no counts in .* Q=0, Q=1"),
    ]:
        with pytest.raises(InputError, match=part):
            made.observing(categories, drop_empty=False)
    with pytest.warns(DataWarning, match="window 1"):
        assert len(few.observing([0, 1])) == 2


def test_states_are_looked_up_in_a_model():
    A = windows().observation(st.models.MMmK(capacity=5))
    assert A.dense().tolist() == [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]]
    over = windows(observe=[0, 1, "overload"])
    assert over.observation(st.models.UpperTriangular(states=4)).dense()[2].tolist() == [0, 0, 0, 1]
    for made, part in [
        (windows(), r"category '2\.\.4': state '4' .* 4 states are 0\.\.3"),
        (over, r"category 'overload': .* 0\.\.3"),
    ]:
        with pytest.raises(InputError, match=part):
            made.observation(st.models.MMmK(capacity=3))


def test_states_are_names_before_they_are_positions():
    def rates(load, p):
        return p.r[..., None].expand(*p.r.shape[:-1], 3, 3)

    numbered, named = (
        st.models.FromFunction(rates, states=names, params={"r": 1.0})
        for names in ([1, 2, 3], ["a", "b", "c"])
    )
    pair = Windows([1.0], [[1, 1]], [1, 2])
    assert pair.observation(numbered).dense().argmax(1).tolist() == [0, 1]
    assert pair.observation(named).dense().argmax(1).tolist() == [1, 2]
    with pytest.raises(InputError, match="'0' and '1' are both state '1'"):
        Windows([1.0], [[1, 1]], [0, 1]).observation(numbered)


def test_frame_has_a_column_per_input_and_category():
    frame = windows().to_frame()
    assert list(frame.columns) == ["load", "Q=0", "Q=1", "Q=2..4"]
    assert frame["Q=2..4"].tolist() == [1, 0, 5]
    assert frame["Q=0"].dtype == np.int64


# --- observations of a user's own -----------------------------------------------------------------


def test_a_subclass_does_not_take_the_name_of_its_kind():
    class MyStates(st.States):
        pass

    assert st.Observation.kinds["states"] is st.States
    with pytest.raises(InputError, match="states"):

        class Others(st.States):
            kind = "states"


@pytest.mark.parametrize(
    "counts", [[[60, -40]], [[60, 0.5]], [[60, np.nan]], [60, 40], [[1, 2, 3]]]
)
def test_counts_of_any_kind_are_checked(counts):
    class Two(st.Counts):
        columns = ("idle", "busy")

        def on(self, model):
            return self

        def probabilities(self, point):
            return torch.cat([point.pi[..., :1], 1 - point.pi[..., :1]], -1)

    with pytest.raises(InputError, match="count"):
        Two(counts)


def test_windows_have_one_table_of_states():
    one = st.States([[3, 4]], [0, 1])
    with pytest.raises(InputError, match="one table of counts of states"):
        st.Windows([1.0], observations=[one, one])
    for wrong in ([5], 5):
        with pytest.raises(InputError, match="observations"):
            st.Windows([1.0], observations=wrong)


# --- files --------------------------------------------------------------------------------------


def test_csv_layout(tmp_path):
    windows().to_csv(tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text() == (
        "# stationary: sampling=time\nload,Q=0,Q=1,Q=2..4\n11.0,3,2,1\n12.0,4,1,0\n11.0,5,5,5\n"
    )


def test_csv_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "w.csv"
    target.write_text("before")

    def full(self, other):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=r"w\.csv: cannot be written: No space left"):
        windows().to_csv(target)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("changes", "name", "part"),
    [
        ({}, "w.txt", r"\.csv"),
        ({}, "nowhere/w.csv", "cannot be written"),
        ({"observe": [0, 1, "a+b"]}, "w.csv", r"'a\+b'.*rename the state"),
        ({"inputs": ["Q=0"]}, "w.csv", "'Q=0' has the name of a count column"),
    ],
)
def test_csv_refuses_what_would_not_read_back(tmp_path, changes, name, part):
    with pytest.raises(InputError, match=part):
        windows(**changes).to_csv(tmp_path / name)


_NAMES = some.one_of(
    some.integers(0, 60),
    some.text(alphabet=string.ascii_letters + string.digits + " .-=,;\"'{}µß", min_size=1).filter(
        lambda name: name == name.strip()
    ),
)


@some.composite
def _windows(draw):
    pool = draw(some.lists(_NAMES, min_size=2, max_size=12, unique_by=str))
    groups = draw(some.lists(some.integers(0, 4), min_size=len(pool), max_size=len(pool)))
    observe = [[s for s, g in zip(pool, groups, strict=True) if g == k] for k in sorted({*groups})]
    assume(len(observe) > 1)
    rows = draw(some.integers(1, 5))
    row = some.lists(some.integers(0, 2**53), min_size=len(observe), max_size=len(observe)).filter(
        any
    )
    loads = some.floats(0, exclude_min=True, allow_infinity=False)
    inputs = draw(some.sampled_from([("load",), ("call rate", "Q"), ("x", 'a,"b"')]))
    x = [[draw(loads), *draw(some.tuples(*[some.floats(-1e9, 1e9)] * (len(inputs) - 1)))]]
    x += [[draw(loads), *x[0][1:]] for _ in range(rows - 1)]
    counts, sampling = [draw(row) for _ in range(rows)], draw(some.sampled_from(Sampling))
    duration = draw(some.sampled_from([None, 0.1]))
    return Windows(x, counts, observe, sampling, inputs, duration=duration)


@given(_windows())
def test_csv_reads_back_equal(made):
    try:
        assume(all(parse_category(label(c)) == c for c in made.observe))
    except InputError:  # a name such as 9-3, which to_csv refuses
        assume(False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.csv"
        made.to_csv(path)
        assert read_windows(path, made.inputs, observe=made.observe) == made
        ordered = made.observing(sorted(made.observe, key=natural))
        assert read_windows(path, made.inputs) == ordered


@given(some.sets(some.integers(0, 60), min_size=1, max_size=40))
def test_labels_of_numbers_read_back(states):
    made = Windows([1.0], [[1, 1]], [tuple(states), "elsewhere"])
    assert parse_category(made.labels[0]) == made.observe[0]
