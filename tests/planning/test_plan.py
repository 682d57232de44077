"""A plan is made once: what follows from it later fits nothing again."""

import numpy as np
import pandas as pd
import pytest
import torch

import stationary as st
from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
from stationary.errors import InputError
from stationary.learning import newton
from stationary.planning import record
from stationary.terms.slo import as_slos
from stationary.trust.ladder import ladder

M = st.models
LOADS = np.tile(np.arange(4.0, 17.0, 2.0), 6)
SLOS = ["loss < 1%", "response_time < 0.5"]


@pytest.fixture(scope="module")
def windows():
    truth = M.MMmK(servers=2, capacity=12, service_rate=10.0)
    return st.simulate(truth, LOADS, duration=50.0, seed=0)


@pytest.fixture(scope="module")
def plan(windows):
    return st.plan(windows, servers=2, capacity=12, slo=SLOS)


@pytest.fixture
def fits(monkeypatch):
    """How many times the likelihood is minimised."""
    counted, minimise = [], newton.minimise

    def watched(*args, **options):
        counted.append(1)
        return minimise(*args, **options)

    for place in ("learning.newton", "learning.fitting"):
        monkeypatch.setattr(f"stationary.{place}.minimise", watched)
    return counted


def test_it_answers_end_to_end(plan):
    found = plan.limit
    assert found.low < found.load < found.high
    assert found.slos == as_slos(SLOS)
    assert found.binding in found.slos
    exact = M.MMmK(servers=2, capacity=12, service_rate=10.0).closed_form([found.high])
    assert float(exact[0, -1]) > 0.005
    text = str(plan)
    for part in ("Loss < 1%", "response time < 0.5", "hold up to", "mmmk", "Take "):
        assert part in text
    assert plan.recommended in plan.fitted
    assert plan.limit == plan.max_load(*SLOS)
    assert {"load", "loss", "loss_low", "loss_high", "trusted", "reason"} <= set(
        plan.forecast([9.0])
    )


def test_questions_make_no_fit(plan, fits):
    for name in ("limit", "horizon", "findings", "draws", "comparison"):
        getattr(plan, name)
    plan.ranking()
    str(plan)
    plan.forecast([8.0, 20.0])
    plan.max_load(loss=0.001, level=0.5)
    assert plan.what_if(servers=3).limit.load > plan.limit.load
    plan.next_experiment()
    assert not fits


def test_the_same_limit_is_searched_once(plan, monkeypatch):
    searched, search = [], record.limit

    def watched(*args):
        searched.append(args[1])
        return search(*args)

    monkeypatch.setattr(record, "limit", watched)
    anew = plan.having(seed=plan.seed + 1)  # so that no limit is known
    first = anew.limit
    assert anew.limit == first
    assert anew.max_load(present=3.0).present == 3.0
    anew.assumed()
    anew.breakdown()
    assert len(searched) == 1
    assert anew.max_load(level=0.5).low > first.low
    assert len(searched) == 2


def test_a_saved_plan_makes_no_fit_either(plan, fits, tmp_path):
    plan.save(tmp_path / "plan")
    back = st.load(tmp_path / "plan")
    assert not fits
    back.forecast([8.0, 20.0])
    assert back.limit.trusted == plan.limit.trusted
    assert back.ranking().equals(plan.ranking())
    for name in ("limit", "horizon", "findings", "draws", "comparison"):
        getattr(back, name)
    for ask in (back.warnings, back.residuals, back.__str__):
        ask()
    assert back.what_if(servers=3).limit.load > back.limit.load
    back.save(tmp_path / "again")
    assert not fits


def test_a_saved_plan_gives_the_same_answers_to_the_last_bit(plan, tmp_path):
    plan.save(tmp_path / "plan")
    back = st.load(tmp_path / "plan")
    one, other = back.limit, plan.limit
    for name in ("load", "low", "high", "level", "present", "tested", "failed", "binding", "slos"):
        assert getattr(one, name) == getattr(other, name)
    ahead = [6.0, 18.0, 40.0]
    pd.testing.assert_frame_equal(back.forecast(ahead), plan.forecast(ahead), check_exact=True)
    assert back.question == plan.question
    assert back.weights == plan.weights
    assert str(back) == str(plan)
    changed = plan.what_if(servers=3)
    assert back.what_if(servers=3).limit.load == changed.limit.load


def test_a_fit_is_studied_once(windows, fits):
    fit = st.fit(M.MMmK(servers=2, capacity=12), windows)
    made = len(fits)
    fit.forecast([8.0])
    studied = len(fits)
    assert studied > made
    fit.forecast([8.0])
    fit.max_load(loss=0.01)
    assert fit.findings
    assert len(fits) == studied
    beside = fit.compared(jobs=1)
    assert beside.studies["mmmk"] is fit.studies["mmmk"]
    many = len(fits)
    beside.forecast([8.0])
    beside.ranking()
    rivals = len(fits)
    assert rivals <= many + 4  # the scalability law, at each cut
    beside.ranking()
    assert len(beside.compared(jobs=1).fitted) == len(beside.fitted)
    assert len(fits) == rivals
    assert beside.limit_of(beside.asking("loss<1%", None, None)) == fit.max_load(loss=0.01)


def test_a_comparison_of_five_models_takes_few_fits(fits):
    windows = recording().between(None, LIGHT).observing(OBSERVED)
    models = ladder(windows, 1, CAPACITY)
    models |= {"finite": M.FiniteClients(servers=1, capacity=CAPACITY, clients=100)}
    assert len(models) == 5
    st.compare(models, windows, jobs=1)
    assert 0 < len(fits) <= 87


def test_a_plan_without_an_slo_says_so(windows):
    fit = st.fit(M.MMmK(servers=2, capacity=12), windows)
    for ask in (lambda: fit.limit, fit.influence, fit.breakdown):
        with pytest.raises(InputError, match="no SLO"):
            ask()


def test_the_present_load_and_the_level_are_the_plans(windows):
    models = {"mmmk": M.MMmK(servers=2, capacity=12)}
    plan = st.plan(windows, models=models, slo="loss<1%", present=12.0, level=0.8)
    assert (plan.limit.present, plan.limit.present_given, plan.limit.level) == (12.0, True, 0.8)
    wide = plan.max_load("loss<1%", level=0.99)
    assert wide.low < plan.limit.low < plan.limit.high < wide.high
    for bad in ({"slo": "loss"}, {"slo": "los<1%"}, {"level": 3.0}, {"present": -1.0}, {"slo": 3}):
        with pytest.raises(InputError):
            st.plan(windows, models=models, **{"slo": "loss<1%", **bad})


def test_a_percentile_may_bind_among_the_default_models(windows):
    found = st.plan(windows, servers=2, capacity=12, slo=["p99 < 800ms", "loss < 1%"])
    assert found.limit.binding.measure in ("p99", "loss")
    row = found.forecast([found.limit.load]).iloc[0]
    assert row["p95"] < row["p99"] <= 0.8 * 1.001


def test_windows_that_move_the_answer():
    truth = st.models.MMmK(servers=1, capacity=12, service_rate=40.0)
    loads = np.repeat([8.0, 12.0, 16.0, 20.0, 24.0], 4)
    windows = st.simulate(truth, loads, duration=20.0, seed=1)
    found = st.fit(st.models.MMmK(capacity=12), windows)
    found = found.having(question=found.asking("loss<1%", None, None))
    moved = found.influence()
    assert moved["change"].abs().is_monotonic_decreasing
    for window in moved.index[:3]:
        rest = windows.select(torch.arange(len(windows)) != window)
        again = st.fit(st.models.MMmK(capacity=12), rest).max_load(loss=0.01).load
        expected = again / found.limit.load - 1
        assert moved["change"][window] == pytest.approx(expected, rel=0.35)
    # Where every load meets the SLO, as no request waits for ten seconds, no window moves a limit.
    never = found.having(question=found.asking("p99<10s", None, None))
    assert not never.influence()["change"].any()
