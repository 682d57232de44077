"""``stationary testbed``: what needs no server."""

import json

import numpy as np
import pytest

import stationary as st
from stationary.testbed import Trace, buffers, kamailio, write_traces


@pytest.fixture
def traces(tmp_path):
    """Two windows of a server that takes a millisecond and holds two requests."""
    arrival = np.array([0.0, 0.0005, 0.0008, 0.0100, 0.0105, 0.5])
    response = np.array([0.0010, 0.0015, np.nan, 0.0010, 0.0015, 0.0010])
    file = tmp_path / "requests.parquet"
    write_traces([Trace(rate, 1.0, arrival, response, 0, 1, 1) for rate in (6.0, 6.0)], file)
    return file


def test_replay_makes_windows_of_traces(call, traces, tmp_path):
    file = tmp_path / "windows.csv"
    code, out, _ = call("testbed", "replay", traces, "-o", file, "--queue", 2)
    assert code == 0
    assert "wrote 2 windows" in out
    assert "12 requests, 2 lost (16.7%; the kernel dropped 2 at the server), 0 late" in out
    assert "capacity=2" in out
    counted = st.read_windows(file, counts="T={}", sampling="arrival", duration=1.0)
    assert counted.counts.tolist() == [[3, 2, 1]] * 2


def test_replay_takes_other_limits_and_a_service_time(call, traces, tmp_path):
    file = tmp_path / "windows.csv"
    options = ["--queue", 5, "--late", "1.2ms", "--service-time", "250us"]
    assert call("testbed", "replay", traces, "-o", file, *options)[0] == 0
    with file.open() as lines:
        names, first = (line.strip().split(",") for line in list(lines)[:2])
    row = dict(zip(names, first, strict=True))
    assert (row["late"], row["service_us"], row["Q=5"], row["T=2"]) == ("2", "250.0", "1", "0")
    code, _, err = call("testbed", "replay", traces, "-o", file)
    assert code == 2
    assert "pass --overwrite" in err


WEB = ["-o", "w.csv", "--system", "gunicorn"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "w.txt"], "ending .csv"),
        (["-o", "no/w.csv"], "there is no folder"),
        (["-o", "w.csv", "--raw", "r.txt"], ".parquet"),
        (["-o", "w.csv", "--raw", "w.csv"], "name two files"),
        (["-o", "w.csv", "--rates", "300"], "LOW:HIGH"),
        (["-o", "w.csv", "--rates", "300:"], "both ends"),
        (["-o", "w.csv", "--rates", "0:10"], "rates must lie"),
        (["-o", "w.csv", "--windows", "0"], "number of windows"),
        (["-o", "w.csv", "--profile", "none.csv"], "no such file"),
        (["-o", "w.csv", "--profile", "none.csv", "--rates", "1:2"], "leave out --rates"),
        (["-o", "w.csv", "--service", "none", "--service-time", "5"], "leave out --service-time"),
        (["-o", "w.csv", "--service-time", "5us"], "mean service time"),
        (["-o", "w.csv", "--service-time", "5 hats"], "--service-time is a length of time"),
        (["-o", "w.csv", "--service", "gamma"], "needs a variability"),
        (["-o", "w.csv", "--workers", "2"], "--workers does not go with --system kamailio"),
        ([*WEB, "--limit-by", "shim"], "--limit-by does not go with --system gunicorn"),
        ([*WEB, "--service", "none"], "gunicorn needs a service time"),
        ([*WEB, "--workers", "0"], "workers must lie"),
        ([*WEB, "--patience", "2h"], "patience must lie"),
        (["-o", "w.csv", "--queue", "1"], "queue must lie"),
        (["-o", "w.csv", "--seconds", "0"], "seconds must lie"),
    ],
)
def test_bad_input_is_found_before_anything_starts(call, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *_, **__: pytest.fail("started"))
    code, _, err = call("testbed", "record", *options)
    assert code == 2
    assert message in err
    assert not list(tmp_path.iterdir())


def test_doctor_says_what_is_missing(call, monkeypatch):
    for module in (kamailio, buffers):
        monkeypatch.setattr(module, "find_program", lambda name: None)
    monkeypatch.setattr(buffers, "may_change_default", lambda: False)
    code, out, _ = call("testbed", "doctor")
    assert code == 1
    assert "MISSING kamailio: not installed\n        apt-get install kamailio" in out
    code, out, _ = call("testbed", "doctor", "--json")
    answer = json.loads(out)
    assert code == 1
    assert not answer["ready"]
    assert {"kamailio", "sipp", "gcc"} <= {need["name"] for need in answer["needs"]}


def test_record_without_the_server_says_how_to_get_it(call, monkeypatch, tmp_path):
    monkeypatch.setattr("stationary.testbed.processes.find_program", lambda name: None)
    monkeypatch.setattr("stationary.testbed.buffers.find_program", lambda name: "/usr/bin/gcc")
    monkeypatch.setattr("stationary.testbed.gunicorn._is_installed", lambda: False)
    remedies = {
        "kamailio": "kamailio is not installed; on Debian: apt-get install kamailio",
        "gunicorn": "gunicorn is not installed: pip install 'stationary[testbed]'",
    }
    for system, remedy in remedies.items():
        code, _, err = call("testbed", "record", "-o", tmp_path / "w.csv", "--system", system)
        assert code == 2
        assert remedy in err
        assert not list(tmp_path.iterdir())


def test_help_lists_the_commands(call):
    code, out, _ = call("testbed", "--help")
    assert code == 0
    assert all(name in out for name in ("doctor", "record", "replay"))
