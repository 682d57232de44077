"""Tasks side by side: the same results in the same order, wherever they ran."""

import os
import sys
import time
import warnings

import numpy as np
import pytest

from stationary._support import parallel
from stationary._support.parallel import as_ready, in_parallel
from stationary.errors import InputError


def where(item):
    time.sleep(0.01)
    return item * item, os.getpid()


def hold_more(item):
    """Hold 400 MB more than after the first task, for longer than joblib's checks are apart."""
    time.sleep(1.1)
    sys.held = np.ones(item * 50_000_000)
    return item


def test_quick_work_stays_here():
    found = in_parallel(where, range(5))
    assert found == [(k * k, os.getpid()) for k in range(5)]


def test_long_work_goes_to_other_processes_and_keeps_its_order(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_IT", 0.0)
    seen = []
    found = in_parallel(where, range(8), jobs=2, progress=lambda done, _: seen.append(done))
    assert [square for square, _ in found] == [k * k for k in range(8)]
    assert {process for _, process in found} - {os.getpid()}
    assert seen == list(range(1, 9))


def test_time_spent_waiting_is_not_worth_processes(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_IT", 0.1)
    found = in_parallel(lambda k: time.sleep(0.05) or where(k), range(8), jobs=2)
    assert {process for _, process in found} == {os.getpid()}


def test_tasks_may_need_more_memory_than_the_first_one():
    tasks = [0, 0, 1, 1, 1, 1]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert sorted(as_ready(hold_more, tasks, jobs=2)) == list(enumerate(tasks))
    assert not said  # joblib warns of workers that leak memory


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(parallel, "_ANSWERS_WITHIN", "1s")
    with pytest.raises(InputError, match="no Dask scheduler answers at tcp:"):
        in_parallel(where, range(3), cluster="tcp://127.0.0.1:1")
