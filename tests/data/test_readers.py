"""Windows from files and frames: the layouts that are read, and every way a file can be wrong."""

import gzip
import warnings

import numpy as np
import pandas as pd
import pytest

import stationary as st
from stationary.errors import DataWarning, InputError
from stationary.terms.categories import parse_counts, parse_observe

HEADER = "load,Q=0,Q=1\n"
GOOD = "load,Q=0,Q=1,Q=2\n11,3,2,1\n12,4,1,0\n"


@pytest.fixture
def read(tmp_path):
    def make(text, name="w.csv", **options):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return st.read_windows(path, **options)

    return make


def assert_says(error, parts):
    assert [part for part in parts if part not in str(error.value)] == []


# --- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("w.tsv", GOOD.replace(",", "\t")),
        ("W.CSV.gz", gzip.compress(GOOD.encode(), mtime=0)),
        ("sheet.csv", "\ufeff" + GOOD.replace(",", ", ").replace("\n", ",\r\n") + "\r\n\r\n"),
        ("signs.csv", GOOD.replace("11", '"+1_1"')),
        ("comma.csv", GOOD.replace("2,1\n", "2,1,\n")),
        ("note.csv", GOOD.replace("load", "a note,load").replace("\n1", '\n"x\ny",1')),
    ],
)
def test_text_is_read_alike(read, name, text):
    plain = read(GOOD)
    assert plain.counts.tolist() == [[3, 2, 1], [4, 1, 0]]
    assert (plain.loads.tolist(), plain.observe, plain.inputs) == ([11, 12], (0, 1, 2), ("load",))
    assert read(text, name) == plain


def test_parquet_is_read_also_when_the_load_was_an_index(read, tmp_path):
    plain, path = read(GOOD), tmp_path / "w.parquet"
    frame = pd.read_csv(tmp_path / "w.csv")
    ranged = frame.drop(columns="load").set_index(pd.RangeIndex(11, 13, name="load"))
    for same in (frame, frame.set_index("load"), ranged, frame.astype(str)):
        same.to_parquet(path)
        assert st.read_windows(path) == plain
    frame.rename(columns={"Q=2": "Q=2..20"}).to_parquet(path)
    assert st.read_windows(path).labels == ("0", "1", "2..20")


def test_frames_are_read_as_files_are(read, tmp_path):
    plain = read(GOOD)
    frame = pd.read_csv(tmp_path / "w.csv")
    assert st.Windows.from_frame(frame) == plain
    assert st.Windows.from_frame(frame.set_index("load")) == plain
    assert st.Windows.from_frame(plain.to_frame()) == plain
    how = {"sampling": "arrival", "duration": [1.0, 2.0], "observe": [0, 1]}
    made = st.Windows.from_frame(frame, x="load", counts=["Q=0", "Q=1", "Q=2"], **how)
    expected = st.Windows([11, 12], [[3, 2], [4, 1]], [0, 1], "arrival", duration=[1.0, 2.0])
    assert made == expected
    idle = pd.concat([frame, 0 * frame.iloc[:1]])
    with pytest.warns(DataWarning, match="frame, row 2: dropped, idle"):
        assert st.Windows.from_frame(idle) == plain
    frame.loc[1, "Q=1"] = -3
    with pytest.raises(InputError, match=r"frame, row 1, column 'Q=1': the count is -3"):
        st.Windows.from_frame(frame)
    with pytest.raises(InputError, match="must be a pandas DataFrame; got dict"):
        st.Windows.from_frame({"load": [1]})


def test_columns_are_matched_by_pattern_or_mapping(read):
    text = "Q=10,Q=overload,load,Q=2,Q=4-6,Q=q10,Q=q9\n1,2,3,4,5,6,7\n"
    found = read(text)
    assert found.labels == ("2", "4..6", "10", "overload", "q9", "q10")
    assert found.counts.tolist() == [[4, 5, 1, 2, 7, 6]]
    text = "load,Q=0,Q=1,Q=21,Q=22\n11,3,2,1,4\n12,4,1,0,6\n"
    counts = {"Q=0": 0, "Q=21": "overload", "Q=1": (1, 2), "Q=22": ["overload"]}
    found = read(text, counts=counts)
    assert found.labels == ("0", "overload", "1+2")
    assert found.counts.tolist() == [[3, 5, 2], [4, 6, 1]]


def test_several_inputs_and_other_columns_are_left_alone(read):
    text = "note,heat,rate,Q=0,Q=1\nhot,-3.5,11,3,2\n"
    found = read(text, x=["rate", "heat"])
    assert (found.x.tolist(), found.inputs) == ([[11, -3.5]], ("rate", "heat"))


def test_observe_and_loads_choose(read):
    found = read(GOOD, observe=["1", 0], loads=(11.5, None))
    assert (found.observe, found.counts.tolist()) == ((1, 0), [[1, 4]])


def test_idle_rows_are_dropped_and_named(read):
    text = GOOD + "\n0,0,0,0\n13,1,1,1\n0,0,0,0\n"
    with pytest.warns(DataWarning, match=r"w\.csv, lines 5 and 7: dropped, idle: load is 0"):
        assert read(text).loads.tolist() == [11, 12, 13]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # outside the range of loads: nothing to report
        assert len(read(text, loads=(1, None))) == 3
    with pytest.warns(DataWarning), pytest.raises(InputError, match=r"w\.csv: no window .* idle"):
        read(HEADER + "0,0,0\n")


def test_windows_without_counts_are_dropped_on_request(read):
    text = GOOD + "13,0,0,7\n"
    assert len(read(text)) == 3
    with pytest.warns(DataWarning, match=r"w\.csv, line 4: dropped, no counts .* 0 and 1"):
        assert len(read(text, observe=[0, 1], drop_empty=True)) == 2


@pytest.mark.parametrize("more", ["", ",,"])
def test_a_first_line_says_how_windows_were_sampled(read, more):
    """Also after a spreadsheet filled it up with commas; lines count as an editor shows them."""
    text = f"# stationary: sampling=arrival duration=2.5{more}\n{GOOD}"
    found = read(text)
    assert found.by_arrivals
    assert found.duration.tolist() == [2.5, 2.5]
    given = read(text, sampling="time", duration=1.0)
    assert (given.by_arrivals, given.duration.tolist()) == (False, [1.0, 1.0])
    with pytest.raises(InputError, match="line 4, column 'Q=1'"):
        read(text.replace("4,1,0", "4,-1,0"))


def test_the_papers_recording(recording_file):
    with pytest.warns(DataWarning, match="line 2: dropped, idle: callrate is 0"):
        full = st.read_windows(recording_file, x="callrate", counts="Q={}")
    assert (len(full), full.observe) == (223, tuple(range(26)))
    light = st.read_windows(recording_file, x="callrate", observe=[1, 2], loads=(1, 1000))
    assert (len(light), int((full.loads > 1000).sum())) == (86, 137)
    overload = {f"Q={k}": k if k <= 20 else "overload" for k in range(26)}
    with pytest.warns(DataWarning, match="line 2"):
        lumped = st.read_windows(recording_file, x="callrate", counts=overload)
    assert lumped.labels[-1] == "overload"
    assert lumped.counts[:, -1].equal(full.counts[:, 21:].sum(-1))


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ("11,3,-2\n", ["w.csv, line 2, column 'Q=1'", "-2.0", "zero or more", "correct"]),
        ("11,3,2\n12,0.5,2\n", ["line 3, column 'Q=0'", "0.5", "whole"]),
        ("11,3,NaN\n", ["line 2, column 'Q=1'", "missing", "fill it in"]),
        ("11,inf,3\n", ["line 2, column 'Q=0'", "inf"]),
        ("-inf,3,3\n", ["line 2, column 'load'", "-inf", "finite"]),
        ("11,3,two\n", ["line 2, column 'Q=1'", "'two' is not a number"]),
        ("\n\nlots,3,2\n", ["line 4, column 'load'", "'lots'", "delete"]),
        ("11,,2\n", ["line 2, column 'Q=0'", "missing", "fill it in"]),
        ("11,n/a,2\n", ["line 2, column 'Q=0'", "missing"]),
        (",,\n", ["line 2, column 'load'", "missing"]),
        ("11,3\n", ["w.csv, line 2", "2 fields", "header has 3", "complete or delete"]),
        ("11,3,2\n11,3,2,9\n", ["w.csv, line 3", "4 fields", "header has 3"]),
        ("0,3,2\n", ["line 2, column 'load'", "load is 0", "positive"]),
        ("-4,0,0\n", ["line 2, column 'load'", "load is -4"]),
        ("11,0,0\n12,1,1\n", ["w.csv, line 2: no counts", "drop_empty=True"]),
        ("11,0,0\n", ["w.csv", "no window is left"]),
        ("", ["w.csv", "header but no windows"]),
    ],
)
def test_bad_rows_are_named_by_line_and_column(read, rows, parts):
    with pytest.raises(InputError) as caught:
        read(HEADER + rows)
    assert_says(caught, parts)


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ('load,t,Q=0,Q=1\n1,"a\nb",1,1\n2,c,x,1\n', {}, ["line 4, column 'Q=0'", "'x'"]),
        ("\n\n", {}, ["w.csv", "empty"]),
        ("load;Q=0;Q=1\n1;1;1\n", {}, ["w.csv", "separated", "commas"]),
        ("load,Q=0,Q=1,Q=0\n1,1,1,1\n", {}, ["w.csv", "column 'Q=0' is there 2 times", "rename"]),
        ("load,Q=0,Q=9-3\n1,1,1\n", {}, ["w.csv", "'9-3'", "go up"]),
        ("load,rt_1s,rt_2s,rt_1s\n1,1,1,1\n", {}, ["w.csv", "column 'rt_1s' is there 2 times"]),
        ("load,rt_1s,rt_2s\n1,1,1\n2,1,-3\n", {}, ["line 3, column 'rt_2s'", "count is -3"]),
        ("load,rt_1s,rt_2s\n1,1,1\n", {"latency": "rt_"}, ["'rt_'", "needs one {}"]),
        (f"# stationary: sampling=never\n{GOOD}", {}, ["w.csv", "'never'", '"arrival"']),
        (f"# stationary: duration=0\n{GOOD}", {}, ["w.csv", "duration must be positive", "'0'"]),
        (
            "load,duration,Q=0,Q=1\n1,2,3,4\n1,0,3,4\n",
            {},
            ["w.csv, line 3, column 'duration'", "is 0", "positive"],
        ),
        ("load\n1\n", {}, ["w.csv", "no column matches", "there are no others"]),
        (GOOD, {"x": "laod"}, ["w.csv", "'laod'", "did you mean 'load'", "load, Q=0, Q=1, Q=2"]),
        (GOOD, {"counts": {"Q=9x": 0, "Q=1": 1}}, ["w.csv", "no column 'Q=9x'", "did you mean"]),
        (GOOD, {"counts": "n={}"}, ["w.csv", "no column matches", "'n={}'", "Q=0, Q=1 and Q=2"]),
        (GOOD, {"counts": "Q="}, ["'Q='", "needs one {}"]),
        (GOOD, {"counts": {}}, ["w.csv", "counts names no column"]),
        (GOOD, {"counts": {"Q=0": 0, "load": 1}}, ["'load'", "an input and a count"]),
        (GOOD, {"counts": {"Q=0": 0, "Q=1": (0, 1)}}, ["w.csv", "state 0", "counts once"]),
        (GOOD, {"counts": {"Q=0": 0.5, "Q=1": 1}}, ["w.csv", "0.5", "whole number"]),
        (GOOD, {"sampling": "rarely"}, ["'rarely'", "arrival"]),
        (GOOD, {"x": []}, ["at least one"]),
        (GOOD, {"loads": (20, None)}, ["w.csv", "[20, inf]", "from 11 to 12"]),
        (GOOD, {"loads": 3}, ["pair (low, high)", "3"]),
        (GOOD, {"observe": [0, 9]}, ["w.csv", "no category 9", "there are: 0, 1, 2"]),
        (GOOD, {"observe": [1]}, ["w.csv", "at least two", "got 1"]),
        (GOOD + "13,0,0,7\n", {"observe": [0, 1]}, ["w.csv, line 4: no counts", "drop_empty=True"]),
    ],
)
def test_bad_columns_and_options_are_named(read, text, options, parts):
    with pytest.raises(InputError) as caught:
        read(text, **options)
    assert_says(caught, parts)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("w.csv", b"", "is empty; it needs a header"),
        ("w.parquet", b"not at all", "not a readable Parquet"),
        ("w.csv.gz", b"not zipped", "cannot be read"),
        ("w.csv.gz", gzip.compress(GOOD.encode() * 99, mtime=0)[:-20], "damaged"),
        ("w.csv", GOOD.encode("utf-16"), "not UTF-8"),
        ("w.csv", b"load,Q=0,Q=1\n1,\xff,1\n", "not UTF-8"),
        ("w.csv", b'load,Q=0,Q=1\n1,"' + b"a" * 200_000 + b'",1\n', "cannot be read"),
        ("w.xlsx", GOOD, r"cannot tell how to read .xlsx; give a .csv"),
        ("w", GOOD, "without ending"),
    ],
)
def test_damaged_files_and_other_kinds_are_named(read, name, content, part):
    with pytest.raises(InputError) as caught:
        read(content, name)
    assert_says(caught, [name, part])


def test_bad_paths_are_named(tmp_path):
    for path, part in [(tmp_path / "none.csv", "no such file"), (tmp_path, "folder"), (3, "got 3")]:
        with pytest.raises(InputError, match=part):
            st.read_windows(path)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"Q=1": [2, -1]}, ["w.parquet, row 2, column 'Q=1'", "-1.0"]),
        ({"Q=1": [None, 1]}, ["row 1, column 'Q=1'", "missing"]),
        ({"Q=1": pd.array([2, None], dtype="Int64")}, ["row 2, column 'Q=1'", "missing"]),
        ({"Q=1": ["2", "many"]}, ["row 2, column 'Q=1'", "'many' is not a number"]),
        ({"Q=1": pd.to_datetime(["2020", "2021"])}, ["row 1, column 'Q=1'", "not a number"]),
        ({"load": [1, np.inf]}, ["row 2, column 'load'", "inf"]),
        ({"Q=0": [1, 0], "Q=1": [1, 0]}, ["w.parquet, row 2: no counts"]),
        ({"load": [], "Q=0": [], "Q=1": []}, ["w.parquet", "header but no windows"]),
    ],
)
def test_bad_parquet_is_named_by_row_and_column(tmp_path, change, parts):
    frame = pd.DataFrame({"load": [11.0, 12.0], "Q=0": [3, 4], "Q=1": [2, 1]} | change)
    frame.to_parquet(tmp_path / "w.parquet")
    with pytest.raises(InputError) as caught:
        st.read_windows(tmp_path / "w.parquet")
    assert_says(caught, parts)


# --- what the command line reads ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_counts, "Q={}", "Q={}"),
        (parse_counts, "idle=0,busy=1-3", {"idle": 0, "busy": (1, 2, 3)}),
        (parse_counts, "Q=21=overload, Q=22 = 3", {"Q=21": "overload", "Q=22": 3}),
        (parse_counts, "b=5+6+9,c=7-8+12", {"b": (5, 6, 9), "c": (7, 8, 12)}),
        (parse_observe, "0,1,2-5", [0, 1, 2, 3, 4, 5]),
        (parse_observe, "0, overload,7..8", [0, "overload", 7, 8]),
        (parse_observe, "0,1+2", [0, (1, 2)]),
        (parse_counts, "busy", "'busy' is not column=states"),
        (parse_counts, "busy=", "'busy='"),
        (parse_counts, "=3", "'=3'"),
        (parse_counts, "a=0,,b=1", "''"),
        (parse_counts, "a=0,a=1", "'a' is listed twice"),
        (parse_counts, "a=5-2", "'5-2' must go up"),
        (parse_counts, "a=0-99999999999", "at most"),
        (parse_observe, "0,", "empty item"),
        (parse_observe, "5-2", "'5-2'"),
    ],
)
def test_counts_and_observe_on_the_command_line(parse, text, expected):
    try:
        assert parse(text) == expected
    except InputError as error:
        assert expected in str(error)  # noqa: PT017 - the table says which texts are refused


# --- lengths of windows, and other kinds --------------------------------------------------------


class Colours(st.Counts):
    """Counts of red and green, in columns of their own, times a factor that the file names."""

    kind = "colours"

    def __init__(self, data, factor=1):
        super().__init__(data)
        self.__dict__["factor"] = factor

    columns = ("hue_red", "hue_green")

    @classmethod
    def find_columns(cls, names):
        return cls.columns if {*cls.columns} <= {*names} else ()

    @classmethod
    def from_columns(cls, columns, metadata):
        factor = int(metadata.get("factor", 1))
        return cls(np.column_stack([columns[name] for name in cls.columns]) * factor, factor)

    def metadata(self):
        return {"factor": "1"}

    def on(self, model):
        return self

    def probabilities(self, point):
        raise NotImplementedError


def test_a_kind_finds_its_columns_in_a_file(read, tmp_path):
    header = "# stationary: factor=2\nload,hue_red,Q=0,hue_green,Q=1\n"
    text = header + "11,1,5,2,6\n12,3,7,4,8\n11,1,1,1,1\n"
    found = read(text)
    assert [kind.kind for kind in found.observations] == ["states", "colours"]
    assert found.observations[1].data.tolist() == [[2, 4], [6, 8], [2, 2]]
    assert found.counts.tolist() == [[5, 6], [7, 8], [1, 1]]
    assert read(text, pooled=True) == found.pooled()
    found.to_csv(tmp_path / "again.csv")
    again = st.read_windows(tmp_path / "again.csv")
    assert again.observations[1].data.tolist() == found.observations[1].data.tolist()
    alone = read("load,hue_red,hue_green\n11,1,2\n12,0,1\n")
    assert [kind.kind for kind in alone.observations] == ["colours"]
    assert alone.loads.tolist() == [11, 12]
    with pytest.raises(InputError, match="no column matches"):
        read("load,hue_red\n11,1\n")


def test_windows_have_lengths_of_their_own(read, tmp_path):
    text = "# stationary: duration=2.5\nload,Q=0,Q=1,{}\n11,3,2,4\n12,4,1,6\n11,1,1,5\n"
    own = read(text.format("duration"))
    assert own.duration.tolist() == [4, 6, 5]
    assert read(text.format("windows")).duration.tolist() == [10, 15, 12.5]
    assert read(text.format("other")).duration.tolist() == [2.5, 2.5, 2.5]
    assert read(text.format("duration"), duration=3).duration.tolist() == [3, 3, 3]
    assert read(text.format("windows"), duration=3).duration.tolist() == [12, 18, 15]
    pooled = read(text.format("duration"), pooled=True)
    assert pooled == own.pooled()
    assert pooled.duration.tolist() == [4.5, 6]
    own.to_csv(tmp_path / "again.csv")
    assert st.read_windows(tmp_path / "again.csv") == own
    with pytest.raises(InputError, match="the value is 0; it must be positive"):
        read(text.format("duration").replace("1,6", "1,0"))


@pytest.mark.parametrize("last", ["Q=3plus", "Q=3+"])
def test_ten_or_more_is_the_range_up_to_the_capacity(tmp_path, last):
    truth = st.models.MMmK(servers=1, capacity=9, service_rate=20.0)
    windows = st.simulate(truth, [8.0, 12.0, 16.0] * 4, duration=20.0, seed=3)
    counts = windows.counts.numpy()
    lines = [f"load,Q=0,Q=1,Q=2,{last}"]
    rows = zip(windows.loads.tolist(), counts[:, :3], counts[:, 3:].sum(1), strict=True)
    lines += [f"{load},{a:.0f},{b:.0f},{c:.0f},{rest:.0f}" for load, (a, b, c), rest in rows]
    (tmp_path / "open.csv").write_text("\n".join([*lines, ""]))
    closed = "\n".join([lines[0].replace(last, "Q=3..9"), *lines[1:], ""])
    (tmp_path / "closed.csv").write_text(closed)
    model = st.models.MMmK(servers=1, capacity=9)
    fits = [st.fit(model, st.read_windows(tmp_path / f"{name}.csv")) for name in ("open", "closed")]
    assert fits[0].estimates == fits[1].estimates
    assert fits[0].nll == fits[1].nll
    small = st.models.MMmK(servers=1, capacity=2)
    with pytest.raises(InputError, match=r"'3\+' is not in the model"):
        st.fit(small, st.read_windows(tmp_path / "open.csv"))
