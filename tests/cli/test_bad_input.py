"""What goes wrong on day one: exit code 2, one message that helps, nothing half-written."""

import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stationary as st
from stationary.output.store import FORMAT

HEADER = "load,Q=0,Q=1,Q=2\n"
ROWS = "".join(f"{11 + k % 5},{30 - k % 4},{12 + k % 3},5\n" for k in range(12))
MODEL = ("--model", "mmmk:servers=1,capacity=10")
FULL = "mmmk:servers=1,capacity=5,service_rate=25"


@pytest.fixture(scope="module")
def fit():
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=25.0)
    loads = np.repeat(np.arange(11.0, 16.0), 3)
    windows = st.simulate(truth, loads, duration=5.0, seed=1).observing([0, 1])
    return st.fit(st.models.MMmK(servers=1, capacity=10), windows)


@pytest.fixture
def here(tmp_path, monkeypatch, fit):
    """A folder with a good file, a good run and some things in the way."""
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text(HEADER + ROWS)
    fit.save("run")
    Path("notes").mkdir()
    Path("notes/todo.txt").write_text("buy milk")
    Path("empty").mkdir()
    return tmp_path


def snapshot(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def refused(call, here):
    """Run a command that must fail for the reason given and leave no trace."""

    def check(message, *args):
        before = snapshot(here)
        code, out, err = call(*args)
        assert code == 2, (out, err)
        assert out == ""
        assert re.search(message, err), err
        assert "Traceback" not in err
        lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
        assert len(lines) == 1
        assert lines[0].startswith("error: ")
        assert len(lines[0]) < 600
        assert snapshot(here) == before

    return check


# Files.

TEXTS = {
    "empty": ("", "bad.csv: the file is empty"),
    "blank": ("\n\n  \n", "bad.csv: the file is empty"),
    "header only": (HEADER, "bad.csv: a header but no windows"),
    "no header": (ROWS, "bad.csv: there is no column 'load'; there are: 11, 30"),
    "text": (HEADER + ROWS + "13,abc,3,4\n", "bad.csv, line 14, column 'Q=0': 'abc' is not a num"),
    "text in the load": (HEADER + ROWS + "fast,1,3,4\n", "line 14, column 'load': 'fast' is not"),
    "negative count": (HEADER + ROWS + "13,3,-2,4\n", "line 14, column 'Q=1': the count is -2"),
    "fractional count": (HEADER + ROWS + "13,2.5,3,4\n", "line 14, column 'Q=0': the count is 2.5"),
    "nan count": (HEADER + ROWS + "13,nan,3,4\n", "line 14, column 'Q=0': the value is missing"),
    "infinite count": (HEADER + ROWS + "13,inf,3,4\n", "line 14, column 'Q=0': the count is inf"),
    "huge count": (HEADER + ROWS + "13,1e30,3,4\n", "line 14, column 'Q=0': .*above 2..53"),
    "missing count": (HEADER + ROWS + "13,,3,4\n", "line 14, column 'Q=0': the value is missing"),
    "zero load": (HEADER + ROWS + "0,1,3,4\n", "line 14, column 'load': the load is 0 in a window"),
    "negative load": (HEADER + ROWS + "-3,1,3,4\n", "line 14, column 'load': the load is -3"),
    "nan load": (HEADER + ROWS + "nan,1,3,4\n", "line 14, column 'load': the value is missing"),
    "infinite load": (HEADER + ROWS + "inf,1,3,4\n", "line 14, column 'load': the value is inf"),
    "all empty": (HEADER + "11,0,0,0\n12,0,0,0\n", "bad.csv: no window is left"),
    "all idle": (HEADER + "0,0,0,0\n", "bad.csv: no window is left"),
    "one empty": (HEADER + ROWS + "12,0,0,0\n", "bad.csv, line 14: no counts in the observed"),
    "short line": (HEADER + ROWS + "12,3\n", "bad.csv, line 14: 2 fields where the header has 4"),
    "long line": (HEADER + ROWS + "12,3,4,5,6\n", "line 14: 5 fields where the header has 4"),
    "decimal comma": (HEADER + ROWS + '"11,5",3,4,5\n', "line 14, column 'load': '11,5' is not a"),
    "thousands": (HEADER + ROWS + '"1,100",3,4,5\n', "line 14, column 'load': '1,100' is not a"),
    "unit in a cell": (HEADER + ROWS + "12/s,3,4,5\n", "line 14, column 'load': '12/s' is not a"),
    "semicolons": (
        (HEADER + ROWS).replace(",", ";"),
        "not separated by.*load;Q=0;Q=1;Q=2.*with commas",
    ),
    "open quote": (HEADER + '"11,3,4,5\n', "bad.csv, line 2"),
    "column twice": ("load,Q=0,Q=0,Q=1\n11,2,3,4\n", "column 'Q=0' is there 2 times"),
    "one category": ("load,Q=0\n11,3\n", "bad.csv: at least two observed categories"),
    "state not in the model": ("load,Q=0,Q=99\n11,3,4\n", "state '99' is not in the model.*0..10"),
    "state with a name": ("load,Q=idle,Q=1\n11,3,4\n", "state 'idle' is not in the model"),
}


@pytest.mark.parametrize(("text", "message"), TEXTS.values(), ids=TEXTS)
def test_a_file_that_is_wrong(refused, here, text, message):
    (here / "bad.csv").write_text(text)
    refused(message, "fit", "bad.csv", *MODEL, "-o", "out")


RANDOM = np.random.default_rng(0).bytes(4000)
BINARY = {
    "garbage.csv": (RANDOM, "garbage.csv: this is not UTF-8 text"),
    "garbage.csv.gz": (RANDOM, "garbage.csv.gz: the file cannot be read"),
    "garbage.parquet": (RANDOM, "garbage.parquet: not a readable Parquet file"),
    "text.parquet": ((HEADER + ROWS).encode(), "text.parquet: not a readable Parquet file"),
    "empty.parquet": (b"", "empty.parquet: the file is empty"),
    "utf16.csv": ((HEADER + ROWS).encode("utf-16"), "utf16.csv: this is not UTF-8 text"),
    "latin.csv": ("l\xe4st,Q=0\n".encode("latin-1"), "latin.csv: this is not UTF-8 text"),
    "sheet.xlsx": (b"PK\x03\x04", "sheet.xlsx: cannot tell how to read .xlsx"),
    "noending": (b"load,Q=0\n", "noending: cannot tell how to read a file without ending"),
}


@pytest.mark.parametrize("name", BINARY)
def test_a_file_that_is_no_table(refused, here, name):
    raw, message = BINARY[name]
    (here / name).write_bytes(raw)
    refused(message, "fit", name, *MODEL, "-o", "out")


FRAMES = {
    "missing": ({"load": [11.0, None], "Q=0": [3, 4], "Q=1": [3, 4]}, "row 2, column 'load': the"),
    "text": ({"load": ["a", "b"], "Q=0": [3, 4], "Q=1": [3, 4]}, "row 1, column 'load': 'a' is"),
    "negative": ({"load": [11.0], "Q=0": [-3], "Q=1": [3]}, "row 1, column 'Q=0': the count is -3"),
    "dates": (
        {"load": pd.to_datetime(["2020-01-01"]), "Q=0": [3], "Q=1": [3]},
        "row 1, column 'load': '2020-01-01.*' is not a number",
    ),
    "no rows": ({"load": [], "Q=0": [], "Q=1": []}, "bad.parquet: a header but no windows"),
    "other columns": ({"rate": [1.0]}, "bad.parquet: there is no column 'load'"),
}


@pytest.mark.parametrize(("columns", "message"), FRAMES.values(), ids=FRAMES)
def test_a_parquet_file_that_is_wrong(refused, here, columns, message):
    pd.DataFrame(columns).to_parquet(here / "bad.parquet")
    refused(message, "fit", "bad.parquet", *MODEL, "-o", "out")


# Options of fit.

FIT = {
    "no such file": (("nowhere.csv", *MODEL), "nowhere.csv: there is no such file"),
    "a folder": (("notes", *MODEL), "notes is a folder; give a .csv"),
    "nothing": ((), "Missing argument"),
    "no model": (("good.csv",), "Missing option '--model'"),
    "two files": (("good.csv", "other.csv", *MODEL), "unexpected extra argument"),
    "unknown option": (("good.csv", *MODEL, "--lods", "1:2"), "No such option: --lods"),
    "column in capitals": (("good.csv", *MODEL, "--x", "Load"), "did you mean 'load'"),
    "comma at the end": (
        ("good.csv", *MODEL, "--x", "load,"),
        "inputs must be printable names.*got ''",
    ),
    "two inputs": (("good.csv", *MODEL, "--x", "load,Q=0"), "takes 1 input column"),
    "one state": (("good.csv", *MODEL, "--observe", "0"), "at least two observed categories"),
    "state not counted": (("good.csv", *MODEL, "--observe", "0,7"), "no category 7 among the coun"),
    "states by space": (("good.csv", *MODEL, "--observe", "0 1"), "no category '0 1'"),
    "no states": (("good.csv", *MODEL, "--observe", ""), "observe: '' has an empty item"),
    "state twice": (("good.csv", *MODEL, "--observe", "0,0"), "category 0 is asked for twice"),
    "state outside the model": (
        ("good.csv", "--model", "mmmk:capacity=1"),
        r"category '2': state '2' is not in the model: its 2 states are 0\.\.1",
    ),
    "loads outside": (("good.csv", *MODEL, "--loads", "20:30"), r"in \[20, 30\]; .*from 11 to 15"),
    "level of nothing": (("good.csv", *MODEL, "--level", "0"), "level must lie between 0 and 1"),
    "level as text": (("good.csv", *MODEL, "--level", "high"), "Invalid value for '--level'"),
    "no starts": (
        ("good.csv", *MODEL, "--starts", "0"),
        "starts must be a whole number of at least 1; got 0",
    ),
    "half a start": (("good.csv", *MODEL, "--starts", "1.5"), "Invalid value for '--starts'"),
    "negative seed": (("good.csv", *MODEL, "--seed", "-1"), "seed must be a whole number"),
    "present of zero": (
        ("good.csv", *MODEL, "--slo", "loss<0.1", "--present", "0"),
        "the present load must be positive and finite; got 0.0",
    ),
    "no duration": (("good.csv", *MODEL, "--duration", "0"), "duration must be positive"),
    "unknown sampling": (
        ("good.csv", *MODEL, "--sampling", "clock"),
        "Invalid value for '--sampling'",
    ),
}


@pytest.mark.parametrize(("args", "message"), FIT.values(), ids=FIT)
def test_fit_options_that_are_wrong(refused, args, message):
    refused(message, "fit", *args, "-o", "out")


OUTPUT = {
    "a file": ("good.csv", "good.csv is a file; name a folder"),
    "inside a file": ("good.csv/run", "good.csv is a file; name a folder"),
    "a folder of other files": ("notes", r"notes holds other files \(todo.txt\)"),
    "a run": ("run", r"run holds a run already; .*--overwrite"),
    "this folder": (".", "the folder you are in"),
    "nothing": ("", "the folder you are in"),
}


@pytest.mark.parametrize(("output", "message"), OUTPUT.values(), ids=OUTPUT)
def test_output_that_is_in_the_way_is_said_before_the_work(refused, monkeypatch, output, message):
    monkeypatch.setattr("stationary.fit", None)  # no work is done
    refused(message, "fit", "good.csv", *MODEL, "-o", output)


def test_output_without_permission(refused, monkeypatch):
    def read_only(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", read_only)
    refused("out cannot be written: Read-only", "fit", "good.csv", *MODEL, "-o", "out")


def test_a_disk_that_is_full(refused, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    refused("out: the run cannot be written: No space left", "fit", "good.csv", *MODEL, "-o", "out")


def test_overwrite_does_not_take_other_files(refused):
    refused("notes holds other files", "fit", "good.csv", *MODEL, "-o", "notes", "--overwrite")


# forecast.

FORECAST = {
    "no run": (("nowhere", "--x", "10"), "nowhere: there is no such folder"),
    "a file": (("good.csv", "--x", "10"), "good.csv is a file; give the folder"),
    "another folder": (("notes", "--x", "10"), "notes is not a run"),
    "an empty folder": (("empty", "--x", "10"), "empty is not a run"),
    "nothing to forecast": (("run",), "say what to forecast: loads, .*--x.* or a limit, .*--slo"),
    "change of nothing": (("run", "--x", "10", "--what-if", ""), "say what changes"),
    "change to nonsense": (("run", "--x", "10", "--what-if", "servers=0"), "servers must be a who"),
    "change below nothing": (("run", "--x", "10", "--what-if", "servers=-1"), "whole .*got 0"),
    "change to no speed": (("run", "--x", "10", "--what-if", "faster=0"), "faster must be positiv"),
    "present of zero": (("run", "--slo", "loss<0.1", "--present", "0"), "must be positive and fin"),
    "test without slo": (("run", "--x", "10", "--next-experiment"), "say what to forecast"),
    "test of a what-if": (
        ("run", "--slo", "loss<0.1", "--next-experiment", "--what-if", "servers=2"),
        "made on the system as it is: leave out --what-if",
    ),
    "test of no limit": (
        ("run", "--slo", "response_time<10", "--next-experiment"),
        "at any load: there is no limit",
    ),
    "plot without loads": (("run", "--slo", "loss<0.1", "--plot", "p.png"), "give loads, as in"),
    "loads by space": (("run", "--x", "10", "60"), "unexpected extra argument"),
    "load of zero": (("run", "--x", "0:10"), "a load must be positive and finite; got 0"),
    "negative load": (("run", "--x=-5"), "a load must be positive and finite; got -5"),
    "loads twice": (("run", "--x", "10", "--x", "20"), "give each input once"),
    "unknown measure": (
        ("run", "--x", "10", "--plot", "p.png", "--measures", "delay"),
        "no measure 'delay'; there are: loss, response_time",
    ),
    "plot over a folder": (("run", "--x", "10", "--plot", "notes"), "notes: give the file the end"),
}


@pytest.mark.parametrize(("args", "message"), FORECAST.values(), ids=FORECAST)
def test_forecast_options_that_are_wrong(refused, args, message):
    refused(message, "forecast", *args)


@pytest.mark.parametrize("name", ["plan.json", "arrays.safetensors", "windows.parquet"])
@pytest.mark.parametrize("keep", [None, 0, 100], ids=["gone", "empty", "cut"])
def test_a_damaged_run(refused, here, name, keep):
    path = here / "run" / name
    raw = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(raw[:keep])
    refused(f"the run in run is damaged: .*{name}", "forecast", "run", "--x", "10")
    refused(f"the run in run is damaged: .*{name}", "simulate", "run", "--x", "10", "-o", "w.csv")


def test_a_run_of_a_newer_version(refused, here):
    path = here / "run" / "plan.json"
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', f'"format": {FORMAT + 1}'))
    refused("run was written by a newer stationary", "forecast", "run", "--x", "10")


# simulate, demo and the rest.

SIMULATE = {
    "no parameters": (("mmmk", "--x", "11"), "give every parameter a value, as in mmmk:service_"),
    "a parameter missing": (
        ("multidiagonal:rate_1=3", "--x", "11"),
        "as in multidiagonal:rate_1=3,rate_2=25",
    ),
    "a parameter of zero": (("mmmk:service_rate=0", "--x", "11"), "service_rate must be positive"),
    "a run that is not there": (("nowhere", "--x", "11"), "no model 'nowhere'"),
    "a folder that is no run": (("notes", "--x", "11"), "notes is not a run"),
    "no loads": ((FULL,), "Missing option '--x'"),
    "load of zero": ((FULL, "--x", "0"), "a load must be positive"),
    "no windows": ((FULL, "--x", "11", "--windows", "0"), "--windows must be at least 1; got 0"),
    "too many windows": ((FULL, "--x", "11", "--windows", "1000000000"), "more than 1000000 wind"),
    "no duration": ((FULL, "--x", "11", "--duration", "0"), "duration must be positive"),
    "too long": ((FULL, "--x", "11", "--duration", "1e20"), "would simulate about .* events"),
    "unknown scheme": ((FULL, "--x", "11", "--scheme", "clock"), "Invalid value for '--scheme'"),
    "nothing seen": (
        (FULL, "--x", "11", "--scheme", "arrivals", "--duration", "1e-9"),
        "nothing was seen",
    ),
}


@pytest.mark.parametrize(("args", "message"), SIMULATE.values(), ids=SIMULATE)
def test_simulate_options_that_are_wrong(refused, args, message):
    refused(message, "simulate", *args, "-o", "new.csv")


TARGETS = {
    "no output": ((), "Missing option '--output'"),
    "a file": (("-o", "good.csv"), "good.csv exists; .*--overwrite"),
    "a folder": (("-o", "notes"), "notes: .*ending .csv|notes exists"),
    "another ending": (("-o", "new.parquet"), "new.parquet: give the file the ending .csv"),
    "nowhere": (("-o", "no/new.csv"), "no/new.csv: there is no folder no; make it first"),
}


@pytest.mark.parametrize(("args", "message"), TARGETS.values(), ids=TARGETS)
def test_simulate_to_where_it_cannot(refused, args, message):
    refused(message, "simulate", FULL, "--x", "11", *args)


@pytest.mark.parametrize("word", ["frobnicate", "--frobnicate", "Fit"])
def test_no_such_command(refused, word):
    refused(f"No such (command|option).*{word}", word)
    refused("good.csv is a file; name a folder", "demo", "-o", "good.csv")
