"""Answers for other programs: rules for Prometheus, and forecasts as files."""

import json
import subprocess
from functools import partial

import numpy as np
import pandas as pd
import pytest

import stationary as st
from programs import required
from stationary import words
from stationary.output.alerts import alert_rules

LOAD = "sum(rate(requests_total[5m]))"


@pytest.fixture(scope="module")
def fit():
    truth = st.models.MMmK(servers=1, capacity=10, service_rate=25.0)
    loads = np.repeat(np.arange(11.0, 24.0), 4)
    windows = st.simulate(truth, loads, duration=50.0, seed=1)
    return st.fit(st.models.MMmK(servers=1, capacity=10), windows.observing(range(4)))


@pytest.fixture(scope="module")
def run(fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit.save(folder)
    return folder


def test_rules_are_those_of_the_limit(call, run, fit, tmp_path):
    path = tmp_path / "rules.yml"
    args = ("rules", run, "--slo", "loss<0.01", "--load-expr", LOAD)
    args += ("--for", "10m", "--label", "service=web")
    limit = fit.max_load(loss=0.01)
    assert limit.trusted
    expected = alert_rules(limit, LOAD, headroom=0.2, hold="10m", labels={"service": "web"})
    code, out, err = call(*args, "-o", path)
    assert (code, err) == (0, "")
    assert words.limit(limit)[1:] in " ".join(out.split())
    assert path.read_text() == expected
    assert call(*args) == (0, expected, "")
    assert "pass --overwrite" in call(*args, "-o", path)[2]
    assert call(*args, "-o", path, "--overwrite")[0] == 0
    subprocess.run([required("promtool"), "check", "rules", path], check=True, capture_output=True)


def test_rules_of_a_limit_that_is_not_trusted(call, run, tmp_path):
    path = tmp_path / "rules.yml"
    args = ("rules", run, "--slo", "loss<0.6", "--load-expr", LOAD, "-o", path)
    code, _, err = call(*args)
    assert code == 1
    assert "not to be trusted: no data tests the model" in err
    assert "trusted: 'no'" in path.read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--slo", "mean_queue<-1"), "a bound on mean_queue must lie between 0 and"),
        (("--slo", "loss<2"), "loss has two bounds"),
    ],
)
def test_options_of_rules_that_are_wrong(call, run, args, message):
    code, _, err = call("rules", run, "--slo", "loss<0.01", "--load-expr", LOAD, *args)
    assert (code, message in err) == (2, True), err


# Forecasts as files.


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("a.parquet", pd.read_parquet),
        ("a.csv", partial(pd.read_csv, keep_default_na=False)),
        ("a.JSON", lambda path: pd.DataFrame(json.loads(path.read_text()))),
    ],
)
def test_a_forecast_as_a_file(call, run, fit, tmp_path, name, read):
    path = tmp_path / name
    code, out, err = call("forecast", run, "--x", "10:30:10", "-o", path)
    assert (code, err) == (0, "")
    assert "with 95% intervals" in out
    expected = fit.forecast([10.0, 20.0, 30.0])
    pd.testing.assert_frame_equal(read(path), expected, check_dtype=False)
    code, _, err = call("forecast", run, "--x", "10:20:10", "-o", path)
    assert (code, "exists; name another file, or pass --overwrite" in err) == (2, True)
    assert len(read(path)) == 3
    assert call("forecast", run, "--x", "10:20:10", "-o", path, "--overwrite")[0] == 0
    assert len(read(path)) == 2


def test_a_limit_as_a_file(call, run, fit, tmp_path):
    path = tmp_path / "answer.json"
    code, out, _ = call("forecast", run, "--slo", "loss<0.01", "--json", "-o", path)
    assert code == 1  # 23 is more than keeps the loss below 0.01
    assert json.loads(path.read_text()) == json.loads(out)
    assert json.loads(out)["limit"]["load"] == pytest.approx(fit.max_load(loss=0.01).load)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--x", "10", "-o", "a.xlsx"), "a.xlsx: give the file the ending .csv, .json or .parquet"),
        (("--slo", "loss<0.1", "-o", "a.csv"), "a.csv would hold measures over load"),
        (("--x", "10", "--slo", "loss<0.1", "-o", "a.csv"), "a.csv would have no room for"),
    ],
)
def test_files_that_cannot_hold_the_answer(call, run, args, message):
    code, _, err = call("forecast", run, *args)
    assert (code, message in err) == (2, True), err
