import json

import pandas as pd
import pytest

from stationary.paper import runner
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
    args = ("reproduce", "mape", "--quick", "--row", "multiple-text", "--repeats", "2")
    code, _, _ = call(*args, "-o", folder, "--jobs", "1")
    assert code == 0
    frame = pd.read_csv(folder / "results-mape.csv")
    assert set(frame["method"]) >= {"dc16", "dc128", "infinity", "ours", "cls", "mle", "zero"}
    assert set(frame["reading"]) == {"one", "fresh"}
    meta = json.loads((folder / "meta-mape.json").read_text())
    assert meta["seeds"] == [0, 1]
    assert {"commit", "torch", "python"} <= set(meta)
    page = (folder / "mape.md").read_text()
    assert "quick run" in page  # not to be taken for the paper's setting
    assert "in square brackets" not in page
    table = (folder / "tables" / "mape-one.md").read_text()
    assert table in page
    assert "[" not in table  # no printed numbers beside a quick run's


def test_a_study_is_drawn_and_its_runs_are_kept(call, tmp_path, monkeypatch):
    args = ("reproduce", "p", "--quick", "--row", "mmmmr", "--repeats", "1")
    args += ("-o", tmp_path, "--jobs", "1")
    assert call(*args)[0] == 0
    for name in ("p-mape.png", "p-nll.png"):
        assert (tmp_path / "figures" / name).stat().st_size > 5000
    curves = pd.read_csv(tmp_path / "curves-p.csv")
    assert curves.groupby(["method", "reading", "metric"])["epoch"].max().eq(5).all()
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("runs/**/*.json")}
    assert len(before) == 8
    monkeypatch.setattr(runner, "work", None)  # to run anything now would fail
    code, _, err = call(*args)
    assert code == 0
    assert "8 of 8 tasks are kept from before" in err
    monkeypatch.undo()
    gone = next(iter(before))
    gone.unlink()  # an interrupted run goes on with what is missing
    assert "7 of 8 tasks are kept from before" in call(*args)[2]
    assert gone.exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["pi"], "there is no part 'pi'; choose one of mape"),
        (["mape", "--row", "mg1"], "there is no row 'mg1'"),
        (["alpha", "--row", "gap-mm1k"], "alpha has none of these rows: gap-mm1k"),
        (["testbed"], "testbed, testbed-mm1k: give the testbed recording, the CSV published"),
        (["mape", "--row", "testbed"], "testbed: give the testbed recording, the CSV published"),
        (["mape", "--jobs", "0"], "--jobs must be a number of processes"),
        (["testbed", "--recording", "none.csv"], "none.csv: there is no such file"),
        (["examples", "-o", __file__], "is a file; name a folder"),
    ],
)
def test_bad_usage(call, monkeypatch, tmp_path, args, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATIONARY_RECORDING", raising=False)
    code, _, err = call("reproduce", *args)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


def test_all_of_a_row_that_not_every_part_has(call, tmp_path):
    args = ("reproduce", "all", "--quick", "--row", "gap-mm1k", "--repeats", "1", "--jobs", "1")
    assert call(*args, "-o", tmp_path / "r")[0] == 0
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
