"""``stationary check`` and ``stationary compare``: as a planner would use them."""

import json
import re

import numpy as np
import pytest
import torch

import stationary as st
from stationary import words
from stationary.planning.record import Refits

MODEL = "mmmk:servers=1,capacity=10"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=25.0)
    loads = np.random.default_rng(5).permutation(np.repeat(np.arange(6.0, 21.0, 2.0), 8))
    path = tmp_path_factory.mktemp("data") / "windows.csv"
    st.simulate(truth, loads, duration=20.0, seed=0).to_csv(path)
    return path


@pytest.fixture(scope="module")
def recording(recording_file):
    return [
        *(recording_file, "--x", "callrate", "--counts", "Q={}", "--loads", "1:1000"),
        *("--sampling", "arrival"),
    ]


def test_check_of_good_data_says_so(call, data):
    code, out, err = call(
        *("check", data, "--model", MODEL, "--observe", "0-3", "--duration", "20")
    )
    assert (code, err) == (0, "")
    for name in ("steady state", "drift", "hysteresis", "bursts", "service rate", "lack of fit"):
        assert f"ok      {name}: " in out
    assert "The data determine the only parameter" in out
    assert "loss at load 25 lies between" in out
    assert "Forecasts are trusted up to a load of" in out


def test_check_of_a_run_is_the_librarys_answer(call, data, tmp_path):
    args = ("--model", MODEL, "--observe", "0-3", "--duration", "20")
    assert call("fit", data, *args, "-o", tmp_path / "run")[0] == 0
    code, out, _ = call("check", tmp_path / "run", "--at", "22,30", "--json")
    assert code == 0
    answer = json.loads(out)
    fit = st.load(tmp_path / "run")
    assert len(answer["checks"]) == len(fit.findings)
    for found, expected in zip(answer["checks"], fit.findings, strict=True):
        assert found["check"] == expected.check
        assert (found["verdict"], found["code"]) == (expected.verdict, expected.code)
        assert set(found["facts"]) == set(expected.facts)
        assert found["p_value"] == pytest.approx(expected.p_value, nan_ok=True) or (
            found["p_value"] is None
        )
        assert found["sentence"] == words.finding(expected)
    known = fit.identify([22.0, 30.0])
    assert answer["ranges"] == known.ranges.to_dict("records")
    assert answer["determined"]
    assert answer["horizon"]["load"] == fit.horizon.load
    for option in (("--model", MODEL), ("--observe", "0,1")):  # a run has its own
        code, _, err = call("check", tmp_path / "run", *option)
        assert (code, "leave out --model" in err) == (2, True)


def test_check_of_the_recording_warns(call, recording):
    code, out, _ = call("check", *recording, "--model", "mmmk:capacity=25")
    assert code == 1
    assert "WARNING lack of fit: " in out
    assert "WARNING bursts: " in out


def test_check_of_what_is_not_determined(call, recording):
    args = ("--model", "uppertriangular:states=22", "--observe", "1,2", "--json")
    code, out, _ = call("check", *recording, *args)
    assert code == 1
    answer = json.loads(out)
    assert not answer["determined"]
    assert answer["rank"] < answer["parameters"] == 231
    loss = [row for row in answer["ranges"] if row["measure"] == "loss"]
    assert all(row["low"] < 1e-6 and row["high"] > 0.999 for row in loss)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["check", "{data}"], "name a model, as in --model"),
        (["check", "nowhere.csv", "--model", MODEL], "nowhere.csv"),
        (["check", "none"], "there is no such run or file; 'stationary fit ... -o' makes a run"),
        (["fit", "{data}", "--model", MODEL, "--errors", "none"], "standard errors 'none'"),
        (["compare", "{data}", "--servers", "x"], "--servers"),
        (["compare", "{data}", "--capacity", "5-3"], "--capacity"),
        (["compare", "{data}", "--patience", "soon"], "--patience"),
        (["compare", "{data}", "--model-error", "4"], "--model-error"),
        (["fit", "{data}", "--model", MODEL, "--block", "3"], "ask for one with --bootstrap"),
        (["fit", "{data}", "--model", MODEL, "--bootstrap", "3"], "at least 20 repeats"),
    ],
)
def test_bad_input_is_one_message(call, data, args, words):
    code, out, err = call(*(str(arg).format(data=data) for arg in args))
    assert code == 2
    assert err.startswith("error: ")
    assert words in err
    assert out == ""


@pytest.mark.parametrize("loads", ["6:6", "6:6.5"])
def test_compare_of_one_load_still_shows_its_table(call, data, loads):
    args = ("--model", MODEL, "--loads", loads, "--observe", "0-3", "--slo", "loss<0.01")
    code, out, err = call("compare", data, *args)
    assert (code, err) == (1, "")
    assert "None can be recommended" in out
    assert "not to be trusted: none can be recommended" in " ".join(out.split())


def test_compare_recommends_and_saves(call, data, tmp_path):
    code, out, err = call(
        *("compare", data, "--model", MODEL, "--model", "erlang:phases=4,capacity=10"),
        *("--observe", "0-3", "--slo", "loss<0.01", "--ahead", "20,25", "--present", "12"),
        *("-o", tmp_path / "run"),
    )
    assert (code, err) == (0, "")
    assert f"Take {MODEL}: " in out
    assert "Universal Scalability Law" in out
    assert re.search(r"(\d models, by weight|.*): loss < 1% holds up to", out, re.I)
    assert "The present load, 12, may grow by" in out
    plan = st.load(tmp_path / "run")
    assert plan.pooled
    assert list(plan.fitted) == [MODEL, "erlang:phases=4,capacity=10"]
    assert plan.recommended == MODEL
    assert plan.model.name == "mmmk"
    assert plan.recipe["command"].startswith("stationary compare")
    assert words.limit(plan.limit) in " ".join(out.split())
    code, out, _ = call("forecast", tmp_path / "run", "--slo", "loss<0.01", "--json")
    assert code == 0
    found = json.loads(out)["limit"]
    assert (found["load"], found["low"], found["high"]) == (
        *(plan.limit.load, plan.limit.low, plan.limit.high),
    )
    assert found["present"] == 12.0  # as the comparison was asked


def test_compare_for_programs(call, data):
    args = ("compare", data, "--capacity", "10", "--observe", "0-3", "--starts", "1", "--json")
    code, out, _ = call(*args, "--slo", "loss<0.01", "--present", "30")
    assert code == 1  # too much load
    answer = json.loads(out)
    assert answer["recommended"] == "service"
    assert {row["model"] for row in answer["models"]} >= {"mmmk", "slowing", "onoff"}
    assert answer["limit"]["headroom"] < 0


def test_the_default_capacity_holds_every_state_that_is_named(call, tmp_path):
    path = tmp_path / "large.csv"
    states = range(25)
    rows = [f"{load}," + ",".join(str(40 - k) for k in states) for load in (6, 8, 10, 12) * 3]
    path.write_text("load," + ",".join(f"Q={k}" for k in states) + "\n" + "\n".join(rows) + "\n")
    code, _, err = call("compare", path, "--starts", "1", "--jobs", "1")
    assert code in (0, 1)
    assert "the capacity is not known, so 24 to 200 are tried: give --capacity" in err


def test_compare_says_when_none_is_to_be_trusted(call, recording, tmp_path):
    args = ("--model", "mmmk:capacity=25", "--model", "slowing:capacity=25", "--starts", "1")
    code, out, _ = call("compare", *recording, *args, "-o", tmp_path / "run")
    assert code == 1
    assert "None is to be trusted" in out
    # The run tells the same to whoever asks it.
    code, out, _ = call("forecast", tmp_path / "run", "--slo", "loss<0.5", "--x", "100", "--json")
    assert code == 1
    answer = json.loads(out)
    assert not answer["limit"]["trusted"]
    assert [row["trusted"] for row in answer["forecast"]] == [False]
    assert "the best of the models" in answer["limit"]["reason"]


def test_fit_with_a_bootstrap_and_errors_of_choice(call, data):
    args = ("fit", data, "--model", MODEL, "--observe", "0,1", "--slo", "loss<0.1")
    plain = json.loads(call(*args, "--json", "--errors", "information")[1])
    code, out, _ = call(*args, "--json", "--bootstrap", "40", "--block", "2", "--jobs", "1")
    assert code == 0
    answer = json.loads(out)
    assert plain["standard_errors"] == "observed information"
    assert answer["standard_errors"].startswith("sandwich")
    assert answer["bootstrap"][0]["low"] < 25.0 < answer["bootstrap"][0]["high"]
    shown = call(*args, "--bootstrap", "40", "--block", "2", "--jobs", "1")[1]
    assert words.refits(Refits(torch.zeros(40, 1), 2)) in " ".join(shown.split())


def test_compare_takes_candidates_patience_and_a_model_error(call, data):
    system = ("--servers", "1,2", "--capacity", "10-11", "--patience", "20s")
    limits = []
    for error in ("0", "0.2"):
        asked = ("--slo", "loss<0.01", "--model-error", error, "--json")
        _, out, _ = call("compare", data, *system, *asked)
        limits.append(json.loads(out)["limit"])
    assert limits[1]["high"] - limits[1]["low"] > 1.5 * (limits[0]["high"] - limits[0]["low"])
    models = [row["model"] for row in json.loads(out)["models"]]
    assert "service:servers=2,capacity=11" in models
