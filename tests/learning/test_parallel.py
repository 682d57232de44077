"""Tasks side by side: the same results in the same order, wherever they ran."""

import os
import time

import pytest

from stationary._support import parallel
from stationary._support.parallel import in_parallel
from stationary.errors import InputError


def where(item):
    time.sleep(0.01)
    return item * item, os.getpid()


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


def test_a_cluster_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(parallel, "_ANSWERS_WITHIN", "1s")
    with pytest.raises(InputError, match="no Dask scheduler answers at tcp:"):
        in_parallel(where, range(3), cluster="tcp://127.0.0.1:1")
