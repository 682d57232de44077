import math

import numpy as np
import pytest
from scipy import stats

from stationary.paper import cells, tables
from stationary.paper.columns import METHODS
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


def test_floor_table_counts_the_lucky_data_sets(records):
    luck = tables.lucky(records)
    line = next(tables.floor_table(luck, [ROW]))
    better = (luck[ROW.name]["mape"] <= 0.0118).mean()
    assert line["data sets"] == "20"
    assert line["converged"] == "100.0%"
    assert line["data sets where the MLE does as well"] == f"{better:.1%}"


def test_theta_table_evaluates_the_printed_estimate(records):
    line = next(tables.theta_table(tables.tidy(records), tables.lucky(records), [ROW]))
    # M/M/1/K far above saturation loses 1 - theta / x, and theta / x - 1 falls off with x.
    x = np.arange(31, 61)

    def loss(theta):
        rho = x / theta
        return rho**19 * (1 - rho) / (1 - rho**20)

    implied = np.mean(abs(loss(25.083) - loss(25.0)) / loss(25.0))
    assert line["MAPE/100 at the printed"] == cells.number(implied)
