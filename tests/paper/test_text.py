"""What the paper's text says, as runs: its way to fit, its start, its loads and counts."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.errors import DataWarning, InputError
from stationary.learning.stochastic import Trainer
from stationary.paper import figures, tables, testbed
from stationary.paper.columns import METHODS
from stationary.paper.runner import Reading, Task, work
from stationary.paper.settings import draw, rows


def test_the_papers_way_in_one_line():
    queue = st.models.MMmK(capacity=19, service_rate=5.0)
    poisson = st.simulation.PoissonCounts()
    with pytest.warns(DataWarning, match="window"):  # seconds in which nobody came
        seen = st.simulate(queue, x=[4.0] * 50, duration=1.0, seed=0, scheme=poisson)
    with pytest.warns(DataWarning, match="window"):  # and in which more were there
        windows = seen.observing([0, 1])
    assert 25 < len(windows) < 50
    method = st.paper.training(p=0.1, epochs=5)
    assert method.clip == 5.0
    assert method.start == 0.0
    with pytest.warns(st.errors.ConvergenceWarning, match="5 epochs"):
        fit = st.fit(st.models.MMmK(capacity=19), windows, method=method)
    assert fit.estimates["service_rate"] > 1.0  # it left zero


def test_a_start_is_where_training_starts():
    model = st.models.MMmK(capacity=5)
    windows = st.simulate(model, x=[0.5, 0.8] * 5, duration=50.0, seed=0).observing([0, 1])
    for start, first in ((None, 0.65), (0.0, 1e-6), (3.0, 3.0), ([2.0], 2.0)):
        trainer = Trainer(model, windows, st.Stochastic(epochs=1, start=start))
        assert trainer.theta.item() == pytest.approx(first)
    trainer = Trainer(model, windows, st.Stochastic(epochs=1, start=0.0, floor=0.0))
    assert trainer.theta.item() == 0.0
    for start in ([1.0, 2.0], float("nan"), "zero"):
        with pytest.raises(InputError, match="start must be a number"):
            Trainer(model, windows, st.Stochastic(epochs=1, start=start))
    with pytest.raises(InputError, match="floor must be zero or positive; got -1"):
        st.Stochastic(floor=-1.0)


def test_loads_are_drawn_uniformly_where_the_text_says_so():
    row = rows()["mm1k-fast-uniform"]
    first, again, other = (np.array(row.drawn_loads(seed)) for seed in (0, 0, 1))
    assert (first == again).all()
    assert not (first == other).any()
    assert len(first) == 50
    assert first.min() >= 11
    assert first.max() <= 15
    assert len(set(first)) == 50


def test_poisson_counts_have_the_mean_and_the_variance_of_poisson():
    row = replace(rows()["mm1k-fast-poisson"], train=[13, 13, 1], windows=4000)
    problem = draw(row, 0)
    expected = 13.0 * st.steady_state(row.build()([13.0])).pi[0, :2].detach()
    found = problem.counts
    torch.testing.assert_close(found.mean(0), expected, rtol=0.05, atol=0.0)
    torch.testing.assert_close(found.var(0), expected, rtol=0.1, atol=0.0)


def test_steps_one_by_one_learn_what_squarings_learn():
    problem = draw(rows()["mm1k-fast"], 0)
    slow, fast = (METHODS[name].run([problem], [0], 0.04)[0].theta for name in ("bptt16", "dc16"))
    assert slow == pytest.approx(fast, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"columns": [replace(METHODS["dc16"], title="mine")]}, "'dc16' already"),
        ({"columns": [st.Exact()]}, "columns must be a list of estimators such as Trained"),
        ({"names": ["nope"]}, "no row 'nope' with simulated data; choose from mm1k-fast"),
        ({"names": "testbed"}, "no row 'testbed' with simulated data"),
        ({"metric": "error"}, "metric must be one of mape, mse.*'error'"),
        ({"repeats": 0}, "repeats must be a whole number"),
        ({"share": 1.5}, "share must be above 0 and at most 1; got 1.5"),
    ],
)
def test_questions_to_the_tables_that_are_wrong(given, said):
    with pytest.raises(InputError, match=said):
        st.paper.table(**{"columns": [], **given})


def test_settings_that_are_wrong():
    with pytest.raises(InputError, match=r"row must be a simulated one.*'mm1k-fast'"):
        st.paper.draw("mm1k-fast", 0)
    with pytest.raises(InputError, match="lr must be positive and finite; got 'small'"):
        st.paper.training(lr="small")


def test_both_cells_of_the_testbed_come_out_of_the_start_at_zero(recording_file):
    recording = testbed.read_recording(recording_file)
    table = pd.DataFrame(testbed.zero_start(recording, epochs=1))
    table = table.set_index(["steps", "precision"])
    for steps, errors in (("16", "14.3, 0.48"), ("128", "18.8, 0.845")):
        for precision in ("float64", "float32"):
            row = table.loc[(steps, precision)]
            assert row["MAPE/100, MSE at zero"] == row["printed"] == errors
        assert table.loc[(steps, "float32"), "gradient at zero"] == "nan"
    assert table.loc[("128", "float64"), "gradient at zero"] == "0"
    assert table.loc[("128", "float64"), "after 1 epochs"] == "18.8, 0.845"
    facts = list(testbed.facts(recording).values())
    assert "7.66 and 5" in facts[1]
    assert "135.19 and 115" in facts[1]
    assert facts[2].startswith("0:")
    assert len(figures.plot_workload(recording).axes) == 2


def test_readings_of_the_learnt_rates_by_hand():
    # From every state at rate 10 one down, and at rate 5 to 0 from the last state.
    n = 22
    Q = np.diag(np.full(n - 1, 10.0), -1)
    Q[-1, 0] = 5.0
    table = [line["median"] for line in testbed.learnt_rates([Q[np.tril_indices(n, -1)]] * 2)]
    assert table == ["10", "1", "0.0667", "0.977"]


def test_the_legend_of_a_study_names_what_any_panel_has():
    row = replace(rows()["mm1k-slow"], epochs=2)
    names = ("infinity", "p-0.01", "p-0.001")
    records = [
        r for name in names for r in work(Task(row, METHODS[name], Reading.ONE, (0, 1), 1.0))
    ]
    other = rows()["mm1k-fast"]  # without p = 0.001: its panel comes first
    curves, columns = figures.curve_frame(records), [METHODS[name] for name in names]
    frame = tables.tidy(records)
    figure = figures.plot_curves(curves, frame, [other, row], columns, "mape", Reading.ONE)
    (legend,) = figure.legends
    assert METHODS["p-0.001"].title in [text.get_text() for text in legend.get_texts()]
