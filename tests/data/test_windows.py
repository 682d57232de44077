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

from stationary.data import Sampling, Windows, read_windows
from stationary.errors import DataWarning, InputError
from stationary.models import FromFunction, MMmK, UpperTriangular
from stationary.terms.categories import label, natural, parse_category


def windows(**changes):
    given = {
        "x": [11.0, 12.0, 11.0],
        "counts": [[3, 2, 1], [4, 1, 0], [5, 5, 5]],
        "observe": [0, 1, (2, 3, 4)],
    }
    return Windows(**{**given, **changes})


def test_holds_float64_tensors_of_its_own():
    counts = np.array([[3, 2], [4, 1]])
    made = Windows(x=torch.tensor([1, 2]), counts=counts, observe=np.array([0, 1]))
    counts[:] = 9
    assert made.x.dtype == made.counts.dtype == torch.float64
    assert made.x.shape == (2, 1)
    assert made.counts.tolist() == [[3, 2], [4, 1]]
    assert made.observe == (0, 1)
    assert made.sampling is Sampling.TIME
    assert len(made) == 2
    assert made.loads.tolist() == [1, 2]


def test_is_immutable_and_comparable():
    one = windows()
    with pytest.raises(AttributeError, match="immutable"):
        one.x = torch.zeros(3, 1)
    assert one == windows() == copy.deepcopy(one)
    assert one != windows(x=[11.0, 12.0, 13.0])
    assert one != windows(sampling="arrival")
    assert one != 3


def test_numbers_as_text_are_numbers_and_lumps_are_sorted():
    one = windows(observe=["0", "overload", [3, "2", 10]])
    assert one.observe == (0, "overload", (2, 3, 10))
    assert one.labels == ("0", "overload", "2+3+10")
    assert windows(observe=[0, [1], range(2, 21)]).labels == ("0", "1", "2..20")


def test_repr_says_what_there_is():
    assert repr(windows()) == (
        "Windows(3 windows, load 11..12, categories 0, 1, 2..4, 26 counts, sampling=time)"
    )


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"counts": [[3, 2, 1], [4, -1, 0], [5, 5, 5]]}, ["window 1", "'1'", "-1.0", "whole"]),
        ({"counts": [[3, 2, 1], [4, 1, 0], [5, 5, 0.5]]}, ["window 2", "'2..4'", "0.5"]),
        ({"counts": [[math.nan, 2, 1], [4, 1, 0], [5, 5, 5]]}, ["window 0", "'0'", "nan"]),
        ({"counts": [[3, math.inf, 1], [4, 1, 0], [5, 5, 5]]}, ["window 0", "'1'", "inf"]),
        ({"counts": [[1e16, 2, 1], [4, 1, 0], [5, 5, 5]]}, ["window 0", "2**53", "shorter"]),
        ({"counts": [[3, 2, 1], [0, 0, 0], [5, 5, 5]]}, ["window 1 has no", "drop_empty=True"]),
        ({"counts": [[0, 0, 0]] * 3}, ["no window has any counts", "Q=0, Q=1, Q=2..4"]),
        ({"counts": [[3, 2, 1], [4, 1, 0]]}, ["x has 3 windows", "2 rows"]),
        ({"counts": [[3, 2]] * 3}, ["one column for each", "3 categories", "0, 1, 2..4", "(3, 2)"]),
        ({"counts": [3, 2, 1]}, ["shape", "(3,)"]),
        ({"counts": [[3, 2, 1], [4, 1], [5]]}, ["counts must be a table of numbers"]),
        ({"counts": [["many", 2, 1]] * 3}, ["counts must be a table of numbers", "many"]),
        ({"x": [11.0, math.nan, 11.0]}, ["window 1", "'load'", "nan", "finite"]),
        ({"x": [11.0, 12.0, -math.inf]}, ["window 2", "'load'", "-inf"]),
        ({"x": [[1.0, 2.0]] * 3}, ["x has 2 columns", "inputs names 1 (load)"]),
        ({"x": [], "counts": np.zeros((0, 3))}, ["there are no windows"]),
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
    for part in parts:
        assert part in str(caught.value)


def test_empty_windows_are_dropped_on_request_with_their_rows():
    counts = [[3, 2, 1], [0, 0, 0], [5, 5, 5]]
    with pytest.warns(DataWarning, match=r"dropped window 1: no counts .* Q=0, Q=1, Q=2\.\.4"):
        made = windows(counts=counts, drop_empty=True)
    assert made.loads.tolist() == [11, 11]
    with pytest.raises(InputError, match=r"windows 1, 2, 3, .* 10 and 5 more have no counts"):
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
        ([3], r"0\.\.2"),
        ([], "leaves none"),
        ([0.5], "mask or a list"),
        (1, "mask or a list"),
    ]:
        with pytest.raises(InputError, match=part):
            one.select(which)
    with pytest.raises(InputError, match=r"load in \[20, 30\]; .* from 11 to 12"):
        one.between(20, 30)
    with pytest.raises(InputError, match="two numbers"):
        one.between("light", None)


def test_observing_keeps_categories_by_state_or_label():
    one = windows()
    assert one.observing([1, 0]).counts.tolist() == [[2, 3], [1, 4], [5, 5]]
    assert one.observing(["0", "2..4"]) == one.observing([0, (4, 3, 2)])
    assert one.observing(["0", "2-4"]) == one.observing([0, range(2, 5)])
    with pytest.raises(InputError, match=r"no category 7 .* there are: 0, 1, 2\.\.4"):
        one.observing([0, 7])
    with pytest.raises(InputError, match="asked for twice"):
        one.observing([0, 0])
    with pytest.raises(InputError, match="must be a list"):
        one.observing("01")
    few = windows(counts=[[3, 2, 1], [0, 0, 4], [5, 5, 5]])
    with pytest.raises(InputError, match=r"window 1 has no counts in .* Q=0, Q=1"):
        few.observing([0, 1])
    with pytest.warns(DataWarning, match="window 1"):
        assert len(few.observing([0, 1], drop_empty=True)) == 2


def test_observation_map():
    A = windows().observation(MMmK(capacity=5))
    assert A.dense().tolist() == [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]]
    over = windows(observe=[0, 1, "overload"]).observation(UpperTriangular(states=4))
    assert over.dense()[2].tolist() == [0, 0, 0, 1]
    with pytest.raises(InputError, match=r"category '2\.\.4': state '4' .* 4 states are 0\.\.3"):
        windows().observation(MMmK(capacity=3))
    with pytest.raises(InputError, match=r"category 'overload': .* 0\.\.3"):
        windows(observe=[0, 1, "overload"]).observation(MMmK(capacity=3))


def test_states_are_names_before_they_are_positions():
    def chain(names):
        return FromFunction(
            lambda load, p: p.r[..., None].expand(*p.r.shape[:-1], 3, 3),
            states=names,
            params={"r": 1.0},
        )

    pair = Windows([1.0], [[1, 1]], [1, 2])
    assert pair.observation(chain([1, 2, 3])).dense().argmax(1).tolist() == [0, 1]
    assert pair.observation(chain(["a", "b", "c"])).dense().argmax(1).tolist() == [1, 2]
    with pytest.raises(InputError, match="'0' and '1' are both state '1'"):
        Windows([1.0], [[1, 1]], [0, 1]).observation(chain([1, 2, 3]))


def test_pooling_keeps_the_likelihood():
    one = windows(x=[12.0, 11.0, 12.0])
    pooled = one.pooled()
    assert pooled.loads.tolist() == [11, 12]
    assert pooled.counts.tolist() == [[4, 1, 0], [8, 7, 6]]

    def likelihood(some_windows):
        weights = some_windows.loads[:, None] ** -torch.arange(3.0)
        return float((some_windows.counts * torch.log_softmax(weights, -1)).sum())

    assert likelihood(pooled) == pytest.approx(likelihood(one), rel=1e-14)
    two = windows(x=[[1, 2], [1, 3], [1, 2]], inputs=["load", "heat"]).pooled()
    assert two.x.tolist() == [[1, 2], [1, 3]]


def test_frame_has_a_column_per_input_and_category():
    frame = windows().to_frame()
    assert list(frame.columns) == ["load", "0", "1", "2..4"]
    assert frame["2..4"].tolist() == [1, 0, 5]
    assert frame["0"].dtype == np.int64


def test_csv_layout(tmp_path):
    windows().to_csv(tmp_path / "w.csv")
    assert (tmp_path / "w.csv").read_text() == (
        "# stationary: sampling=time\nload,Q=0,Q=1,Q=2..4\n11.0,3,2,1\n12.0,4,1,0\n11.0,5,5,5\n"
    )
    assert read_windows(tmp_path / "w.csv") == windows()


def test_a_csv_says_how_it_was_made(tmp_path):
    made = windows(sampling="arrival", duration=2.5)
    made.to_csv(tmp_path / "w.csv")
    assert read_windows(tmp_path / "w.csv") == made


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


def test_csv_refuses_what_would_not_read_back(tmp_path):
    with pytest.raises(InputError, match=r"\.csv"):
        windows().to_csv(tmp_path / "w.txt")
    with pytest.raises(InputError, match="cannot be written"):
        windows().to_csv(tmp_path / "nowhere" / "w.csv")
    with pytest.raises(InputError, match=r"'a\+b'.*rename the state"):
        windows(observe=[0, 1, "a+b"]).to_csv(tmp_path / "w.csv")
    with pytest.raises(InputError, match="name of a count column"):
        windows(inputs=["Q=0"]).to_csv(tmp_path / "w.csv")


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
    return Windows(
        x, [draw(row) for _ in range(rows)], observe, draw(some.sampled_from(Sampling)), inputs
    )


@given(_windows())
def test_csv_reads_back_equal(made):
    try:
        assume(all(parse_category(label(c)) == c for c in made.observe))
    except InputError:  # a name such as 9-3, which to_csv refuses
        assume(False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.csv"
        made.to_csv(path)
        back = read_windows(path, made.inputs, "Q={}", made.observe, made.sampling)
        assert back == made
        ordered = read_windows(path, made.inputs, sampling=made.sampling)
        assert ordered == made.observing(sorted(made.observe, key=natural))


@given(some.sets(_NAMES.filter(lambda name: isinstance(name, int)), min_size=1, max_size=40))
def test_labels_of_numbers_read_back(states):
    made = Windows([1.0], [[1, 1]], [tuple(states), "elsewhere"])
    assert parse_category(made.labels[0]) == made.observe[0]
