"""Forecasts over load and the load that meets a limit."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary import words
from stationary.errors import ConvergenceWarning, InputError
from stationary.models.measures import Measure, reward
from stationary.planning.forecast import forecast
from stationary.planning.limits import Limit, Status
from stationary.terms.trust import Doubt, Reason

M = st.models
LOADS = np.repeat(np.arange(11.0, 16.0), 10)
MEASURES = ["loss", "mean_queue", "throughput", "response_time", "utilisation"]


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


def test_columns_and_their_order(fit, warm):
    ends = [name for m in MEASURES for name in (m, f"{m}_low", f"{m}_high")]
    assert list(fit.forecast([20.0])) == ["load", *ends, "trusted", "reason"]
    ends = [name for m in ("p_up", "p_down") for name in (m, f"{m}_low", f"{m}_high")]
    assert list(warm.forecast([[2.0, 3.0]])) == ["load", "warmth", *ends, "trusted", "reason"]


def test_rows_come_in_the_order_asked_for(fit):
    loads = [30.0, 10.0, 20.0, 10.0]
    frame = fit.forecast(loads)
    assert frame["load"].tolist() == loads
    assert frame["loss"].tolist() == [fit.forecast([load])["loss"][0] for load in loads]
    assert frame["trusted"].dtype == bool


def test_values_are_those_of_the_fitted_chain(fit):
    frame = fit.forecast([5.0, 20.0, 50.0])
    pi = fit.model.closed_form([5.0, 20.0, 50.0]).numpy()
    accepted = frame["load"] * (1 - pi[:, -1])
    queue = pi @ np.arange(11)
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
        [20, 21.0, 22],
        (20.0, 21.0, 22.0),
        np.array([20, 21, 22]),
        np.array([[20.0], [21.0], [22.0]]),
        torch.tensor([20.0, 21.0, 22.0]),
        pd.Series([20.0, 21.0, 22.0], index=[7, 8, 9]),
        pd.DataFrame({"note": ["a", "b", "c"], "load": [20, 21, 22]}),
        {"load": [20.0, 21.0, 22.0]},
    ],
    ids=lambda x: type(x).__name__,
)
def test_loads_may_be_given_in_many_ways(fit, x):
    pd.testing.assert_frame_equal(fit.forecast(x), fit.forecast([20.0, 21.0, 22.0]))


def test_two_inputs_by_name_and_by_position(warm):
    expected = warm.forecast([[2.0, 3.0], [4.0, 1.0]])
    table = pd.DataFrame({"warmth": [3.0, 1.0], "load": [2.0, 4.0]})
    pd.testing.assert_frame_equal(warm.forecast(table), expected)
    mapping = {"warmth": [3.0, 1.0], "load": [2.0, 4.0]}
    pd.testing.assert_frame_equal(warm.forecast(mapping), expected)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([], "x is empty"),
        (range(0), "x is empty"),
        (pd.DataFrame({"load": []}), "x is empty"),
        ({"rate": [3.0]}, "needs a column 'load'; got"),
        ([0.0], "a load must be positive and finite; got 0"),
        ([20.0, -1.0], "a load must be positive and finite; got -1"),
        ([math.nan], "a load must be positive and finite; got nan"),
        ([math.inf], "a load must be positive and finite; got inf"),
        ([[20.0, 3.0]], "takes 1 input column"),
    ],
)
def test_bad_loads_are_refused(fit, x, message):
    with pytest.raises(InputError, match=message):
        fit.forecast(x)


def test_a_flat_list_is_refused_for_two_inputs(warm):
    with pytest.raises(InputError, match=r"takes 2 input column\(s\) \(load, warmth\)"):
        warm.forecast([1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="needs a column 'warmth'"):
        warm.forecast({"load": [1.0]})


def test_intervals_hold_the_estimate_and_stay_in_range(fit):
    frame = fit.forecast(np.geomspace(1e-3, 1e4, 200))
    for name in MEASURES:
        low, high = frame[f"{name}_low"], frame[f"{name}_high"]
        assert (low <= frame[name]).all()
        assert (frame[name] <= high).all()
        assert (low >= 0).all()
    assert (frame["loss_high"] <= 1).all()
    assert (frame["utilisation_high"] <= 1).all()


def test_intervals_widen_away_from_the_data(fit):
    # Below saturation everything offered is served; beyond it the unknown service rate is.
    frame = fit.forecast([13.0, 15.0, 20.0, 25.0, 30.0, 40.0, 100.0])
    width = np.log(frame["throughput_high"] / frame["throughput_low"])
    assert (np.diff(width) > 0).all()
    assert width.iloc[-1] > 100 * width.iloc[0]
    table = fit.table()
    assert width.iloc[-1] == pytest.approx(np.log(table["high"] / table["low"])[0], rel=0.02)


def test_a_higher_level_is_wider(fit):
    frames = [fit.forecast([30.0], level) for level in (0.5, 0.9, 0.95, 0.999)]
    for name in MEASURES:
        widths = [(f[f"{name}_high"] - f[f"{name}_low"])[0] for f in frames]
        assert (np.diff(widths) > 0).all()


def test_more_data_is_narrower():
    truth = M.MMmK(servers=1, capacity=10, service_rate=25.0)
    widths = []
    for duration in (4.0, 400.0):
        windows = st.simulate(truth, LOADS, duration=duration, seed=3).observing([0, 1])
        row = st.fit(M.MMmK(1, 10), windows).forecast([40.0])
        widths.append((row["loss_high"] - row["loss_low"])[0])
    assert widths[1] == pytest.approx(widths[0] / 10, rel=0.5)


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
    found = forecast(fit.draws, [5.0, 19.0, 40.0], ["loss"])
    # A loss below one in a million is as good as known, whatever its logarithm.
    assert found.doubts == (None, Doubt(Reason.OPEN, "loss"), None)
    assert found.high[0, 0] < 1e-6 < found.high[1, 0]
    assert found.high[1, 0] > 10 * found.value[1, 0]
    assert "loss open by more than a factor of 10" in fit.forecast([19.0])["reason"][0]


def never_busy():
    windows = st.Windows(LOADS, [[30, 0]] * len(LOADS), [0, 1])
    with pytest.warns(ConvergenceWarning):
        return st.fit(M.MMmK(servers=1, capacity=10), windows)


def test_no_forecast_of_a_fit_that_did_not_converge_is_trusted():
    fit = never_busy()
    frame = fit.forecast([10.0, 20.0])
    assert not frame["trusted"].any()
    assert (frame["reason"] == "the fit did not converge").all()
    limit = fit.max_load(loss=0.1)
    assert not limit.trusted
    assert (limit.load, limit.high) == (math.inf, math.inf)
    assert limit.low < 0.01 * LOADS.min()  # as good as nothing is known


# The limit.


@pytest.mark.parametrize(
    ("measure", "bound"),
    [
        ("loss", 1e-9),
        ("loss", 0.001),
        ("loss", 0.5),
        ("mean_queue", 3.0),
        ("response_time", 0.1),
        ("utilisation", 0.7),
        ("throughput", 12.0),
    ],
)
def test_max_load_inverts_the_forecast(fit, measure, bound):
    limit = fit.max_load(**{measure: bound})
    assert (limit.binding, limit.level) == (st.Slo(measure, bound), 0.95)
    assert limit.low < limit.load < limit.high
    frame = fit.forecast([limit.load, limit.low, limit.high])
    assert frame[measure][0] == pytest.approx(bound, rel=1e-6)
    # Quantiles of loads and of measures interpolate between the same two draws.
    assert frame[f"{measure}_high"][1] == pytest.approx(bound, rel=1e-5)
    assert frame[f"{measure}_low"][2] == pytest.approx(bound, rel=1e-5)
    beyond = limit.load > fit.horizon.load
    beyond_it = Doubt(Reason.HORIZON, horizon=fit.horizon)
    assert limit.doubt == (beyond_it if beyond else None)


def test_max_load_is_that_of_the_closed_form(fit):
    limit = fit.max_load(loss=0.01)
    assert float(fit.model.closed_form([limit.load])[0, -1]) == pytest.approx(0.01, rel=1e-6)


def test_a_higher_level_gives_a_wider_limit(fit):
    narrow, wide = (fit.max_load(level=level, loss=0.01) for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.load == wide.load < narrow.high < wide.high


def test_a_bound_no_load_breaks(fit):
    limit = fit.max_load(response_time=1.0)  # ten requests at 25 a second
    assert (limit.load, limit.low, limit.high) == (math.inf, math.inf, math.inf)
    assert limit.status is Status.ANY_LOAD
    assert "response time stays at or below 1 at any load" in words.limit(limit)
    assert limit.doubt.horizon == fit.horizon  # a claim about loads nobody measured


def test_a_bound_no_load_meets(fit):
    limit = fit.max_load(response_time=1e-6)  # less than one service takes
    assert (limit.load, limit.low, limit.high) == (0.0, 0.0, 0.0)
    assert limit.status is Status.NO_LOAD
    assert "at no load" in words.limit(limit)


@pytest.mark.parametrize("near", [0.02, 13.0, 9000.0])
def test_the_limit_does_not_depend_on_where_the_search_starts(near):
    model = M.MMmK(servers=1, capacity=10, service_rate=25.0)
    windows = st.Windows([near] * 12, [[30 + k % 5, 10] for k in range(12)], [0, 1])
    fit = st.fit(M.MMmK(servers=1, capacity=10), windows)
    scale = fit.estimates["service_rate"] / 25.0
    limit = fit.max_load(loss=0.01)
    assert float(model.closed_form([limit.load / scale])[0, -1]) == pytest.approx(0.01, rel=1e-5)


def test_bad_bounds_are_refused(fit, warm):
    with pytest.raises(InputError, match=r"no measure 'los'; did you mean 'loss'"):
        fit.max_load(los=0.1)
    for bound in (0.0, 1.0, -0.1, 2.0, math.nan):
        with pytest.raises(InputError, match="a bound on loss must lie between 0 and 1; got"):
            fit.max_load(loss=bound)
    with pytest.raises(InputError, match="between 0 and 10; got 11"):
        fit.max_load(mean_queue=11.0)
    with pytest.raises(InputError, match=r"name what must hold, as in loss=0.001"):
        fit.max_load()
    with pytest.raises(InputError, match="loss has two bounds"):
        fit.max_load("loss<1%", loss=0.1)
    with pytest.raises(InputError, match="a model of one input; this one has load, warmth"):
        warm.max_load(p_down=0.1)


def made(measure, bound, *given):
    slo = st.Slo(measure, bound)
    return Limit((slo,), slo, *given)


def test_a_limit_reads_as_a_sentence():
    limit = made("mean_queue", 3.0, 18.551, 16.26, math.inf, 0.999)
    text = "mean queue stays at or below 3 up to a load of 18.55 (99.9% interval 16.26 to any)"
    assert words.limit(limit) == text
    unsure = replace(limit, doubt=Doubt(Reason.NOT_CONVERGED))
    assert words.limit(unsure) == f"{text}; not to be trusted: the fit did not converge"
    assert (limit.trusted, unsure.trusted) == (True, False)


@pytest.mark.parametrize(
    ("load", "present", "text"),
    [
        (156.7, 130.0, ", 21 % above the present 130"),
        (156.7, 200.0, ", 22 % below the present 200"),
        (156.7, 150.0, ", 4.5 % above the present 150"),
        (156.7, 156.0, ", 0.45 % above the present 156"),
        (1567.0, 130.0, ", 1105 % above the present 130"),
        (156.7, math.nan, ""),
        (math.inf, 130.0, ""),
        (0.0, 130.0, ""),
    ],
)
def test_a_limit_says_how_far_it_is(load, present, text):
    limit = made("loss", 0.001, load, load, load, 0.95, present)
    assert words.limit(limit) == words.limit(replace(limit, present=math.nan)) + text
    if text:
        assert limit.load == pytest.approx(present * (1 + limit.headroom))


def test_headroom_is_over_the_heaviest_load_unless_told(fit):
    limit = fit.max_load(loss=0.01)
    assert limit.present == 15.0
    assert limit.headroom == pytest.approx(limit.load / 15 - 1)
    told = fit.max_load(loss=0.01, present=18.0)
    assert told == replace(limit, present=18.0, present_given=True)
    assert math.isnan(replace(limit, present=math.nan).headroom)
    for present in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="the present load must be positive and finite; got"):
            fit.max_load(loss=0.01, present=present)


@pytest.mark.parametrize("present", [1.0, 13.0, 100.0])
def test_the_present_load_does_not_move_the_limit(fit, present):
    limit = fit.max_load(response_time=0.1, present=present)
    assert limit.load == fit.max_load(response_time=0.1).load


def test_a_limit_that_is_not_trusted_vouches_below_its_interval_only():
    sure = made("loss", 0.001, 20.0, 10.0, 300.0, 0.95)
    unsure = replace(sure, doubt=Doubt(Reason.OPEN))
    assert [sure.met_at(x) for x in (9.0, 10.0, 15.0, 20.0, 21.0)] == [True] * 4 + [False]
    assert [unsure.met_at(x) for x in (9.0, 10.0, 15.0, 20.0)] == [True, True, False, False]
    refuted = replace(unsure, tested=0.0)  # the data speaks against the model
    assert not refuted.met_at(9.0)
    nothing = replace(unsure, load=math.inf, low=0.0, high=math.inf)
    assert not nothing.met_at(1e-3)


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
