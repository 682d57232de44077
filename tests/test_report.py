"""The report: what it says, and what it still says where there is less to say."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from reports import (
    CAPACITY,
    FINDINGS,
    LOADS,
    LOST,
    Comparison,
    Identifiability,
    failing,
    no_pictures,
    page,
    small_fit,
    two_state,
    whole_windows,
)
from stationary.errors import InputError
from stationary.report import answer
from stationary.report.ahead import measured
from stationary.report.words import number


@pytest.fixture
def quick(monkeypatch):
    no_pictures(monkeypatch)


@pytest.fixture(scope="module")
def whole():
    return whole_windows()


@pytest.fixture(scope="module")
def fit():
    return small_fit()


def loss(load, rate):
    """Loss of M/M/1/K in closed form."""
    rho = load / rate
    return rho**CAPACITY * (1 - rho) / (1 - rho ** (CAPACITY + 1))


def value(text):
    """Read a number as the report writes it."""
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, power = text.replace("−", "-").partition(" × 10")
    return float(mantissa) * 10.0 ** int(power.translate(raised) or 0)


# What it says.


@pytest.mark.usefixtures("quick")
def test_the_answer_comes_first_and_is_right(fit, tmp_path):
    shown = page(fit, tmp_path, bound=("loss", 0.01))
    said = shown.text("h1")
    found = re.fullmatch(
        r"Loss stays at or below 0\.01 up to a load of ([\d.]+) "
        r"\(95% interval ([\d.]+) to ([\d.]+)\)\.",
        said,
    )
    load, low, high = map(float, found.groups())
    assert low < load < high
    assert loss(load, fit.estimates["service_rate"]) == pytest.approx(0.01, rel=2e-3)
    assert said in shown.text("title")
    headings = [s["id"] for s in shown.having("section")]
    assert headings == ["measure", "forecast", "checks", "diagnostics", "generator", "made"]


@pytest.mark.usefixtures("quick")
def test_sections_of_guests_stand_in_order(fit, tmp_path):
    shown = page(
        fit,
        tmp_path,
        findings=FINDINGS,
        comparison=Comparison(fit),
        identifiability=Identifiability(),
    )
    assert [s["id"] for s in shown.having("section")] == [
        *("measure", "forecast", "models", "identifiability"),
        *("checks", "diagnostics", "generator", "made"),
    ]


def test_headroom_against_the_present_load(fit):
    limit = fit.max_load(loss=0.01)
    said = answer(fit, ("loss", 0.01), present=10.0)
    room = f"{10 * (limit.load - 10):.3g}%"
    ends = f"({10 * (limit.low - 10):.3g}% to {10 * (limit.high - 10):.3g}%)"
    assert said.headroom == (
        f"The present load, 10, may grow by {room} {ends} before the limit is reached."
    )
    assert dict(said.facts)["headroom"] == room
    over = answer(fit, ("loss", 0.01), present=2 * limit.load)
    assert over.headroom.endswith("is over the limit by 100%.")
    assert dict(over.facts)["headroom"] == "none (100% over)"
    between = answer(fit, ("loss", 0.01), present=(limit.low + limit.load) / 2)
    assert "may be over the limit already" in between.headroom
    assert answer(fit, ("loss", 0.01)).headroom.startswith("The heaviest load seen, 21,")


@pytest.mark.parametrize("present", [0.0, -3.0, math.nan, math.inf])
@pytest.mark.usefixtures("quick")
def test_a_present_load_that_is_none(fit, tmp_path, present):
    with pytest.raises(InputError, match="present load must be positive and finite"):
        page(fit, tmp_path, present=present)


@pytest.mark.usefixtures("quick")
def test_the_forecast_table_is_the_closed_form(fit, tmp_path):
    [table] = page(fit, tmp_path).tables["forecast"]
    head, *rows = table
    interval = "95% interval"
    assert head == ["load", "trusted", "loss", interval, "response time", interval, "data"]
    assert 6 <= len(rows) <= 14
    for load, trusted, shown, between, _, _, where in rows:
        expected = loss(value(load), fit.estimates["service_rate"])
        assert value(shown) == pytest.approx(expected, rel=6e-3)
        low, high = map(value, between.split(" to "))
        assert low <= value(shown) * 1.006
        assert high >= value(shown) / 1.006
        assert where == "above" if value(load) > 21 else where in ("inside", "below")
        assert trusted == "yes"


@pytest.mark.usefixtures("quick")
def test_rows_that_cannot_be_trusted_say_why(fit, tmp_path):
    lost = replace(fit, converged=False, message="out of steps")
    shown = page(lost, tmp_path)
    [table] = shown.tables["forecast"]
    assert {row[1] for row in table[1:]} == {"no (1)"}
    assert "(1) Not trusted: the fit did not converge." in shown.text("forecast")
    assert "The fit did not converge: out of steps." in shown.text("aside")
    assert shown.text("answer").count("cannot be said to meet the limit") == 1


@pytest.mark.usefixtures("quick")
def test_no_warning_where_there_is_no_reason(fit, tmp_path):
    shown = page(fit, tmp_path)
    assert not shown.having("aside")
    assert "Forecasts are trusted up to a load of" in shown.text("answer")
    assert "No checks were run" in shown.text("checks")


@pytest.mark.usefixtures("quick")
def test_checks_are_listed_worst_first_and_not_by_colour_alone(fit, tmp_path):
    shown = page(fit, tmp_path, findings=FINDINGS, identifiability=Identifiability())
    kinds = [li["class"] for li in shown.having("li") if li.get("class")]
    assert kinds == ["warning", "unknown", "ok"]
    text = shown.text("checks")
    assert "! warning Drift. Later windows differ from earlier ones. (p = 0.003)" in text
    assert "? unknown Relaxation." in text
    assert "✓ ok Scatter." in text
    assert "The forecast is determined." in shown.text("identifiability")
    assert "A check warns: drift." in shown.text("aside")


@pytest.mark.usefixtures("quick")
def test_models_compared(fit, tmp_path):
    shown = page(fit, tmp_path, comparison=Comparison(fit))
    [(head, best, other)] = shown.tables["models"]
    assert head[:4] == ["model", "kind", "parameters", "held-out NLL"]
    assert best[:4] == ["mmmk", "chain", "1", "1.331"]
    assert other[:4] == ["last value predicts no change", "baseline", "0", "1.61"]
    assert "MMmK forecasts held-out loads best." in shown.text("models")
    assert sum(row.get("class") == "strong" for row in shown.having("tr")) == 1
    assert "all models, weighted" in shown.text("measure")
    none = page(fit, tmp_path, comparison=Comparison(fit, None, "no model beats the last value"))
    assert "No model is recommended. No model beats the last value." in none.text("aside")
    assert not any(row.get("class") == "strong" for row in none.having("tr"))


@pytest.mark.usefixtures("quick")
def test_what_is_not_determined(fit, tmp_path):
    shown = page(fit, tmp_path, identifiability=Identifiability())
    text = shown.text("identifiability")
    assert "The forecast is determined." in text
    assert "Two rates can grow together." in text
    [table] = shown.tables["identifiability"]
    assert table[1] == ["150", "loss", "0.25", "0.125", "0.5", "yes"]
    assert table[2] == ["200", "response time", "2.5", "2", "3", "no"]
    of_two = Identifiability((), Identifiability().ranges.rename(columns={"x": "warmth"}))
    [(head, *_)] = page(fit, tmp_path, identifiability=of_two).tables["identifiability"]
    assert head == ["warmth", "measure", "forecast", "at least", "at most", "determined"]


@pytest.mark.usefixtures("quick")
def test_how_it_was_made(fit, tmp_path):
    shown = page(fit, tmp_path, command="stationary report run/ --slo 'loss<0.01'")
    text = shown.text("made")
    assert "stationary report run/ --slo 'loss<0.01'" in text
    for fact in (
        f"stationary {st.__version__}",
        f"torch {torch.__version__}",
        f"negative log-likelihood {fit.nll:.6f}",
        "windows 33",
        "loads 11 to 21",
        "counted categories 0, 1, 2",
        "counted by the clock",
        "window length 10",
        "seed 0",
    ):
        assert fact in text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", shown.text("time"))
    [(_, row)] = shown.tables["made"]
    assert row[0] == "service_rate"
    assert value(row[1]) == pytest.approx(fit.estimates["service_rate"], rel=1e-3)
    recorded = replace(fit, recipe={"command": "stationary fit windows.csv", "gradient": "Exact()"})
    again = page(recorded, tmp_path)
    assert again.text("pre") == "stationary fit windows.csv"
    assert "gradient Exact()" in again.text("made")


# What was measured.


def test_windows_that_count_every_state_show_the_measures(whole):
    fit = st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), whole)
    shown = measured(fit)
    counts = whole.counts.numpy()
    share = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(shown["x"], whole.loads)
    np.testing.assert_allclose(shown["loss"], share[:, -1])
    np.testing.assert_allclose(shown["mean_queue"], share @ np.arange(CAPACITY + 1.0))
    np.testing.assert_allclose(shown["utilisation"], 1 - share[:, 0])
    np.testing.assert_allclose(shown["throughput"], whole.loads.numpy() * (1 - share[:, -1]))


def test_windows_that_leave_states_out_show_none(fit):
    assert list(measured(fit)) == ["x"]


def test_a_category_of_several_states_shows_what_does_not_hang_on_their_shares(whole):
    counts = whole.counts.numpy()
    merged = np.column_stack([counts[:, 0], counts[:, 1:-1].sum(1), counts[:, -1]])
    observe = [0, range(1, CAPACITY), CAPACITY]
    lumped = st.Windows(whole.x, merged, observe)
    shown = measured(st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), lumped))
    assert sorted(shown) == ["loss", "throughput", "utilisation", "x"]
    np.testing.assert_allclose(shown["loss"], counts[:, -1] / counts.sum(1))


def test_many_windows_are_added_up(whole):
    fit = st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), whole)
    x = np.random.default_rng(0).uniform(11, 21, 900)
    counts = np.tile(whole.counts.numpy(), (30, 1))[:900]
    shown = measured(replace(fit, windows=st.Windows(x, counts, whole.observe)))
    assert 150 < len(shown) <= 200
    # The first of them holds the windows of the first 200th part of the loads.
    first = x <= x.min() + (x.max() - x.min()) / 200
    assert shown["loss"][0] == pytest.approx(counts[first, -1].sum() / counts[first].sum())
    weights = counts[first].sum(1)
    assert shown["x"][0] == pytest.approx(np.average(x[first], weights=weights))


@pytest.mark.usefixtures("quick")
def test_measured_values_may_be_given(fit, tmp_path):
    heavy = pd.DataFrame({"x": [30.0, 40.0], "loss": [0.2, 0.4], "note": ["a", "b"]})
    assert "not used in the fit" in page(fit, tmp_path, observed=heavy).text("measure")
    with pytest.raises(InputError, match=r"observed needs a column 'x'.*it has load, loss"):
        page(fit, tmp_path, observed=heavy[["x", "loss"]].rename(columns={"x": "load"}))


# Cases in which there is less to say.


def test_a_limit_that_no_load_breaks(tmp_path):
    def rates(load, p):  # down no more than half the time, at any load
        return {("up", "down"): load, ("down", "up"): load + p.mend}

    fit = two_state(rates, LOADS, LOADS / (2 * LOADS + 4), measures=LOST)
    shown = page(fit, tmp_path, bound=("loss", 0.6))
    assert shown.text("h1").startswith("Loss stays at or below 0.6 at any load")
    assert "10, meets the limit." in shown.text("answer")
    assert "The largest load is not to be trusted: no data tests the model" in shown.text("aside")
    assert len(shown.having("svg")) == 5


def test_a_limit_that_no_load_meets(tmp_path):
    def rates(load, p):  # down a third of the time even without load
        return {("up", "down"): 2 + load, ("down", "up"): p.mend}

    fit = two_state(rates, LOADS, (2 + LOADS) / (6 + LOADS), measures=LOST)
    shown = page(fit, tmp_path)
    assert shown.text("h1").startswith("Loss stays at or below 0.001 at no load")
    assert "misses the limit, as does any other" in shown.text("answer")


@pytest.mark.usefixtures("quick")
def test_a_model_without_loss(tmp_path):
    fit = two_state(failing, LOADS, LOADS / (4 + LOADS))
    shown = page(fit, tmp_path)
    expected = number(4 / 14)
    assert shown.text("h1").startswith(f"P up is {expected[:4]}")
    assert "at a load of 10 (95% interval" in shown.text("h1")
    assert "No largest load is given: the model has no measure 'loss'" in shown.text("answer")
    with pytest.raises(InputError, match="no measure 'loss'"):
        page(fit, tmp_path, bound=("loss", 0.01))
    asked = page(fit, tmp_path, bound=("p_down", 0.5))
    assert "P down stays at or below 0.5 up to a load of 4" in asked.text("h1")


def test_a_model_of_two_inputs(tmp_path):
    warm = np.tile([1.0, 2.0, 3.0], 4)

    def rates(load, warmth, p):
        return {("up", "down"): load * warmth, ("down", "up"): p.mend}

    down = LOADS * warm / (4 + LOADS * warm)
    x = np.column_stack([LOADS, warm])
    fit = two_state(rates, x, down, ("load", "warmth"), LOST)
    shown = page(fit, tmp_path)
    assert value(re.match(r"Loss is ([\d.]+)", shown.text("h1"))[1]) == pytest.approx(
        20 / 24, rel=2e-3
    )
    assert "that takes a model of one input, and this has load, warmth." in shown.text("answer")
    assert "held at their medians in the data: warmth 2." in shown.text("measure")
    row = shown.tables["forecast"][0][3]
    load = value(row[0])
    assert value(row[2]) == pytest.approx(2 * load / (4 + 2 * load), rel=6e-3)


def test_a_model_without_measures(tmp_path):
    fit = two_state(failing, LOADS, LOADS / (4 + LOADS), measures={})
    shown = page(fit, tmp_path)
    assert shown.text("h1") == "The model has no measures, so there is nothing to forecast."
    assert shown.having("section")[0]["id"] == "checks"


def test_a_limit_the_data_cannot_carry(whole, tmp_path):
    few = whole.select([0, 1]).observing([0, 1])
    shown = page(st.fit(st.models.StateDependent(capacity=CAPACITY), few), tmp_path)
    assert "largest load 8.105, not trusted" in shown.text("answer")
    assert "open by more than a factor of 10" in shown.text("aside")
    assert "The data does not determine" in shown.text("aside")
    assert "Not trusted: the data leaves" in shown.text("forecast")


@pytest.mark.usefixtures("quick")
def test_triangles_are_explained_where_there_are_some(whole, tmp_path):
    fit = st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), whole)
    assert (whole.counts[:, -1] == 0).any()
    assert "Triangles on the axis" in page(fit, tmp_path).text("measure")
    linear = page(fit, tmp_path, bound=("response_time", 0.2))
    assert "Triangles" not in linear.text("measure")
    assert "windows the fit saw" in linear.text("measure")
