"""A real gunicorn under real load: facts that hold on any machine, and nothing left behind."""

import contextlib
import os
import runpy
import signal
import socket
import threading
import time

import numpy as np
import pandas as pd
import pytest

import stationary as st
from recordings import check_interruption, leaving_nothing, running
from stationary.errors import ProgramError
from stationary.testbed import Gunicorn, Service, Shape
from stationary.testbed import gunicorn as module
from stationary.testbed.client import Client, Request
from stationary.testbed.kernel import LOOPBACK

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]

SYSTEM = Gunicorn(
    Service(Shape.GAMMA, 0.02, 0.5), cpu_share=0.1, workers=2, backlog=4, seconds=1.0, seed=3
)
LIGHT, HEAVY = 20.0, 250.0


@pytest.fixture(scope="module", autouse=True)
def nothing_left():
    with leaving_nothing():
        yield


def recorded(system, rates):
    with contextlib.closing(system.record(rates)) as steps:
        return list(steps)


@pytest.fixture(scope="module")
def steps():
    return recorded(SYSTEM, [LIGHT, LIGHT, HEAVY, HEAVY])


@pytest.fixture(scope="module")
def written(steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gunicorn")
    summary = SYSTEM.write(steps, folder / "windows.csv", folder / "requests.csv")
    return summary, folder


def test_few_are_lost_at_light_load_and_many_in_overload(steps):
    for rate, fits in ((LIGHT, lambda lost: lost < 0.1), (HEAVY, lambda lost: lost > 0.3)):
        requests = [each for step in steps if step.rate == rate for each in step.requests]
        assert {each.status for each in requests} <= {"200", "timeout"}
        assert fits(np.mean([each.status != "200" for each in requests]))


def test_arrivals_and_service_times_are_those_of_the_seed(steps):
    for number, step in enumerate(steps):
        expected = step.rate * SYSTEM.seconds
        assert abs(len(step.requests) - expected) < 5 * np.sqrt(expected)
        again = SYSTEM._step(step.rate, number).requests
        found = [(each.due, each.service) for each in step.requests[: len(again)]]
        assert found == [(each.due, each.service) for each in again]
    # A worker never takes less than it is told, but for the clock of the processor.
    answered = [each for step in steps for each in step.requests if each.status == "200"]
    assert all(each.took >= 0.99 * each.service - 1e-4 for each in answered)


def test_the_files_are_requests_and_their_windows(steps, written):
    summary, folder = written
    requests = pd.read_csv(folder / "requests.csv")
    assert list(requests.columns) == ["arrival", "response", "status", "target"]
    assert requests["arrival"].is_monotonic_increasing
    assert len(requests) == summary.sent == sum(len(step.requests) for step in steps)
    lost = requests["response"].isna()
    assert set(requests["status"][lost]) == {"timeout"}
    windows = st.read_windows(folder / "windows.csv")
    # Windows are steps, each with its own load; the request that ends the last one is in none.
    since = requests["arrival"] - requests["arrival"][0]
    sent = np.bincount((since // SYSTEM.seconds).astype(int))[: len(steps)]
    assert windows.counts.sum(-1).tolist() == sent.tolist()
    assert windows.observe == tuple(range(SYSTEM.capacity + 1))
    assert windows.counts[:, -1].sum() == lost.sum() == summary.lost
    assert summary.windows == len(steps)


def test_the_capacity_is_what_lost_requests_found(written):
    summary, _ = written
    assert summary.full_at == pytest.approx(SYSTEM.capacity, abs=1.0)
    assert 0 < summary.overhead < 0.02
    assert summary.service == pytest.approx(0.02, rel=0.3)
    assert summary.held_up > -0.01


def test_the_handler_burns_cpu_time_and_then_sleeps():
    app = runpy.run_path(str(module.PROGRAMS / "burn.py"))["app"]
    for burnt, slept in ((0.05, 0.0), (0.0, 0.05)):
        before = time.thread_time()
        (took,) = app({"PATH_INFO": f"/{burnt}/{slept}"}, lambda status, headers: None)
        spent = time.thread_time() - before
        assert spent >= 0.05 if burnt else spent < 0.05
        assert float(took) >= 0.05 - 1e-4


def test_what_becomes_of_requests_without_an_answer():
    """Refused where nobody listens, given up after a while, broken where the server hangs up."""
    with socket.socket() as closed, socket.socket() as deaf, socket.socket() as rude:
        for server in (closed, deaf, rude):
            server.bind((LOOPBACK, 0))
        deaf.listen(1)
        rude.listen(1)
        threading.Thread(target=lambda: rude.accept()[0].close()).start()
        for server, status in ((closed, "refused"), (deaf, "timeout"), (rude, "broken")):
            request = Request(0.0, 1.0, 0.0, "/0/0")
            with Client(server.getsockname()[1], patience=0.5) as client:
                client.send([request], time.monotonic(), time.monotonic())
                client.finish()
            assert request.status == status
            assert np.isnan(request.response)


def test_a_server_that_dies_is_an_error_and_cleaned_up():
    with contextlib.closing(SYSTEM.record([LIGHT] * 20)) as steps:
        next(steps)
        for pid in running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with pytest.raises(ProgramError, match="gunicorn stopped during the recording"):
            for _ in steps:
                pass


def test_a_server_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PROGRAMS", tmp_path)  # no handler there
    with pytest.raises(ProgramError, match=r"gunicorn stopped at once; its last words.*burn"):
        recorded(SYSTEM, [LIGHT])


def test_too_many_connections_are_refused_before_anything_starts(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *_, **__: pytest.fail("started"))
    with pytest.raises(ProgramError, match="ulimit -n"):
        recorded(SYSTEM, [HEAVY])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_recording_keeps_its_windows(how, tmp_path):
    options = ["--system", "gunicorn", "--rates", "100:101"]
    check_interruption(how, tmp_path / "windows.csv", *options)
