"""Forecasts over load: values, intervals, and whether they are trusted."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.errors import ConvergenceWarning, InputError
from stationary.models.measures import Measure, reward
from stationary.planning.forecast import forecast
from stationary.terms.trust import Doubt, Reason

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 10)
MEASURES = [
    "loss",
    "response_time",
    "p50",
    "p95",
    "p99",
    "mean_queue",
    "throughput",
    "utilisation",
]


@pytest.fixture(scope="module")
def fit():
    truth = M.MMmK(servers=1, capacity=10, service_rate=25.0)
    windows = st.simulate(truth, LOADS, duration=5.0, seed=1).observing([0, 1])
    return st.fit(M.MMmK(servers=1, capacity=10), windows)


def machine(load, warmth, p):
    wear = p.wear * load * torch.exp(p.heat * warmth)
    return {("up", "down"): wear, ("down", "up"): torch.ones_like(wear)}


def two_inputs(measures=None):
    return M.FromFunction(
        machine,
        states=["up", "down"],
        params={"wear": 0.1, "heat": M.Param(0.2, positive=False)},
        inputs=["load", "warmth"],
        measures=measures,
    )


@pytest.fixture(scope="module")
def warm():
    x = np.random.default_rng(0).uniform(1, 5, size=(40, 2))
    return st.fit(two_inputs(), st.simulate(two_inputs(), x, duration=30.0, seed=2))


def test_columns_and_rows_are_as_asked_for(fit, warm):
    ends = [name for m in MEASURES for name in (m, f"{m}_low", f"{m}_high")]
    loads = [30.0, 10.0, 20.0, 10.0]
    frame = fit.forecast(loads)
    assert list(frame) == ["load", *ends, "trusted", "reason"]
    assert frame["load"].tolist() == loads
    assert frame["loss"].tolist() == [fit.forecast([load])["loss"][0] for load in loads]
    assert frame["trusted"].dtype == bool
    ends = [name for m in ("p_up", "p_down") for name in (m, f"{m}_low", f"{m}_high")]
    assert list(warm.forecast([[2.0, 3.0]])) == ["load", "warmth", *ends, "trusted", "reason"]


def test_values_are_those_of_the_fitted_chain(fit):
    frame = fit.forecast([5.0, 20.0, 50.0])
    pi = fit.model.closed_form([5.0, 20.0, 50.0]).numpy()
    accepted, queue = frame["load"] * (1 - pi[:, -1]), pi @ np.arange(11)
    expected = {
        "loss": pi[:, -1],
        "mean_queue": queue,
        "throughput": accepted,
        "response_time": queue / accepted,
        "utilisation": 1 - pi[:, 0],
    }
    for name, value in expected.items():
        np.testing.assert_allclose(frame[name], value, rtol=1e-11)


@pytest.mark.parametrize(
    "x",
    [
        range(20, 23),
        (20.0, 21.0, 22.0),
        np.array([[20.0], [21.0], [22.0]]),
        torch.tensor([20.0, 21.0, 22.0]),
        pd.Series([20.0, 21.0, 22.0], index=[7, 8, 9]),
        pd.DataFrame({"note": ["a", "b", "c"], "load": [20, 21, 22]}),
        {"load": [20.0, 21.0, 22.0]},
    ],
    ids=lambda x: type(x).__name__,
)
def test_loads_may_be_given_in_many_ways(fit, x):
    pd.testing.assert_frame_equal(fit.forecast(x), fit.forecast([20, 21.0, 22]))


def test_two_inputs_by_name_and_by_position(warm):
    mapping = {"warmth": [3.0, 1.0], "load": [2.0, 4.0]}
    for x in (mapping, pd.DataFrame(mapping)):
        pd.testing.assert_frame_equal(warm.forecast(x), warm.forecast([[2.0, 3.0], [4.0, 1.0]]))


BAD = [
    ("fit", [], "x is empty"),
    ("fit", pd.DataFrame({"load": []}), "x is empty"),
    ("fit", {"rate": [3.0]}, "'load'"),
    ("fit", [0.0], "load must be positive and finite; got 0"),
    ("fit", [20.0, -1.0], "got -1"),
    ("fit", [math.nan], "got nan"),
    ("fit", [math.inf], "got inf"),
    ("fit", [[20.0, 3.0]], "1 input column"),
    ("warm", [1.0, 2.0, 3.0], r"2 input column.*load, warmth"),
    ("warm", {"load": [1.0]}, "'warmth'"),
]


@pytest.mark.parametrize(("which", "x", "said"), BAD)
def test_bad_loads_are_refused(request, which, x, said):
    with pytest.raises(InputError, match=said):
        request.getfixturevalue(which).forecast(x)


def test_intervals_contain_the_estimate_and_stay_in_range(fit):
    frame = fit.forecast(np.geomspace(1e-3, 1e4, 200))
    for name in MEASURES:
        low, high = frame[f"{name}_low"], frame[f"{name}_high"]
        most = 1.0 if name in ("loss", "utilisation") else math.inf
        assert ((low >= 0) & (low <= frame[name]) & (frame[name] <= high) & (high <= most)).all()


def test_intervals_widen_away_from_the_data_and_with_the_level(fit):
    # Below saturation everything offered is served; beyond it the unknown service rate decides.
    frame = fit.forecast([13.0, 15.0, 20.0, 25.0, 30.0, 40.0, 100.0])
    width = np.log(frame["throughput_high"] / frame["throughput_low"])
    assert (np.diff(width) > 0).all()
    assert width.iloc[-1] > 100 * width.iloc[0]
    table = fit.table()
    assert width.iloc[-1] == pytest.approx(np.log(table["high"] / table["low"])[0], rel=0.02)
    frames = [fit.forecast([30.0], level) for level in (0.5, 0.9, 0.95, 0.999)]
    for name in MEASURES:
        assert (np.diff([(f[f"{name}_high"] - f[f"{name}_low"])[0] for f in frames]) > 0).all()


def test_more_data_is_narrower():
    truth = M.MMmK(servers=1, capacity=10, service_rate=25.0)
    widths = []
    for duration in (4.0, 400.0):
        windows = st.simulate(truth, LOADS, duration=duration, seed=3).observing([0, 1])
        row = st.fit(M.MMmK(1, 10), windows).forecast([40.0])
        widths.append((row["loss_high"] - row["loss_low"])[0])
    assert widths[1] == pytest.approx(widths[0] / 10, rel=0.5)


# Trust.


def test_a_share_that_is_surely_one_is_trusted(fit):
    # The odds of a utilisation of 0.9999... are open; the utilisation is not.
    assert forecast(fit.draws, [25.0, 40.0, 80.0, 200.0, 1000.0]).doubts == (None,) * 5


def test_a_measure_of_either_sign_is_judged_by_its_size():
    profit = reward(torch.tensor([1000.0, -500.0]))  # in euros: intervals far wider than ten
    model = two_inputs({"profit": profit})
    x = np.random.default_rng(0).uniform(1, 5, size=(40, 2))
    frame = st.fit(model, st.simulate(model, x, duration=30.0, seed=2)).forecast([[2.0, 3.0]])
    assert frame["profit_high"][0] - frame["profit_low"][0] > 20
    assert frame["profit_low"][0] < frame["profit"][0] < frame["profit_high"][0]
    assert frame["trusted"][0]


def test_a_rare_loss_known_within_a_factor_of_ten_at_best_is_not_trusted():
    truth = M.MMmK(servers=1, capacity=60, service_rate=25.0)
    windows = st.simulate(truth, LOADS, duration=1.0, seed=4).observing([0, 1])
    fit = st.fit(M.MMmK(servers=1, capacity=60), windows)
    found = forecast(fit.draws, [5.0, 21.0, 40.0], ["loss"])
    # A loss below one in ten thousand is as good as known, whatever its logarithm.
    assert found.doubts == (None, Doubt(Reason.OPEN, "loss"), None)
    assert found.high[0, 0] < 1e-4 < found.high[1, 0]
    assert found.high[1, 0] > 10 * found.value[1, 0]
    assert "loss open" in fit.forecast([21.0])["reason"][0]


def test_no_answer_of_a_fit_that_did_not_converge_is_trusted():
    windows = st.Windows(LOADS, [[30, 0]] * len(LOADS), [0, 1])  # never busy
    with pytest.warns(ConvergenceWarning):
        fit = st.fit(M.MMmK(servers=1, capacity=10), windows)
    frame = fit.forecast([10.0, 20.0])
    assert not frame["trusted"].any()
    assert frame["reason"].str.contains("did not converge").all()
    limit = fit.max_load(loss=0.1)
    assert limit.doubt == Doubt(Reason.NOT_CONVERGED)
    assert (limit.load, limit.high) == (math.inf, math.inf)
    assert limit.low < 0.01 * LOADS.min()  # as good as nothing is known


def test_a_measure_of_ones_own(fit):
    class Crowded(M.MMmK):
        name = ""
        measures = ("crowded", "loss")

        def measure(self, name):
            if name == "crowded":
                return Measure(lambda point: point.pi[..., 5:].sum(-1), 0.0, 1.0)
            return super().measure(name)

    own = st.fit(Crowded(servers=1, capacity=10), fit.windows)
    pi = own.model.closed_form([20.0])
    assert own.forecast([20.0])["crowded"][0] == pytest.approx(float(pi[0, 5:].sum()), rel=1e-10)
    limit = own.max_load(crowded=0.5)
    assert own.forecast([limit.load])["crowded"][0] == pytest.approx(0.5, rel=1e-6)
