"""A real Prometheus that scrapes a real queue: its windows against the queue's own record."""

import itertools
import subprocess
import time
import urllib.request
from functools import partial

import numpy as np
import pytest

import stationary as st
from programs import free_port, required, wait_until
from queue_server import BUCKETS, SECONDS, QueueServer
from stationary.data import Sampling
from stationary.errors import InputError
from stationary.ingest import Cut, Prometheus, windows_from_prometheus

pytestmark = pytest.mark.slow

SCRAPE, WINDOW, WINDOWS, BACK = 0.2, 2.0, 4, 2.0
LOAD = "rate(requests_total[2s])"


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=1) as reply:
            return reply.status == 200
    except OSError:
        return False


def decided(process, url):
    """Whether it has started, or never will."""
    return process.poll() is not None or answers(f"{url}/-/ready")


def started(program, folder, config):
    """A Prometheus that answers, and its address; somebody else may take a free port first."""
    for _ in range(5):
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                [
                    program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=log,
            )
        wait_until(partial(decided, process, url), "the start of Prometheus")
        if process.poll() is None:
            return process, url
    pytest.fail((folder / "log").read_text())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A Prometheus that has scraped a queue for a while, and the queue, which has ended."""
    program = required("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    system = QueueServer(load=40.0, service_rate=50.0, capacity=6, seed=1)
    pace = f"{round(1000 * SCRAPE)}ms"
    with system.running() as metrics:
        config = folder / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {pace}, scrape_timeout: {pace}}}\n"
            f"scrape_configs:\n"
            f"  - job_name: queue\n"
            f"    static_configs: [{{targets: ['127.0.0.1:{metrics}']}}]\n"
        )
        process, url = started(program, folder, config)
        try:
            wait_until(lambda: len(system.scrapes) > 15, "the first scrapes")
            start = time.time()
            time.sleep(WINDOWS * WINDOW + 2 * SCRAPE)
            yield url, system, start
        finally:
            process.terminate()
            process.wait(20)


def told(system, start, names):
    """What the scrapes of each window were told, by the queue's own record."""
    edges = start + WINDOW * np.arange(WINDOWS + 1)
    moments = np.array([moment for moment, _ in system.scrapes])
    values = np.array([[now[name] for name in names] for _, now in system.scrapes])
    return [values[(moments > a) & (moments <= b)] for a, b in itertools.pairwise(edges)]


def read(recorded, **options):
    url, _, start = recorded
    source = Prometheus(
        url, options.pop("start", start), start + WINDOWS * WINDOW, options.pop("step", SCRAPE)
    )
    sampling = "time" if "gauge" in options else "arrival"
    cut = Cut(WINDOW, sampling, capacity=options.pop("capacity", None))
    return windows_from_prometheus(source, cut, **{"load": LOAD, **options}).windows()


def test_a_gauge_is_counted_as_the_queue_told_it(recorded):
    # Looks ten times as often as scrapes: every scrape is seen, and counted once.
    windows = read(recorded, gauge="inflight", step=SCRAPE / 10)
    assert windows.sampling is Sampling.TIME
    assert windows.duration.tolist() == [WINDOW] * WINDOWS
    expected = [
        np.bincount(seen[:, 0], minlength=windows.counts.shape[1])
        for seen in told(recorded[1], recorded[2], ["inflight"])
    ]
    # A scrape at the edge of a window may fall on either side, in each of two windows.
    assert np.abs(windows.counts.numpy() - expected).sum(1).max() <= 3
    assert abs(windows.counts.sum() - np.sum(expected)) <= 2


def test_the_load_is_that_of_the_queue(recorded):
    windows = read(recorded, histogram="found_bucket", capacity=6)
    scrapes = recorded[1].scrapes
    moments = np.array([moment for moment, _ in scrapes])
    total = np.array([now["requests_total"] for _, now in scrapes])

    # The mean over a window of what came in the seconds before each look.
    looks = recorded[2] + SCRAPE * np.arange(1, WINDOWS * round(WINDOW / SCRAPE) + 1)
    came = np.interp(looks, moments, total) - np.interp(looks - BACK, moments, total)
    expected = came.reshape(WINDOWS, -1).mean(1) / BACK
    np.testing.assert_allclose(windows.loads, expected, rtol=0.1)
    assert np.mean(windows.loads.numpy()) == pytest.approx(expected.mean(), rel=0.03)


def test_a_histogram_is_binned_as_the_queue_counted(recorded):
    windows = read(recorded, histogram="found_bucket", capacity=6)
    assert windows.labels == ("0", "1", "2", "3+4", "5+6")
    assert windows.sampling is Sampling.ARRIVAL
    names = [f'found_bucket{{le="{le}"}}' for le in (*BUCKETS, "+Inf")]
    seen = told(recorded[1], recorded[2], names)
    ends = np.array([part[-1] for part in seen])
    grown = np.diff(np.diff(ends, axis=0), axis=1, prepend=0)
    # One scrape more or less at an end is some eight requests.
    assert np.abs(windows.counts[1:].numpy() - grown).sum(1).max() <= 24
    assert windows.counts.sum() == pytest.approx(40 * WINDOWS * WINDOW, rel=0.25)
    model = st.models.MMmK(servers=1, capacity=6)
    fit = st.fit(model, windows)
    assert fit.estimates["service_rate"] == pytest.approx(50.0, rel=0.3)  # sleeps overrun


@pytest.mark.parametrize(
    "asked", ["sum by (le) (took_bucket)", "sum by (le) (increase(took_bucket[W]))"]
)
def test_latencies_are_those_of_the_queue(recorded, asked):
    windows = read(recorded, latency=asked)
    [kind] = windows.observations
    names = [f'took_bucket{{le="{le}"}}' for le in (*SECONDS, "+Inf")]
    ends = np.array([part[-1] for part in told(recorded[1], recorded[2], names)])
    grown = np.diff(np.diff(ends, axis=0), axis=1, prepend=0)
    # One scrape more or less at an end is some eight requests; `increase` extrapolates as much.
    assert np.abs(kind.data[1:].numpy() - grown).sum(1).max() <= 30
    assert kind.data.sum() == pytest.approx(40 * WINDOWS * WINDOW, rel=0.25)


def test_prometheuss_own_words_are_passed_on(recorded):
    with pytest.raises(InputError, match=r"load: 'rate\(requests_total\)'.*expected type range"):
        read(recorded, load="rate(requests_total)", gauge="inflight")
    with pytest.raises(InputError, match=r"gauge: 'nothing' has no value between"):
        read(recorded, gauge="nothing")
    with pytest.raises(InputError, match=r"load: '.*' gives 5 series.*sum\("):
        read(recorded, load="rate(found_bucket[2s])", gauge="inflight")
    with pytest.raises(InputError, match=r"HTTP 422.*duplicate series|many-to-many"):
        read(recorded, load="found_bucket * on (job) found_bucket", gauge="inflight")


def test_more_points_than_prometheus_answers_at_once(recorded):
    start = recorded[2] - 20.0
    windows = read(recorded, gauge="inflight", start=start, step=0.001)  # 30,000 points
    # Those of the windows and of before, each once, though chunks end among them.
    assert WINDOWS * WINDOW / SCRAPE < windows.counts.sum() + 5 <= len(recorded[1].scrapes) + 5


def test_the_command_writes_what_fit_reads(recorded, call, tmp_path):
    url, _, start = recorded
    path = tmp_path / "windows.csv"
    args = ("ingest", "prometheus", url, "--load", LOAD, "--histogram", "found_bucket")
    args += ("--capacity", "6", "--start", start, "--end", start + WINDOWS * WINDOW)
    code, out, err = call(*args, "--step", "200ms", "--window", "2s", "-o", path)
    assert (code, err) == (0, "")
    assert "sampling=arrival, duration=2" in out
    windows = st.read_windows(path)
    assert windows == read(recorded, histogram="found_bucket", capacity=6)
    assert "exists" in call(*args, "-o", path)[2]
