import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stationary.paper import cells, examples, tables
from stationary.paper.columns import METHODS, TABLE
from stationary.paper.runner import Reading, Task, run
from stationary.paper.settings import rows

ROW = rows()["mm1k-fast"]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    wanted = [
        Task(ROW, METHODS[name], reading, seeds, share=0.04)
        for name, seeds in (("infinity", (0, 1, 2)), ("mle", (0, 1, 2)), ("zero", (0, 1, 2)))
        for reading in (Reading.ONE, Reading.FRESH)
    ]
    wanted.append(Task(ROW, METHODS["mle"], Reading.LUCK, tuple(range(20)), share=0.04))
    run(wanted, folder, jobs=1)
    return [record for task in wanted for record in task.kept(folder)]


def test_interval_is_the_t_interval():
    data = [1.0, 2.0, 4.0, 7.0]
    mean, half = cells.interval(data)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(data), scale=stats.sem(data))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert math.isnan(cells.interval([1.0])[1])


def test_tidy_measures_from_the_floor_of_the_same_data(records):
    frame = tables.tidy(records)
    assert len(frame) == 18
    assert (frame.loc[frame["method"] == "mle", "nll_gap"] == 0).all()
    assert (frame.loc[frame["method"] == "infinity", "nll_gap"] > 0).all()
    assert frame.loc[frame["method"] == "zero", "nll_gap"].isna().all()


def test_metric_table_shows_mean_interval_and_print(records):
    frame = tables.tidy(records)
    line = next(tables.metric_table(frame, [ROW], "mape", Reading.FRESH, TABLE))
    mine = tables.select(frame, method="infinity", reading=Reading.FRESH)["mape"]
    mean, half = cells.interval(mine)
    shown = f"{cells.number(mean)} ± {cells.number(half)} [0.0118]"
    assert line["infinity-SGD (paper)"] == shown
    assert line["predict zero"] == "1 ± 0"


def test_floor_table_counts_the_lucky_data_sets(records):
    luck = tables.lucky(records)
    line = next(tables.floor_table(luck, [ROW]))
    better = (luck[ROW.name]["mape"] <= 0.0118).mean()
    assert line["data sets"] == "20"
    assert line["converged"] == "100.0%"
    assert line["data sets where the MLE does as well"] == f"{better:.1%}"


def test_agreement_names_the_side():
    frame = pd.DataFrame(
        {
            "row": "mm1k-fast",
            "method": "infinity",
            "reading": ["one", "fresh", "fresh"],
            "mape": [0.1, 0.05, 0.2],
            "mse": [1e-5, 1e-5, 1e-4],
        }
    )
    verdicts = pd.DataFrame(tables.agreement_table(frame, [ROW]))["verdict"]
    assert verdicts.tolist() == ["printed is better", "agrees"]


def test_theta_table_evaluates_the_printed_estimate(records):
    line = next(tables.theta_table(tables.tidy(records), tables.lucky(records), [ROW]))
    # M/M/1/K far above saturation loses 1 - theta / x, and theta / x - 1 falls off with x.
    x = np.arange(31, 61)

    def loss(theta):
        rho = x / theta
        return rho**19 * (1 - rho) / (1 - rho**20)

    implied = np.mean(abs(loss(25.083) - loss(25.0)) / loss(25.0))
    assert line["MAPE/100 at the printed"] == cells.number(implied)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (5e-5, "5.00e-05"), (2.5e4, "2.50e+04"), (math.inf, "inf")],
)
def test_numbers_have_three_digits(value, text):
    assert cells.number(value) == text


def test_markdown_is_a_table():
    text = cells.markdown([{"a": "1", "b": "22"}])
    assert text == "| a | b  |\n| - | -- |\n| 1 | 22 |\n"


def test_the_examples_of_the_appendix():
    a1 = pd.DataFrame(examples.unidentifiable())
    assert a1["steady state"].tolist() == ["0.4, 0.3, 0.2, 0.1", "0.4, 0.3, 0.1, 0.2"]
    assert a1["printed"].equals(a1["steady state"].rename("printed"))
    assert a1["observed, conditional"].nunique() == 1  # what is observed agrees
    assert a1["last state"].nunique() == 2  # what is asked for does not
    assert [line["mix(P, 1e-05)"] for line in examples.mixing()] == ["371", "27"]


def test_through_time_finds_the_epoch_of_the_print():
    """A run that passes the printed pair of errors on its way from bad to good."""
    mape, mse = ROW.mape["dc128"][0], ROW.mse["dc128"][0]
    which = {"row": ROW.name, "method": "dc128", "reading": "one"}
    path = {
        "metric": ["mape"] * 3 + ["mse"] * 3,
        "epoch": [0, 1, 2] * 2,
        "mean": [2 * mape, 1.01 * mape, 0.1 * mape, 2 * mse, 0.99 * mse, 0.1 * mse],
    }
    frame = pd.DataFrame([{**which, "mape_steady": 0.1, "mse_steady": 0.01}])
    line = next(tables.through_time_table(frame, pd.DataFrame({**which, **path}), [ROW]))
    assert line["before training"] == "2.64, 0.49"
    assert line["epoch nearest to the printed"] == "1: 1.33, 0.243"
    assert line["its chain's steady state"] == "0.1, 0.01"
