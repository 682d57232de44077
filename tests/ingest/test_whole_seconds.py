"""Logs whose times are whole seconds: response times and losses are used, queues are not."""

import warnings
from datetime import UTC, datetime

import numpy as np
import pytest

from stationary.errors import DataWarning, InputError
from stationary.ingest import Columns, Cut, Source, windows_from_events

BEGIN, SECONDS, RATE = 1_700_000_000, 600, 20.0


@pytest.fixture(scope="module")
def requests():
    """Arrivals, and response times of 40 ms on average; a tenth of the requests is lost."""
    rng = np.random.default_rng(1)
    arrival = np.sort(rng.uniform(0, SECONDS, int(SECONDS * RATE)))
    return arrival, rng.exponential(0.04, len(arrival)), rng.random(len(arrival)) < 0.1


def clock(time):
    return datetime.fromtimestamp(BEGIN + int(time), UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")


def nginx(arrival, took, status):
    head = f'::1 - - [{clock(arrival + took)}] "GET / HTTP/1.1" {status} 5 "-" "-"'
    return f"{head} {took:.3f}"


def apache(arrival, took, status):
    return f'::1 - - [{clock(arrival)}] "GET / HTTP/1.1" {status} 5 "-" "-" {1e6 * took:.0f}'


def row(arrival, took, status):
    return f"{BEGIN + int(arrival)},{took:.6f},{status}"


def made(path, requests, line, head="", **cut):
    arrival, took, lost = requests
    lines = [
        line(*each, 503 if gone else 200) for *each, gone in zip(arrival, took, lost, strict=True)
    ]
    path.write_text("\n".join([head, *lines, ""]).lstrip())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return windows_from_events(Source(str(path)), Cut(lost_status=("5xx",), **cut))


@pytest.mark.parametrize(
    ("name", "line", "head"),
    [
        ("nginx.log", nginx, ""),
        ("apache.log", apache, ""),
        ("table.csv", row, "arrival,response,status"),
    ],
)
@pytest.mark.parametrize("cut", [{}, {"window": 20.0, "capacity": 30}])
def test_latencies_and_losses_are_left(tmp_path, requests, name, line, head, cut):
    found = made(tmp_path / name, requests, line, head, **cut)
    kinds = ("start", "load", "sent", "lost", "steady", "marked")
    assert all(column in kinds or column.startswith("rt_") for column in found.table)
    assert {kind.kind for kind in found.windows().observations} == {"latencies", "losses"}
    assert found.facts == {}
    assert found.likely_servers() is None
    assert found.likely_capacity() is None
    assert any("queue lengths and service times are left out" in note for note in found.notes)
    assert not any("found" in note and "in the system" in note for note in found.notes)
    assert found.duration >= 10
    assert set(found.table["marked"]) == {""}
    assert found.table["load"].mean() == pytest.approx(RATE, rel=0.02)
    answered = found.table.filter(like="rt_").to_numpy().sum()
    assert answered == found.table["sent"].sum() - found.table["lost"].sum()


def test_without_response_times_they_are_refused(tmp_path, requests):
    """Differences of whole seconds are no response times."""
    path = tmp_path / "done.csv"
    rows = [
        f"{BEGIN + int(a)},{BEGIN + int(a + took)}" for a, took, _ in zip(*requests, strict=True)
    ]
    path.write_text("\n".join(["arrival,done", *rows, ""]))
    source = Source(str(path), Columns(completion="done"))
    with pytest.raises(InputError, match=r"all times in 'arrival' are whole .* record parts of a"):
        windows_from_events(source, Cut())


def test_nobody_knows_whose_the_usual_lines_are(tmp_path):
    """Those of nginx and Apache are alike, so that both servers' words are said."""
    (tmp_path / "access.log").write_text(f'::1 - - [{clock(0)}] "GET /" 200 5 "-" "-"\n' * 3)
    for form, said in ((None, r"\$request_time to nginx.*, or %D to Apache"), ("apache", "add %D")):
        with (
            pytest.warns(DataWarning, match="usec_frac"),
            pytest.raises(InputError, match=said),
        ):
            windows_from_events(Source(str(tmp_path / "access.log"), format=form), Cut())


def test_of_jobs_that_take_minutes_they_tell_the_queue(tmp_path, requests):
    arrival, took, lost = requests
    slow = arrival * 100, took * 3000, lost
    found = made(tmp_path / "jobs.csv", slow, row, "arrival,response,status", window=600.0)
    assert "Q=0" in found.table


@pytest.mark.parametrize("step", [0.001, 1.0])
def test_buckets_end_between_response_times_that_are_rounded(tmp_path, requests, step):
    """What is written as 2 ms took 1.5 to 2.5 ms; no bucket lies between two written times."""
    arrival, took, _ = requests
    took = took * 1e3 * step
    path = tmp_path / "rounded.csv"
    rows = [f"{a:.6f},{round(t / step) * step:.3f}" for a, t in zip(arrival, took, strict=True)]
    path.write_text("\n".join(["arrival,response", *rows, ""]))
    table = windows_from_events(Source(str(path)), Cut(window=20.0)).table.filter(like="rt_")
    ends = np.array([float(name[3:-2]) for name in table if name != "rt_more"]) / 1e3 / step
    np.testing.assert_allclose(ends % 1, 0.5, atol=1e-6)
    truth = [(took <= end * step).sum() for end in ends]
    shown = table.to_numpy().sum(0).cumsum()[:-1] / table.to_numpy().sum()
    np.testing.assert_allclose(shown, np.array(truth) / len(took), atol=0.01)
