"""The committed results: complete, made by the paper's setting, and what their tables show."""

import json
from pathlib import Path

import pandas as pd
import pytest

from stationary.paper import cells, examples, tables
from stationary.paper.columns import METHODS, RELAXED, TABLE, THROUGH_TIME
from stationary.paper.plan import Part, rows_of, tasks
from stationary.paper.runner import Reading, Task, work
from stationary.paper.settings import rows

RESULTS = Path(__file__).parents[2] / "docs" / "results"
RECORDED = {row.name: "given" for row in rows_of(Part.TESTBED)}


@pytest.fixture(scope="module")
def frame():
    return pd.read_csv(RESULTS / "results.csv", dtype={"theta": str}).fillna({"theta": ""})


def test_every_run_of_the_full_setting_is_there(frame):
    wanted = {
        (task.row.name, task.column.name, str(task.reading), seed)
        for task in tasks(Part.ALL, recorded=RECORDED)
        if task.reading is not Reading.LUCK
        for seed in task.seeds
    }
    keys = frame[["row", "method", "reading", "seed"]].itertuples(index=False, name=None)
    assert set(keys) == wanted


def test_they_say_how_they_were_made():
    meta = json.loads((RESULTS / "meta.json").read_text())
    assert meta["quick"] is False
    assert meta["seeds"] == list(range(20))
    (commit,) = meta["commits of the runs"]
    assert len(commit) == 40  # all of one, without changes on top


@pytest.mark.parametrize(
    ("metric", "part"), [("mape", Part.MAPE), ("mse", Part.MSE), ("mape", Part.GAP)]
)
@pytest.mark.parametrize("reading", list(tables.TITLES))
def test_tables_show_the_numbers(frame, metric, part, reading):
    rows = [row for row in rows_of(part) if row.simulated or reading is Reading.ONE]
    table = cells.markdown([*tables.metric_table(frame, rows, metric, reading, TABLE)])
    name = f"gap-{metric}" if part is Part.GAP else metric
    assert (RESULTS / "tables" / f"{name}-{reading}.md").read_text() == table
    assert table in (RESULTS / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "lines"),
    {
        "agreement": lambda frame, shown: tables.agreement_table(frame, shown),
        "readings": lambda frame, shown: tables.readings_table(frame, shown),
        "through-time": lambda frame, shown: tables.through_time_table(
            frame, pd.read_csv(RESULTS / "curves.csv"), shown
        ),
        "alpha": lambda frame, _: tables.loss_table(frame, rows_of(Part.ALPHA), "alpha"),
        "p": lambda frame, _: tables.loss_table(frame, rows_of(Part.P), "p"),
        "methods": lambda *_: text_table("methods", list(METHODS.values())),
        "relaxed": lambda *_: text_table("relaxed", RELAXED, printed=THROUGH_TIME),
        "theorem": lambda *_: examples.printed_theorem(),
        "mixing": lambda *_: examples.mixing(),
        "unidentifiable": lambda *_: examples.unidentifiable(),
    }.items(),
)
def test_other_tables_come_out_again(frame, name, lines):
    shown = [row for row in rows().values() if row.name in set(frame["row"])]
    found = cells.markdown([*lines(frame, shown)])
    assert (RESULTS / "tables" / f"{name}.md").read_text() == found


def text_table(study, columns, **options):
    frame = pd.read_csv(RESULTS / "results-text.csv", dtype={"theta": str})
    shown = [row for row in rows_of(Part.TEXT) if study in row.studies]
    return tables.method_table(frame, shown, columns, **options)


def test_nothing_is_better_than_the_floor(frame):
    assert (frame["nll_gap"].dropna() >= -1e-6).all()
    relaxed = [METHODS[name].alpha is not None for name in frame["method"]]
    assert frame["nll_gap"].isna()[relaxed].all()


def test_ours_reaches_a_likelihood_no_worse_than_the_papers_setting(frame):
    """The mean over repeats in every simulated row, in both readings."""
    mean = frame.groupby(["row", "reading", "method"])["nll_gap"].mean().unstack()
    assert (mean["ours"] <= mean["infinity"]).all()


@pytest.mark.parametrize(
    ("row", "method"),
    [
        ("multiple", "mle"),
        ("gap-mm1k", "ours"),
        ("mm1k-slow", "logistic"),
        pytest.param("multiple", "infinity", marks=pytest.mark.slow),
        pytest.param("mm1k-slow", "dc128", marks=pytest.mark.slow),
    ],
)
def test_the_committed_numbers_come_out_again(frame, row, method):
    kept = tables.select(frame, row=row, method=method, reading="fresh").set_index("seed").loc[0]
    (again,) = work(Task(rows()[row], METHODS[method], Reading.FRESH, (0,)))
    assert again["mape"] == pytest.approx(kept["mape"], rel=1e-5)
    assert again["mse"] == pytest.approx(kept["mse"], rel=1e-5)
    if again["theta"]:
        estimates = [float(value) for value in kept["theta"].split()]
        assert again["theta"] == pytest.approx(estimates, rel=1e-5, abs=1e-5)
