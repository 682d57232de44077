"""Tasks on a real Dask cluster: nothing is lost with a worker, and what cannot work says so."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import stationary as st
from clusters import PYTHONPATH, Cluster
from programs import wait_until
from stationary._support import parallel
from stationary._support.parallel import as_ready, in_parallel
from stationary.errors import InputError, ReducibleError, RunError

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default::ResourceWarning")]


@dataclass(frozen=True)
class Draw:
    """A task with a seed that says in a file where it ran."""

    folder: Path
    seconds: float = 0.1

    def __call__(self, seed):
        (self.folder / f"{seed}-{os.getpid()}").touch()
        time.sleep(self.seconds)
        (self.folder / f"{seed}-{os.getpid()}-done").touch()
        return np.random.default_rng(seed).normal(size=3)

    def ran(self):
        """Seed and process of every task that was begun."""
        names = [file.name.split("-") for file in self.folder.iterdir()]
        return [(int(name[0]), int(name[1])) for name in names if len(name) == 2]

    def in_hand(self):
        """Processes that are in the middle of a task."""
        return [p for seed, p in self.ran() if not (self.folder / f"{seed}-{p}-done").exists()]


def die(item):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(item):
    raise ReducibleError("no steady state", closed=[[item]])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:  # or processes would be left behind where workers do not come
        made.add_worker()
        made.add_worker()
        yield made.wait_for(2)
    finally:
        made.close()


@pytest.fixture
def own_cluster(tmp_path_factory):
    """A cluster without workers, to be broken."""
    made = Cluster(tmp_path_factory.mktemp("own"))
    yield made
    made.close()


def test_results_are_those_of_this_process_in_their_order(cluster, tmp_path):
    seen = []
    draw = Draw(tmp_path, 0.1)
    found = in_parallel(
        draw, range(20), cluster=cluster.address, progress=lambda done, _: seen.append(done)
    )
    np.testing.assert_array_equal(found, [draw(k) for k in range(20)])
    assert seen == list(range(1, 21))
    assert len({process for _, process in draw.ran()} - {os.getpid()}) == 2


def test_an_error_of_a_task_arrives_as_it_is(cluster):
    with pytest.raises(ReducibleError, match="no steady state") as caught:
        in_parallel(refuse, [7], cluster=cluster.address)
    assert caught.value.closed == [[7]]


def test_what_is_not_read_is_taken_off_the_cluster(cluster, tmp_path):
    draw = Draw(tmp_path, 0.2)
    ready = as_ready(draw, range(40), cluster=cluster.address)
    next(ready)
    ready.close()
    _assert_calm(cluster, draw)


def test_an_interrupted_command_leaves_no_work_behind(cluster, tmp_path):
    script = (
        "from pathlib import Path; from test_cluster import Draw; "
        "from stationary._support.parallel import in_parallel; "
        f"in_parallel(Draw(Path({str(tmp_path)!r}), 0.2), range(60), cluster={cluster.address!r})"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stderr=subprocess.PIPE,
    )
    draw = Draw(tmp_path)
    wait_until(lambda: len(draw.ran()) >= 4, "the fourth task")
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=30)
    assert b"KeyboardInterrupt" in said
    _assert_calm(cluster, draw)


def test_starts_of_a_fit_are_the_same_bit_for_bit(cluster):
    truth = st.models.Slowing(servers=1, capacity=9, service_rate=30.0, slowdown=0.15)
    windows = st.simulate(truth, [8.0, 12.0, 16.0] * 4, 10.0, seed=2).observing([0, 1, 2, 3])
    model = st.models.Slowing(servers=1, capacity=9)
    seen = []
    here = st.fit(model, windows, method=st.Newton(starts=8), seed=3)
    method = st.Newton(
        starts=8,
        cluster=cluster.address,
        progress=lambda start, evaluations, nll: seen.append((start, evaluations, nll)),
    )
    there = st.fit(model, windows, method=method, seed=3)
    assert there.estimates == here.estimates
    assert there.nll == here.nll
    assert there.estimate.evaluations == here.estimate.evaluations
    np.testing.assert_array_equal(there.covariance.matrix, here.covariance.matrix)
    assert [start for start, _, _ in seen] == list(range(1, 9))
    # A cluster also runs the starts that one process leaves out, because enough of them agree.
    assert seen[-1][1] >= here.estimate.evaluations
    assert seen[-1][2] == pytest.approx(here.nll)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    truth = st.models.MMmK(servers=1, capacity=9, service_rate=25.0)
    path = tmp_path_factory.mktemp("data") / "windows.csv"
    st.simulate(truth, [8.0, 11.0, 14.0, 17.0, 20.0] * 6, 20.0, seed=4).to_csv(path)
    return path


FIT = ["fit", "--model", "mmmk:servers=1,capacity=9", "--observe", "0-3", "--json"]
COMMANDS = {
    "starts": [*FIT, "--starts", "6"],
    "bootstrap": [*FIT, "--bootstrap", "24"],
    "compare": ["compare", "--capacity", "9", "--observe", "0-3", "--json", "--starts", "1"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_print_the_same(name, cluster, file, call):
    command, *options = COMMANDS[name]
    here = call(command, file, *options, "--jobs", "1")
    there = call(command, file, *options, "--cluster", cluster.address)
    assert there == here
    assert len(here[1]) > 100


def test_a_killed_worker_takes_nothing_with_it(own_cluster, tmp_path):
    own_cluster.add_worker()
    own_cluster.add_worker()
    own_cluster.wait_for(2)
    workers = {worker.pid: worker for worker in own_cluster.workers}
    draw = Draw(tmp_path, 0.4)

    def progress(done, _):
        if done == 1:
            wait_until(draw.in_hand, "the first task")
            own_cluster.kill(workers[draw.in_hand()[0]])

    found = in_parallel(draw, range(14), cluster=own_cluster.address, progress=progress)
    expected = [np.random.default_rng(seed).normal(size=3) for seed in range(14)]
    np.testing.assert_array_equal(found, expected)
    ran = draw.ran()
    assert {process for _, process in ran} == set(workers)
    assert len(ran) > 14  # what the worker had in hand ran twice


def test_a_task_that_ends_its_workers_is_an_error(own_cluster):
    own_cluster.add_worker(nanny=True)
    own_cluster.wait_for(1)
    with pytest.raises(RunError, match="ended every worker that took it, 2 in all, when 0 of 1"):
        in_parallel(die, [0], cluster=own_cluster.address)


def test_a_cluster_whose_workers_are_gone_is_an_error(own_cluster, monkeypatch):
    monkeypatch.setattr(parallel, "_WORKERS_WITHIN", 1.0)
    with pytest.raises(RunError, match="without workers for 1 seconds, when 0 of 3 tasks"):
        in_parallel(abs, range(3), cluster=own_cluster.address)


def test_workers_that_go_half_way_are_an_error(own_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "_WORKERS_WITHIN", 1.0)
    own_cluster.add_worker()
    own_cluster.wait_for(1)
    (worker,) = own_cluster.workers

    def progress(done, _):
        if done == 1:
            own_cluster.kill(worker)

    with pytest.raises(RunError, match=r"without workers for 1 seconds, when \d of 14 tasks"):
        in_parallel(Draw(tmp_path, 0.2), range(14), cluster=own_cluster.address, progress=progress)


def test_all_workers_take_part(own_cluster, tmp_path):
    own_cluster.add_worker()
    own_cluster.add_worker()
    own_cluster.wait_for(2)
    draw = Draw(tmp_path, 0.3)
    in_parallel(draw, range(4), cluster=own_cluster.address)
    assert sorted(Counter(process for _, process in draw.ran()).values()) == [2, 2]


def test_a_worker_without_the_package_is_named(own_cluster):
    own_cluster.add_worker(blind=True)
    own_cluster.wait_for(1)
    with pytest.raises(RunError, match=r"has no package 'stationary.*install there"):
        in_parallel(abs, range(3), cluster=own_cluster.address)


def test_another_version_on_the_workers_is_named(cluster, monkeypatch):
    monkeypatch.setattr(parallel, "__version__", "0.0.7")
    with pytest.raises(InputError, match=r"has stationary \d.*and this is 0\.0\.7"):
        in_parallel(abs, range(3), cluster=cluster.address)


def test_a_scheduler_that_dies_is_an_error(own_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "_ANSWERS_WITHIN", "2s")
    own_cluster.add_worker()
    own_cluster.wait_for(1)
    kill = threading.Timer(0.0, own_cluster.kill, [own_cluster.scheduler])

    def progress(done, _):
        if done == 3:
            kill.start()

    with pytest.raises(RunError, match=re.escape(own_cluster.address) + r" went away when \d+ of"):
        in_parallel(Draw(tmp_path), range(40), cluster=own_cluster.address, progress=progress)


def _assert_calm(cluster, draw):
    """Nothing waits on the cluster, and nothing starts any more."""
    with cluster.client() as client:
        wait_until(
            lambda: client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0,
            "the scheduler's rest",
        )
        wait_until(lambda: not any(client.processing().values()), "the workers' rest")
    ran = len(draw.ran())
    assert ran < 20
    time.sleep(0.5)
    assert len(draw.ran()) == ran
