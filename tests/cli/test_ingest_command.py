"""``stationary ingest``: from requests to a fit, and what is said about bad input."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

import stationary as st
from request_logs import frame, queue
from stationary.data import Sampling

CAPACITY, RATE = 8, 25.0


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A server with room for eight, at five loads one after the other."""
    parts, now = [], 0.0
    for k, rate in enumerate([8.0, 11.0, 14.0, 17.0, 20.0]):
        parts.append(queue(rate, 400.0, CAPACITY, 1 / RATE, seed=k, start=now))
        now += 400.0
    path = tmp_path_factory.mktemp("log") / "requests.parquet"
    frame(*(np.concatenate(part) for part in zip(*parts, strict=True))).to_parquet(path)
    return path


@pytest.mark.parametrize("sampling", ["arrival", "time"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_fit_recovers_the_service_rate(call, log, tmp_path, sampling, ending):
    """Without a word on how the windows were made: the file says it."""
    file, run = tmp_path / f"windows.{ending}", tmp_path / "run"
    every = ["--every", "40ms"] if sampling == "time" else []
    code, out, err = call(
        *("ingest", log, "-o", file, "--window", "20s", "--capacity", CAPACITY),
        *("--sampling", sampling, *every),
    )
    assert (code, err) == (0, "")
    assert f"wrote 99 windows to {file}" in out
    assert f"sampling={sampling}, duration=20" in out
    assert "the last, which is incomplete" in out
    model = f"mmmk:servers=1,capacity={CAPACITY}"
    code, out, err = call("fit", file, "--model", model, "--observe", "0-3", "-o", run)
    assert (code, err) == (0, ""), out
    fitted = st.load(run)
    assert str(fitted.windows.sampling) == sampling
    assert fitted.windows.duration.unique().tolist() == [20.0]
    row = fitted.table(0.999).iloc[0]
    assert row["low"] < RATE < row["high"]
    assert row["high"] - row["low"] < 0.15 * RATE


def test_the_next_command_is_that_of_these_windows(call, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "my windows.csv"
    _, out, _ = call("ingest", log, "-o", file, "--window", "20s", "--capacity", CAPACITY)
    after = out.splitlines()[-1].removeprefix("next: ")
    assert after == (
        f"stationary plan '{file}' --servers 1 --capacity {CAPACITY} --slo 'loss<0.1%' -o plan/"
    )
    code, _, err = call(*shlex.split(after)[1:])
    assert (code, err) == (1, "")  # this log has heavier loads than the SLO allows
    assert (tmp_path / "plan" / "report.html").is_file()
    [picture] = [line for line in out.splitlines() if line.startswith("load over time: ")]
    assert picture.startswith(("load over time: ▁", "load over time: ▂"))
    assert "█ (7.3 to 20.9)" in picture
    # The log shows both numbers where they are not given.
    _, out, _ = call("ingest", log, "-o", tmp_path / "w.csv", "--window", "20s")
    assert f" --servers 1 --capacity {CAPACITY} " in out.splitlines()[-1]


def test_json(call, log, tmp_path):
    file = tmp_path / "windows.csv"
    code, out, _ = call(
        *("ingest", log, "-o", file, "--window", "20s", "--capacity", "8", "--warm-up", "1m"),
        *("--most", "3", "--json"),
    )
    made = json.loads(out)
    table = pd.read_csv(file, comment="#")
    assert code == 0
    assert made["windows"] == len(table) == 96
    assert made["duration"] == 20
    assert made["counts"]["Q=4..8"] == table["Q=4..8"].sum()
    assert {item["why"]: item["windows"] for item in made["dropped"]}["warm-up"] == 3
    windows = st.read_windows(file)
    assert windows.sampling is Sampling.ARRIVAL
    assert set(windows.duration.tolist()) == {20}


def test_a_gauge(call, tmp_path):
    times = np.arange(0, 100.0, 0.5)
    looks = pd.DataFrame({"t": times, "n": np.arange(200) % 3, "all": 7 * np.arange(200)})
    looks.to_csv(tmp_path / "looks.csv", index=False)
    file = tmp_path / "windows.csv"
    code, out, err = call(
        *("ingest", tmp_path / "looks.csv", "-o", file, "--window", "15s", "--arrival", "t"),
        *("--gauge", "n", "--load-counter", "all"),
    )
    assert (code, err) == (0, "")
    assert "sampling=time, duration=15" in out
    windows = st.read_windows(file)
    assert windows.loads.tolist() == pytest.approx([14.0] * 5)
    assert windows.counts.tolist() == [[10, 10, 10]] * 5


def test_what_the_file_says_can_be_overruled(log, call, tmp_path):
    file = tmp_path / "windows.csv"
    call("ingest", log, "-o", file, "--window", "20s")
    assert st.read_windows(file).sampling is Sampling.ARRIVAL
    told = st.read_windows(file, sampling="time", duration=5.0)
    assert (told.sampling, told.duration.unique().tolist()) == (Sampling.TIME, [5.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "soon"], "--window is a length of time such as 10ms"),
        (["--unit", "days"], "'--unit': 'days' is not one of 's', 'ms'"),
        (["--engine", "abacus"], "--engine is duckdb, spark or spark:MASTER; got 'abacus'"),
        (["--gauge", "n"], "name the column of the load once"),
        (["--load-rate", "n"], "name the column of the load once"),
        (["--every", "1ms"], "goes with sampling='time'"),
        (["--table", "t"], "--table and --query go with a database"),
        (["--arrival", "arival"], "did you mean 'arrival'?"),
        (["--format", "nothing"], "there is no format 'nothing'"),
    ],
)
def test_bad_input(call, log, tmp_path, options, message):
    code, out, err = call("ingest", log, "-o", tmp_path / "w.csv", *options)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert message in err
    assert not (tmp_path / "w.csv").exists()


def test_classes_of_requests_have_files_of_their_own(call, tmp_path):
    """Numbers in a path are taken for one another; the busiest class comes first.

    Two classes that differ in signs only do not share a file.
    """
    rng = np.random.default_rng(4)
    arrival = np.cumsum(rng.exponential(0.01, 4000))
    kind = rng.choice(4, 4000, p=[0.4, 0.4, 0.1, 0.1])
    paths = np.array(["/api/users/{}", "/", "/slow?page={}", "/api-users/{}"], dtype=object)[kind]
    response = np.array([0.001, 0.002, 0.1, 0.001])[kind]
    lines = [
        f'h - - [01/Jan/2024:00:00:{a % 60:02.0f} +0000] "GET {path.format(k)} HTTP/1.1" 200 1 "-" '
        f'"-" {r:.3f} {1704067200 + a + r:.3f}'
        for k, (a, path, r) in enumerate(zip(arrival, paths, response, strict=True))
    ]
    (tmp_path / "access.log").write_text("\n".join(lines).replace(":60 +", ":59 +") + "\n")
    command = ("ingest", tmp_path / "access.log", "-o", tmp_path / "w.csv", "--window", "5s")
    code, out, _ = call(*command, "--by", "path")
    assert code == 0, out
    made = {file.name for file in tmp_path.glob("w*.csv")}
    assert made == {"w-slow.csv", "w-api-users.csv", "w-other.csv", "w-api-users-2.csv"}
    rows = [line for line in out.splitlines() if "w-" in line]
    assert [row.split()[0] for row in rows] == ["/slow", "/", "/api/users/*", "/api-users/*"]
    sent = {file: pd.read_csv(tmp_path / file, comment="#")["sent"].sum() for file in made}
    for name, which in (("w-api-users.csv", 0), ("w-api-users-2.csv", 3)):
        assert sent[name] == pytest.approx((kind == which).sum(), rel=0.2)
    code, out, _ = call(*command, "--where", "path ~ ^/api/", "--where", "status = 200", "--json")
    assert json.loads(out)["rows"] == (kind == 0).sum()
    code, _, err = call(*command, "--overwrite", "--where", "paths ~ x")
    assert code == 2
    assert "did you mean 'path'" in err
