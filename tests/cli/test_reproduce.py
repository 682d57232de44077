import json

import pandas as pd
import pytest

from stationary.paper.plan import Part


def test_examples_need_no_runs(call, tmp_path):
    code, out, _ = call("reproduce", "examples", "-o", tmp_path / "r")
    assert code == 0
    assert "examples.md" in out
    assert "Example A2" in out
    page = (tmp_path / "r" / "examples.md").read_text()
    assert "| slow  | 25       | 24      | 371" in page
    assert "0.4, 0.3, 0.1, 0.2" in page


def test_a_row_from_runs_to_page(call, tmp_path):
    folder = tmp_path / "r"
    args = ("reproduce", "mape", "--quick", "--row", "mm1k-fast", "--repeats", "2", "-o", folder)
    code, _, _ = call(*args, "--jobs", "1")
    assert code == 0
    frame = pd.read_csv(folder / "results-mape.csv")
    assert set(frame["method"]) >= {"dc16", "dc128", "infinity", "ours", "cls", "mle", "zero"}
    assert set(frame["reading"]) == {"one", "fresh"}
    meta = json.loads((folder / "meta-mape.json").read_text())
    assert meta["seeds"] == [0, 1]
    assert {"commit", "torch", "python"} <= set(meta)
    page = (folder / "mape.md").read_text()
    assert "quick run" in page  # not to be taken for the paper's setting
    table = (folder / "tables" / "mape-one.md").read_text()
    assert table in page
    assert "[" not in table  # no printed numbers beside a quick run's


def test_curves_are_drawn(call, tmp_path):
    folder = tmp_path / "r"
    code, _, _ = call(
        "reproduce", "p", "--quick", "--row", "mmmmr", "--repeats", "1", "-o", folder, "--jobs", "1"
    )
    assert code == 0
    for name in ("p-mape.png", "p-mape.svg", "p-nll.png"):
        assert (folder / "figures" / name).stat().st_size > 5000
    curves = pd.read_csv(folder / "curves-p.csv")
    assert curves.groupby(["method", "reading", "metric"])["epoch"].max().eq(5).all()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["pi"], "there is no part 'pi'; choose one of mape"),
        (["mape", "--row", "mg1"], "there is no row 'mg1'; `--rows` lists them"),
        (["alpha", "--row", "gap-mm1k"], "alpha has none of these rows: gap-mm1k"),
        (["testbed"], "testbed, testbed-mm1k: give the testbed recording, the CSV published"),
        (["mape", "--row", "testbed"], "testbed: give the testbed recording, the CSV published"),
        (["mape", "--jobs", "0"], "--jobs must be a number of processes"),
        (["testbed", "--recording", "none.csv"], "none.csv: there is no such file"),
    ],
)
def test_bad_usage(call, monkeypatch, tmp_path, args, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATIONARY_RECORDING", raising=False)
    code, _, err = call("reproduce", *args)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("row", ["gap-mm1k", "multiple-text"])
def test_all_of_a_row_that_not_every_part_has(call, tmp_path, row):
    code, _, _ = call(
        *("reproduce", "all", "--quick", "--row", row, "--repeats", "1"),
        *("-o", tmp_path / "r", "--jobs", "1"),
    )
    assert code == 0
    page = (tmp_path / "r" / "README.md").read_text()
    assert "## At a glance" in page
    assert "## Every printed number" not in page  # a quick run is no match for the print
    assert "Example A2" in page


def test_a_recording_that_nothing_needs_is_not_read(call, monkeypatch, tmp_path):
    monkeypatch.setenv("STATIONARY_RECORDING", "none.csv")
    code, _, _ = call("reproduce", "examples", "-o", tmp_path / "r")
    assert code == 0


def test_help_names_the_parts_of_the_plan(call):
    assert ", ".join(Part) in " ".join(call("reproduce", "--help")[1].split())


def test_an_output_that_is_a_file(call, tmp_path):
    (tmp_path / "r").write_text("mine")
    code, _, err = call("reproduce", "examples", "-o", tmp_path / "r")
    assert code == 2
    assert "is a file" in err
    assert (tmp_path / "r").read_text() == "mine"


def test_rows_are_listed(call):
    code, out, _ = call("reproduce", "--rows")
    assert code == 0
    assert "gap-mmmmr-text" in out
