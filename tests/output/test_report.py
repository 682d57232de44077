"""The report: what it says, and what it still says where there is less to say."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import reports
import stationary as st
from reports import CAPACITY, FINDINGS, LOADS, LOST, beside, failing, identified, page, two_state
from stationary import words
from stationary.errors import InputError
from stationary.learning.estimate import End
from stationary.output.report import answer, measured
from stationary.planning.limits import Limit
from stationary.terms.slo import Slo
from stationary.terms.trust import Chosen
from stationary.words import number


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    reports.no_pictures(monkeypatch)


@pytest.fixture(scope="module")
def whole():
    return reports.whole_windows()


@pytest.fixture(scope="module")
def fit():
    return reports.small_fit()


@pytest.fixture(scope="module")
def complete(whole):
    """Fit all states."""
    return st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), whole)


@pytest.fixture(scope="module")
def several(fit):
    return beside(fit)


def loss(load, rate):
    """Loss of M/M/1/K in closed form."""
    rho = load / rate
    return rho**CAPACITY * (1 - rho) / (1 - rho ** (CAPACITY + 1))


def sections(shown):
    parts = (attrs for tag, attrs in shown.tags if tag in ("section", "details"))
    return [attrs["id"] for attrs in parts if "id" in attrs]


def value(text):
    """Read a number as the report writes it."""
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    mantissa, _, power = text.replace("−", "-").partition(" × 10")
    return float(mantissa) * 10.0 ** int(power.translate(raised) or 0)


# What it says.


def test_the_answer_comes_first_and_is_right(fit, tmp_path):
    shown = page(fit, tmp_path, slos="loss<1%")
    text = shown.text("h1")
    pattern = r"Loss < 1% holds up to (.+) \(95% interval (.+) to (.+)\)\."
    load, low, high = map(float, re.fullmatch(pattern, text).groups())
    assert low < load < high
    assert loss(load, fit.estimates["service_rate"]) == pytest.approx(0.01, rel=0.03)
    assert text.rstrip(".") in shown.text("title")
    first = ("assumed", "measure", "what-if", "forecast", "details", "identifiability")
    assert sections(shown) == [*first, "checks", "diagnostics", "generator", "made"]


def test_the_first_of_several_slos_to_be_missed_is_the_headline(fit, tmp_path):
    both = ["loss<1%", "response_time<100ms"]
    loads = [fit.max_load(slo).load for slo in both]
    assert loads[1] < loads[0]
    result = answer(fit, both)
    assert result.limit.load == pytest.approx(loads[1])
    assert result.measure == "response_time"
    assert result.bounds == {"loss": 0.01, "response_time": 0.1}
    shown = page(fit, tmp_path, slos=both)
    assert "Mean response time is missed first" in shown.text("answer")
    assert "response time = " in shown.text("measure")
    assert "the dashed line is its bound, 1%" in shown.text("measures")
    [(head, *_)] = shown.tables["forecast"]
    assert [name for name in head if name in ("loss", "mean response time")] == [
        "mean response time",
        "loss",
    ]
    assert answer(fit, ["loss<0.1%", "response_time<100ms"]).measure == "loss"


def test_a_plan_says_what_must_hold(several, tmp_path):
    asked = several.having(question=several.asking("loss<2%", 0.9, 12.0))
    assert answer(asked).limit == several.max_load("loss<2%", level=0.9, present=12.0)
    shown = page(asked, tmp_path, identifiability=identified())
    assert shown.text("h1").startswith("Loss < 2% holds up to")
    assert "(90% interval" in shown.text("h1")
    assert "The present load, 12, may grow by" in shown.text("answer")


def test_a_plan_of_several_models_answers_with_all_of_them(several, tmp_path):
    pooled = several.having(pooled=True, known_draws=None)
    shown = page(pooled, tmp_path, slos="loss<1%", identifiability=identified())
    assert f"holds up to {number(pooled.max_load(loss=0.01).load, 3)}" in shown.text("h1")
    assert "models" in sections(shown)
    assert "all models, weighted" not in shown.text("measure")  # the curve itself is theirs
    assert f"Shown for {pooled.name}," in shown.text("diagnostics")


def test_nothing_is_fitted_or_checked_by_a_report(several, tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a report only reads")

    assert several.findings
    for name in (
        "planning.record.study",
        "planner.estimate",
        "trust.study.fit_all",
        "learning.fitting.refitted",
    ):
        monkeypatch.setattr(f"stationary.{name}", refuse)
    asked, forecast = [], type(several).forecast

    def record(plan, x, level, measures):
        asked.append((plan.pooled, tuple(measures)))
        return forecast(plan, x, level, measures)

    monkeypatch.setattr(type(several), "forecast", record)
    page(several, tmp_path, slos="loss<1%")
    # The plan's own for all that is shown, and that of all models for one curve.
    assert asked == [(False, several.draws.measures), (True, ("loss",))]


def test_what_is_assumed_is_red_only_where_it_moves_the_limit_out_of_its_interval(whole, tmp_path):
    found = st.plan(whole, servers=1, capacity=CAPACITY, slo="loss<1%")
    found = found.having(recipe={"title": "Web <shop>"})
    found.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Web &lt;shop&gt;" in text
    assert "default-src 'none'" in text
    low, high = found.limit.low, found.limit.high
    far = [any(not low <= load <= high for _, load in each.others) for each in found.assumed()]
    assert text.count('<li class="far">') == sum(far)
    assert f"At most {CAPACITY} requests at a time (" in text


def test_a_what_if_shows_only_what_holds_for_it(several, tmp_path):
    changed = several.what_if(servers=2)
    shown = page(changed, tmp_path, slos="loss<1%")
    assert not {"models", "identifiability"} & set(sections(shown))
    assert "not observed" in shown.text("aside")
    assert "2 servers instead of 1" in shown.text("aside")
    assert "see the report of that system" in shown.text("checks")
    assert list(measured(changed)) == ["load"]


@pytest.mark.parametrize(
    ("present", "low", "high", "text", "room"),
    [
        (10.0, 11.0, 14.0, "The present load, 10, may grow by 20% (10% to 40%)", "20%"),
        (24.0, 11.0, 14.0, "is over the limit by 100%.", "none (100% over)"),
        (11.5, 11.0, 14.0, "may already be over the limit", "4%"),
        (13.0, 11.0, 14.0, "is probably over the limit", "none (8% over)"),
        (10.0, 12.0, 12.0, "may grow by 20% before", "20%"),
    ],
)
def test_headroom_against_the_present_load(present, low, high, text, room):
    slo = Slo("loss", 0.01)
    limit = Limit((slo,), slo, 12.0, low, high, present=present, present_given=True)
    assert text in words.headroom(limit)
    assert dict(words.limit_facts(limit))["headroom"] == room


def test_the_present_load_is_the_heaviest_in_the_data_unless_it_is_given(fit):
    assert answer(fit, "loss<1%").headroom.startswith("The heaviest load in the data, 21,")
    assert answer(fit, "loss<1%", present=9.0).headroom.startswith("The present load, 9,")
    for invalid in (0.0, math.nan, math.inf):
        with pytest.raises(InputError, match="present load must be positive and finite"):
            answer(fit, present=invalid)


def test_the_forecast_table_is_the_closed_form(fit, tmp_path):
    shown = page(fit, tmp_path)
    assert not shown.having("aside")  # there is no reason to warn
    assert "Forecasts are trusted up to a load of" in shown.text("assumed")
    [(head, *rows)] = shown.tables["forecast"]
    assert head == ["load", "loss", "mean response time", "p50", "p95", "p99", "trusted"]
    assert 6 <= len(rows) <= 14
    for load, lost, *_, trusted in rows:
        expected = loss(value(load), fit.estimates["service_rate"])
        found, *between = (value(each.rstrip("%")) for each in re.split(r" to |\s", lost) if each)
        assert found == pytest.approx(100 * expected, rel=6e-3)
        assert between[0] / 1.006 <= found <= between[1] * 1.006
        assert trusted == "yes"


def test_rows_that_cannot_be_trusted_say_why(fit, tmp_path):
    estimate = fit.estimate
    ended = replace(estimate.ended, why=End.STALLED, converged=False, above=3.0)
    lost = fit.having(fitted={fit.name: replace(estimate, ended=ended)})
    shown = page(lost, tmp_path, present=14.0)
    [table] = shown.tables["forecast"]
    assert {row[-1] for row in table[1:]} == {"no (1)"}
    assert "(1) Not trusted: the fit did not converge." in shown.text("forecast")
    assert "The fit did not converge: it stopped about 3 nats" in shown.text("aside")
    assert shown.text("answer").count("cannot be said to meet the limit") == 1


def test_checks_are_listed_worst_first_and_not_by_colour_alone(fit, tmp_path):
    shown = page(reports.found(fit, FINDINGS), tmp_path, identifiability=identified())
    kinds = [li["class"] for li in shown.having("li") if li.get("class")]
    assert kinds == ["warning", "unknown", "ok"]
    text = shown.text("checks")
    assert "! warning Serial correlation. Successive windows resemble one another" in text
    assert "or record longer windows. (p = 0.003)" in text
    assert "? unknown Steady state." in text
    assert "✓ ok Drift." in text
    assert "A check warns: serial correlation." in shown.text("aside")


def test_models_compared(several, tmp_path):
    shown = page(several, tmp_path, identifiability=identified())
    assert {"measure", "forecast", "models", "identifiability"} <= set(sections(shown))
    [(head, *rows)] = shown.tables["models"]
    assert head[:5] == ["model", "parameters", "off by", "weight", "held-out NLL"]
    ranking = several.ranking()
    assert [row[0] for row in rows] == ranking["model"].tolist()
    chains = [row[1] for row, kind in zip(rows, ranking["kind"], strict=True) if kind == "chain"]
    assert sorted(chains) == ["1", "2"]
    assert value(rows[0][4]) == pytest.approx(ranking["backtest"][0], rel=1e-3)
    assert "Take mmmk: " in shown.text("models")
    strong = sum(row.get("class") == "strong" for row in shown.having("tr"))
    assert strong == 1 + ("what-if" in sections(shown))
    assert "all models, weighted" in shown.text("measure")
    assert re.search("models, by weight: loss < .* hold", shown.text("answer"))
    assert "recommended" not in shown.text("aside")


def test_a_comparison_may_speak_for_another_model_or_for_none(fit, tmp_path):
    none = beside(fit, why=Chosen.WRONG, best="mmmk", share=0.2)
    shown = page(none, tmp_path, identifiability=identified())
    assert "Of the models compared, none is to be trusted" in shown.text("aside")
    rows = [row for row in shown.having("tr") if row.get("class") == "strong"]
    assert len(rows) == ("what-if" in sections(shown))  # of what-ifs alone, the system as it is
    other = beside(fit, model="slowing")
    shown = page(other, tmp_path, identifiability=identified())
    assert "Another of the models compared is recommended. Take slowing" in shown.text("aside")


def test_what_is_not_determined(fit, tmp_path, monkeypatch):
    shown = page(fit, tmp_path, identifiability=identified())
    text = shown.text("identifiability")
    assert "The data determine 1 of 2" in text
    assert "Multiplying one_rate and another by one common factor" in text
    [table] = shown.tables["identifiability"]
    assert table[1] == ["150", "loss", "0.25", "0.125", "0.5", "yes"]
    assert table[2] == ["200", "mean response time", "2.5", "2", "3", "no"]
    of_two = identified(ranges=reports.RANGES.rename(columns={"load": "warmth"}))
    [(head, *_)] = page(fit, tmp_path, identifiability=of_two).tables["identifiability"]
    assert head == ["warmth", "measure", "forecast", "at least", "at most", "determined"]
    # It is not searched in large chains.
    monkeypatch.setattr("stationary.output.report.page.MOST_STATES", CAPACITY)
    assert not page(fit, tmp_path).text("identifiability")


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
        "observed 0, 1, 2",
        "states sampled independently of arrivals",
        "window length 10",
        "seed 0",
    ):
        assert fact in text
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", shown.text("time"))
    [(_, row)] = shown.tables["made"]
    assert row[0] == "service_rate"
    assert value(row[1]) == pytest.approx(fit.estimates["service_rate"], rel=1e-3)
    recipe = {"command": "stationary fit windows.csv", "method": "Stochastic()"}
    drawn = fit.bootstrap(20, jobs=1).having(recipe=recipe)
    again = page(drawn, tmp_path, identifiability=identified())
    assert again.text("pre") == "stationary fit windows.csv"
    assert "method Stochastic()" in again.text("made")
    assert "standard errors bootstrap, 20 refits" in again.text("made")


# What was measured.


def test_windows_that_count_every_state_show_the_measures(whole, complete):
    shown = measured(complete)
    counts = whole.counts.numpy()
    share = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(shown["load"], whole.loads)
    np.testing.assert_allclose(shown["loss"], share[:, -1])
    np.testing.assert_allclose(shown["mean_queue"], share @ np.arange(CAPACITY + 1.0))
    np.testing.assert_allclose(shown["utilisation"], 1 - share[:, 0])
    np.testing.assert_allclose(shown["throughput"], whole.loads.numpy() * (1 - share[:, -1]))


def test_windows_that_do_not_show_time_averages_of_all_states_show_no_measures(
    whole, fit, monkeypatch
):
    assert list(measured(fit)) == ["load"]  # it leaves states out
    seen = st.Windows(whole.x, whole.counts, whole.observe, sampling="arrival")
    fit = st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), seen)
    assert "loss" in measured(fit)
    monkeypatch.setattr(type(fit.model), "arrivals", lambda model, point: torch.ones(CAPACITY + 1))
    assert list(measured(fit)) == ["load"]


def test_categories_of_several_states_show_what_does_not_depend_on_their_shares(whole):
    counts = whole.counts.numpy()
    merged = np.column_stack([counts[:, 0], counts[:, 1:-1].sum(1), counts[:, -1]])
    observe = [0, range(1, CAPACITY), CAPACITY]
    lumped = st.Windows(whole.x, merged, observe)
    shown = measured(st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), lumped))
    assert sorted(shown) == ["load", "loss", "throughput", "utilisation"]
    np.testing.assert_allclose(shown["loss"], counts[:, -1] / counts.sum(1))


def test_many_windows_are_pooled(whole, complete):
    x = np.random.default_rng(0).uniform(11, 21, 900)
    counts = np.tile(whole.counts.numpy(), (30, 1))[:900]
    shown = measured(complete.having(windows=st.Windows(x, counts, whole.observe)))
    assert 150 < len(shown) <= 200
    # The first of them holds the windows of the first 200th part of the loads.
    first = x <= x.min() + (x.max() - x.min()) / 200
    assert shown["loss"][0] == pytest.approx(counts[first, -1].sum() / counts[first].sum())
    weights = counts[first].sum(1)
    assert shown["load"][0] == pytest.approx(np.average(x[first], weights=weights))


def test_measured_values_may_be_given(fit, tmp_path):
    heavy = pd.DataFrame({"load": [30.0, 40.0], "loss": [0.2, 0.4], "note": ["a", "b"]})
    assert "not used in the fit" in page(fit, tmp_path, observed=heavy).text("measure")
    with pytest.raises(InputError, match=r"observed needs a column 'load'.*it has x, loss"):
        page(fit, tmp_path, observed=heavy[["load", "loss"]].rename(columns={"load": "x"}))


# Cases in which there is less to say.


def test_limits_that_no_load_breaks_or_meets(tmp_path):
    def half(load, p):  # down no more than half the time, at any load
        return {("up", "down"): load, ("down", "up"): load + p.mend}

    def third(load, p):  # down a third of the time even without load
        return {("up", "down"): 2 + load, ("down", "up"): p.mend}

    fit = two_state(half, LOADS, LOADS / (2 * LOADS + 4), measures=LOST)
    shown = page(fit, tmp_path, slos="loss<0.6")
    assert shown.text("h1").startswith("Loss < 60% holds at any load")
    assert "10, meets the limit." in shown.text("answer")
    assert "The largest load is not to be trusted: no data tests the model" in shown.text("aside")
    fit = two_state(third, LOADS, (2 + LOADS) / (6 + LOADS), measures=LOST)
    shown = page(fit, tmp_path)
    assert shown.text("h1").startswith("Loss < 0.1% holds at no load")
    assert "misses the limit, as does any other" in shown.text("answer")


def test_a_model_without_loss(tmp_path):
    fit = two_state(failing, LOADS, LOADS / (4 + LOADS))
    shown = page(fit, tmp_path)
    expected = number(4 / 14)
    assert shown.text("h1").startswith(f"p_up is {expected[:4]}")
    assert "at a load of 10 (95% interval" in shown.text("h1")
    assert "No largest load is given: FromFunction has no measure 'loss'" in shown.text("answer")
    with pytest.raises(InputError, match="no measure 'loss'"):
        page(fit, tmp_path, slos="loss<1%")
    asked = page(fit, tmp_path, slos={"p_down": 0.5})
    assert "p_down < 50% holds up to 4" in asked.text("h1")


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
    assert "needs a model of one input; this one has load, warmth" in shown.text("answer")
    assert "held at their medians in the data: warmth 2." in shown.text("measure")
    row = shown.tables["forecast"][0][3]
    load = value(row[0])
    lost = value(row[1].partition("%")[0])
    assert lost == pytest.approx(100 * 2 * load / (4 + 2 * load), rel=6e-3)


def test_a_model_without_measures(tmp_path, monkeypatch):
    monkeypatch.setattr(st.models.FromFunction, "measures", ())
    fit = two_state(failing, LOADS, LOADS / (4 + LOADS))
    shown = page(fit, tmp_path)
    assert shown.text("h1") == "The model has no measures, so there is nothing to forecast."
    assert not {"measure", "forecast", "what-if"} & set(sections(shown))


def test_a_limit_that_the_data_do_not_determine(whole, tmp_path):
    few = whole.select([0, 1]).observing([0, 1])
    shown = page(st.fit(st.models.StateDependent(capacity=CAPACITY), few), tmp_path)
    assert re.search(r"largest load [\d.]+, not trusted", shown.text("answer"))
    assert "open by more than a factor of 10" in shown.text("aside")
    assert "The data do not determine" in shown.text("aside")
    assert "Not trusted: the data leave" in shown.text("forecast")


def test_values_below_the_axis_are_explained_where_there_are_some(whole, complete, tmp_path):
    assert (whole.counts[:, -1] == 0).any()
    assert "smaller, most often zero" in page(complete, tmp_path).text("measure")
    linear = page(complete, tmp_path, slos="response_time<200ms")
    assert "smaller" not in linear.text("measure")
    assert "windows the fit saw" in linear.text("measure")
