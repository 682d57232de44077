"""Readers: the layouts they take, and every way a file can be wrong."""

import gzip
import warnings

import numpy as np
import pandas as pd
import pytest

from stationary.data import Sampling, read_windows
from stationary.data.readers import parse_counts, parse_observe
from stationary.errors import DataWarning, InputError

GOOD = "load,Q=0,Q=1,Q=2\n11,3,2,1\n12,4,1,0\n"


@pytest.fixture
def write(tmp_path):
    def make(text, name="w.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def test_reads_csv_tsv_and_gzip_alike(write, tmp_path):
    plain = read_windows(write(GOOD))
    assert plain.loads.tolist() == [11, 12]
    assert plain.counts.tolist() == [[3, 2, 1], [4, 1, 0]]
    assert plain.observe == (0, 1, 2)
    assert plain.inputs == ("load",)
    assert read_windows(write(GOOD.replace(",", "\t"), "w.tsv")) == plain
    zipped = tmp_path / "W.CSV.gz"
    zipped.write_bytes(gzip.compress(GOOD.encode()))
    assert read_windows(zipped) == plain
    assert read_windows(str(zipped), sampling="arrival").sampling is Sampling.ARRIVAL


def test_reads_what_spreadsheets_write(write):
    text = "\ufeff" + GOOD.replace(",", ", ").replace("\n", ",\r\n") + "\r\n\r\n"
    assert read_windows(write(text)) == read_windows(write(GOOD, "good.csv"))


def test_reads_parquet_also_when_the_load_was_an_index(write, tmp_path):
    plain = read_windows(write(GOOD))
    frame = pd.read_csv(write(GOOD))
    frame.to_parquet(tmp_path / "w.parquet")
    assert read_windows(tmp_path / "w.parquet") == plain
    frame.set_index("load").to_parquet(tmp_path / "i.parquet")
    assert read_windows(tmp_path / "i.parquet") == plain
    frame.astype(str).to_parquet(tmp_path / "s.parquet")
    assert read_windows(tmp_path / "s.parquet") == plain
    lumped = frame.rename(columns={"Q=2": "Q=2..20"})
    lumped.to_parquet(tmp_path / "l.parquet")
    assert read_windows(tmp_path / "l.parquet").labels == ("0", "1", "2..20")


def test_pattern_sorts_states_naturally(write):
    text = "Q=10,Q=overload,load,Q=2,Q=4-6,Q=q10,Q=q9\n1,2,3,4,5,6,7\n"
    read = read_windows(write(text))
    assert read.labels == ("2", "4..6", "10", "overload", "q9", "q10")
    assert read.counts.tolist() == [[4, 5, 1, 2, 7, 6]]


def test_mapping_adds_up_columns_of_the_same_states(write):
    text = "load,Q=0,Q=1,Q=21,Q=22\n11,3,2,1,4\n12,4,1,0,6\n"
    counts = {"Q=0": 0, "Q=21": "overload", "Q=1": (1, 2), "Q=22": ["overload"]}
    read = read_windows(write(text), counts=counts)
    assert read.labels == ("0", "overload", "1+2")
    assert read.counts.tolist() == [[3, 5, 2], [4, 6, 1]]


def test_several_inputs_and_other_columns_are_left_alone(write):
    text = "note,heat,rate,Q=0,Q=1\nhot,-3.5,11,3,2\n,,,,\n"
    with pytest.raises(InputError, match=r"line 3, column 'rate': the value is missing"):
        read_windows(write(text), x=["rate", "heat"])
    read = read_windows(write(text.replace(",,,,\n", "")), x=["rate", "heat"])
    assert read.x.tolist() == [[11, -3.5]]
    assert read.inputs == ("rate", "heat")


def test_observe_and_loads_choose(write):
    read = read_windows(write(GOOD), observe=["1", 0], loads=(11.5, None))
    assert read.observe == (1, 0)
    assert read.counts.tolist() == [[1, 4]]
    with pytest.raises(InputError, match=r"w\.csv: no window has a load in \[20, inf\]; .* 11 to"):
        read_windows(write(GOOD), loads=(20, None))
    with pytest.raises(InputError, match=r"no category 9 .* there are: 0, 1, 2$"):
        read_windows(write(GOOD), observe=[0, 9])
    with pytest.raises(InputError, match=r"w\.csv: at least two .* got 1"):
        read_windows(write(GOOD), observe=[1])
    with pytest.raises(InputError, match="pair"):
        read_windows(write(GOOD), loads=3)


def test_idle_rows_are_dropped_and_named(write):
    text = GOOD + "\n0,0,0,0\n13,1,1,1\n0,0,0,0\n"
    with pytest.warns(DataWarning, match=r"w\.csv: dropped lines 5, 7: idle: load is 0"):
        read = read_windows(write(text))
    assert read.loads.tolist() == [11, 12, 13]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # out of the asked range: nothing to report
        assert len(read_windows(write(text), loads=(1, None))) == 3
    with pytest.warns(DataWarning), pytest.raises(InputError, match=r"w\.csv: no window .* idle"):
        read_windows(write("load,Q=0,Q=1\n0,0,0\n"))


def test_empty_windows_are_an_error_or_dropped(write):
    text = GOOD + "13,0,0,7\n"
    assert len(read_windows(write(text))) == 3
    with pytest.raises(
        InputError, match=r"w\.csv, line 4: no counts .* 0, 1; leave such windows out with"
    ):
        read_windows(write(text), observe=[0, 1])
    with pytest.warns(DataWarning, match=r"w\.csv: dropped line 4: no counts .* categories 0, 1"):
        assert len(read_windows(write(text), observe=[0, 1], drop_empty=True)) == 2
    with pytest.raises(InputError, match=r"w\.csv: no window is left"):
        read_windows(write("load,Q=0,Q=1\n5,0,0\n"), drop_empty=True)


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("load,Q=0,Q=1\n11,3,-2\n", {}, ["w.csv, line 2, column 'Q=1'", "-2.0", "zero or more"]),
        ("load,Q=0,Q=1\n11,3,2\n12,0.5,2\n", {}, ["line 3, column 'Q=0'", "0.5", "whole"]),
        ("load,Q=0,Q=1\n11,3,NaN\n", {}, ["line 2, column 'Q=1'", "nan"]),
        ("load,Q=0,Q=1\n11,inf,3\n", {}, ["line 2, column 'Q=0'", "inf"]),
        ("load,Q=0,Q=1\nnan,3,3\n", {}, ["line 2, column 'load'", "nan", "finite"]),
        ("load,Q=0,Q=1\n11,3,two\n", {}, ["line 2, column 'Q=1'", "'two' is not a number"]),
        ("load,Q=0,Q=1\n\n\nlots,3,2\n", {}, ["line 4, column 'load'", "'lots'", "delete"]),
        ("load,Q=0,Q=1\n11,,2\n", {}, ["line 2, column 'Q=0'", "missing", "fill it in"]),
        ("load,Q=0,Q=1\n11,n/a,2\n", {}, ["line 2, column 'Q=0'", "missing"]),
        ('load,t,Q=0,Q=1\n1,"a\nb",1,1\n2,c,x,1\n', {}, ["line 4, column 'Q=0'", "'x'"]),
        ("load,Q=0,Q=1\n11,3\n", {}, ["w.csv, line 2", "2 fields", "header has 3"]),
        ("load,Q=0,Q=1\n11,3,2,9\n", {}, ["w.csv, line 2", "4 fields", "header has 3"]),
        ("load,Q=0,Q=1\n0,3,2\n", {}, ["line 2, column 'load'", "load is 0", "positive"]),
        ("load,Q=0,Q=1\n-4,3,2\n", {}, ["line 2, column 'load'", "load is -4"]),
        ("load,Q=0,Q=1\n-4,0,0\n", {}, ["line 2, column 'load'", "load is -4"]),
        ("load,Q=0,Q=1\n11,0,0\n12,1,1\n", {}, ["w.csv, line 2: no counts", "drop_empty=True"]),
        ("", {}, ["w.csv", "empty", "header"]),
        ("\n\n", {}, ["w.csv", "empty"]),
        ("load,Q=0,Q=1\n", {}, ["w.csv", "header but no windows"]),
        (GOOD, {"x": "laod"}, ["w.csv", "'laod'", "did you mean 'load'", "load, Q=0, Q=1, Q=2"]),
        (GOOD, {"counts": {"Q=9x": 0, "Q=1": 1}}, ["w.csv", "no column 'Q=9x'", "did you mean"]),
        (GOOD, {"counts": "n={}"}, ["w.csv", "no column matches", "'n={}'", "Q=0, Q=1, Q=2"]),
        (GOOD, {"counts": "Q="}, ["'Q='", "needs one {}"]),
        (GOOD, {"counts": "{}={}"}, ["'{}={}'", "needs one {}"]),
        (GOOD, {"counts": {}}, ["w.csv", "empty mapping"]),
        (GOOD, {"counts": {"Q=0": 0, "load": 1}}, ["'load'", "an input and a count"]),
        (GOOD, {"counts": {"Q=0": 0, "Q=1": (0, 1)}}, ["w.csv", "state 0", "counts once"]),
        (GOOD, {"counts": {"Q=0": 0.5, "Q=1": 1}}, ["w.csv", "0.5", "whole number"]),
        ("load,Q=0,Q=1,Q=0\n1,1,1,1\n", {}, ["w.csv", "column 'Q=0' is there 2 times", "rename"]),
        ("load,Q=0,Q=9-3\n1,1,1\n", {}, ["w.csv", "'9-3'", "go up"]),
        (GOOD, {"sampling": "rarely"}, ["'rarely'", "arrival"]),
        (GOOD, {"x": []}, ["at least one"]),
    ],
)
def test_bad_files_are_named_by_line_and_column(write, text, options, parts):
    with pytest.raises(InputError) as caught:
        read_windows(write(text), **options)
    for part in parts:
        assert part in str(caught.value)


def test_bad_paths(tmp_path, write):
    for path, part in [
        (tmp_path / "none.csv", r"none\.csv: there is no such file"),
        (tmp_path, "is a folder"),
        (write(GOOD, "w.xlsx"), r"w\.xlsx: cannot tell how to read \.xlsx; give a \.csv"),
        (write(GOOD, "w"), "without ending"),
    ]:
        with pytest.raises(InputError, match=part):
            read_windows(path)


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("w.parquet", b"not at all", "not a readable Parquet"),
        ("w.parquet", b"", "is empty"),
        ("w.csv.gz", b"not zipped", "cannot be read"),
        ("w.csv.gz", gzip.compress(GOOD.encode() * 99, mtime=0)[:-20], "damaged"),
        ("w.csv", GOOD.encode("utf-16"), "not UTF-8"),
        ("w.csv", b"load,Q=0,Q=1\n1,\xff,1\n", "not UTF-8"),
        ("w.csv", b'load,Q=0,Q=1\n1,"' + b"a" * 200_000 + b'",1\n', "cannot be read"),
    ],
)
def test_damaged_files(tmp_path, name, content, part):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=part) as caught:
        read_windows(tmp_path / name)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"Q=1": [2, -1]}, ["w.parquet, row 2, column 'Q=1'", "-1.0"]),
        ({"Q=1": [2, 1.5]}, ["row 2, column 'Q=1'", "1.5"]),
        ({"Q=1": [None, 1]}, ["row 1, column 'Q=1'", "missing"]),
        ({"Q=1": pd.array([2, None], dtype="Int64")}, ["row 2, column 'Q=1'", "missing"]),
        ({"Q=1": ["2", "many"]}, ["row 2, column 'Q=1'", "'many' is not a number"]),
        ({"Q=1": pd.to_datetime(["2020", "2021"])}, ["row 1, column 'Q=1'", "not a number"]),
        ({"load": [1, np.inf]}, ["row 2, column 'load'", "inf"]),
        ({"load": [1, -1]}, ["row 2, column 'load'", "load is -1"]),
        ({"Q=0": [1, 0], "Q=1": [1, 0]}, ["w.parquet, row 2: no counts"]),
    ],
)
def test_bad_parquet_is_named_by_row_and_column(tmp_path, change, parts):
    frame = pd.DataFrame({"load": [11.0, 12.0], "Q=0": [3, 4], "Q=1": [2, 1], **change})
    frame.to_parquet(tmp_path / "w.parquet")
    with pytest.raises(InputError) as caught:
        read_windows(tmp_path / "w.parquet")
    for part in parts:
        assert part in str(caught.value)


def test_parquet_without_rows(tmp_path):
    frame = pd.DataFrame({"load": [], "Q=0": [], "Q=1": []})
    frame.to_parquet(tmp_path / "w.parquet")
    with pytest.raises(InputError, match="header but no windows"):
        read_windows(tmp_path / "w.parquet")


def test_the_papers_recording(recording_file):
    with pytest.warns(DataWarning, match="dropped line 2: idle: callrate is 0"):
        full = read_windows(recording_file, x="callrate", counts="Q={}")
    assert len(full) == 223
    assert full.observe == tuple(range(26))
    light = read_windows(recording_file, x="callrate", observe=[1, 2], loads=(1, 1000))
    heavy = full.select(full.loads > 1000)
    assert (len(light), len(heavy)) == (86, 137)
    overload = {f"Q={k}": k if k <= 20 else "overload" for k in range(26)}
    with pytest.warns(DataWarning, match="line 2"):
        lumped = read_windows(recording_file, x="callrate", counts=overload)
    assert lumped.labels[-1] == "overload"
    assert lumped.counts[:, -1].equal(full.counts[:, 21:].sum(-1))


def test_counts_on_the_command_line():
    assert parse_counts("Q={}") == "Q={}"
    assert parse_counts("idle=0,busy=1-3") == {"idle": 0, "busy": (1, 2, 3)}
    assert parse_counts("Q=21=overload, Q=22 = overload") == {
        "Q=21": "overload",
        "Q=22": "overload",
    }
    assert parse_counts("a=1..3,b=5+6+9,c=7-8+12") == {
        "a": (1, 2, 3),
        "b": (5, 6, 9),
        "c": (7, 8, 12),
    }
    for text, part in [
        ("busy", "'busy' is not column=states"),
        ("busy=", "'busy='"),
        ("=3", "'=3'"),
        ("a=0,,b=1", "''"),
        ("a=0,a=1", "'a' is listed twice"),
        ("a=5-2", "'5-2' must go up"),
        ("a=0-99999999999", "at most"),
    ]:
        with pytest.raises(InputError, match=part):
            parse_counts(text)


def test_observe_on_the_command_line():
    assert parse_observe("0,1,2-5") == [0, 1, 2, 3, 4, 5]
    assert parse_observe("0, overload,7..8") == [0, "overload", 7, 8]
    assert parse_observe("0,1+2") == [0, (1, 2)]
    with pytest.raises(InputError, match="empty item"):
        parse_observe("0,")
    with pytest.raises(InputError, match="'5-2'"):
        parse_observe("5-2")


@pytest.mark.parametrize(
    "line",
    [
        "# stationary: sampling=arrival duration=2.5",
        "# stationary: sampling=arrival duration=2.5,,",
    ],
)
def test_a_first_line_says_how_windows_were_made(tmp_path, line):
    """Also after a spreadsheet filled it up with commas; lines count as an editor shows them."""
    path = tmp_path / "told.csv"
    path.write_text(f"{line}\nload,Q=0,Q=1\n11,30,20\n12,28,21\n")
    windows = read_windows(path)
    assert str(windows.sampling) == "arrival"
    assert windows.duration.tolist() == [2.5, 2.5]
    assert str(read_windows(path, sampling="time").sampling) == "time"
    path.write_text(f"{line}\nload,Q=0,Q=1\n11,30,20\n12,28,-1\n")
    with pytest.raises(InputError, match="line 4, column 'Q=1'"):
        read_windows(path)


@pytest.mark.parametrize(
    ("fact", "message"),
    [("sampling=never", 'must be "time" or "arrival"'), ("duration=0", "must be positive")],
)
def test_a_first_line_that_cannot_be(tmp_path, fact, message):
    path = tmp_path / "told.csv"
    path.write_text(f"# stationary: {fact}\nload,Q=0,Q=1\n11,30,20\n")
    with pytest.raises(InputError, match=f"told.csv: .*{message}"):
        read_windows(path)
