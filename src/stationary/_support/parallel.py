"""Many like tasks: in this process, on its cores, or on a Dask cluster.

Where a task runs does not change its result: what is random about it has its seed in the item. So
a task that was lost with a worker is simply run again on another.

A cluster is sent bytes, and functions of Python's own that open and call them. So the scheduler
need not have this package, and a worker without it can say so.
"""

from __future__ import annotations

import math
import operator
import pickle
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import joblib
from joblib.externals.loky import process_executor

from stationary._support.threads import one_thread
from stationary._version import __version__
from stationary.errors import InputError, RunError

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, str], None]
"""Called as ``progress(done, text)``."""

_ANSWERS_WITHIN = "10s"  # how long a scheduler may take to answer

_WORKERS_WITHIN = 60.0
"""Seconds that a cluster may be without workers, as one that is being started is."""

_WORTH_IT = 6.0  # seconds that processes must save: each takes some to load torch


def in_parallel(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> list[R]:
    """Return the function of every item, in their order.

    Work that is done before processes would have started stays in this one. There are ``jobs``
    processes, one per core where that is -1, or else the tasks run on the Dask cluster whose
    scheduler is at ``cluster``.
    """
    _check(jobs, cluster, progress)
    results: dict[int, R] = {}

    def keep(place: int, result: R) -> None:
        results[place] = result
        if progress is not None:
            progress(len(results), "")

    began = time.process_time()  # where others keep the cores busy, more processes do not help
    with one_thread():
        for place, item in enumerate(items):
            spent, ahead = time.process_time() - began, len(items) - place
            idle = 1 - 1 / min(joblib.effective_n_jobs(jobs), ahead)
            worth = place > 0 and spent / place * ahead * idle >= _WORTH_IT
            if cluster is not None or (worth and jobs != 1):
                break
            keep(place, function(item))
    first = len(results)
    left = [items[k] for k in range(first, len(items))]
    with closing(as_ready(function, left, jobs=jobs, cluster=cluster)) as ready:
        for place, result in ready:
            keep(first + place, result)
    return [results[k] for k in range(len(items))]


def _check(jobs: object, cluster: object, progress: object) -> None:
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs == 0:
        raise InputError(f"jobs is a number of processes, or -1 for one per core; got {jobs!r}")
    if not isinstance(cluster, str | None):
        raise InputError(f"cluster must be the address of a Dask scheduler; got {cluster!r}")
    if not (progress is None or callable(progress)):
        raise InputError(
            f"progress must be a function of how many tasks are done and a text; got {progress!r}"
        )


def as_ready(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    jobs: int = -1,
    cluster: str | None = None,
) -> Generator[tuple[int, R], None, None]:
    """Yield the place and the function of every item, in the order in which they are ready.

    On a cluster, tasks that were lost with a worker run again; what was not yielded when the caller
    closes this, or is interrupted, is taken off it.
    """
    if not items:
        return
    if cluster is None:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
        tasks = (joblib.delayed(_in_process)(function, *task) for task in enumerate(items))
        yield from parallel(tasks)
        return
    with _connected(cluster) as client:
        yield from _on_cluster(client, cluster, function, items)


def _in_process(function: Callable[[Any], Any], place: int, item: Any) -> tuple[int, Any]:
    """Run a task in a process of joblib's.

    It takes a process for one that leaks, ends it and warns, once it holds 300 MB more than after
    its first task. First tasks here are small models, and later ones large chains.
    """
    process_executor._MAX_MEMORY_LEAK_SIZE = math.inf
    with one_thread():
        return place, function(item)


class _Answer(NamedTuple):
    """What a task came to, told from what Dask says about one that failed."""

    place: int
    value: Any


@dataclass(frozen=True)
class _Remote:
    """A function of an item in a worker of a cluster."""

    function: Callable[[Any], Any]
    version: str

    def __call__(self, place: int, item: bytes) -> _Answer:
        if self.version != __version__:
            raise InputError(
                f"a worker of the cluster has stationary {__version__}, and this is "
                f"{self.version}: install the same on all of them"
            )
        with one_thread():
            return _Answer(place, self.function(pickle.loads(item)))  # noqa: S301  # we wrote it


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield a client of the scheduler at an address."""
    try:
        import dask
        from dask.distributed import Client
    except ImportError:
        raise InputError(
            "a cluster needs Dask: pip install 'stationary[cluster]' here and on its workers"
        ) from None
    try:
        client = Client(address, timeout=_ANSWERS_WITHIN, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}, as one would at tcp://10.0.0.1:8786: {error}"
        ) from None
    # Data goes with the tasks on purpose: the scheduler outlives workers.
    with client, dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        yield client


def _on_cluster(
    client: Any, address: str, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """Yield results as they arrive; an error where they will not."""
    from cloudpickle import dumps  # functions that are defined on the spot, too
    from dask.distributed import as_completed

    try:
        client.wait_for_workers(1, timeout=_WORKERS_WITHIN)
    except TimeoutError:
        raise RunError(
            f"the cluster at {address} has been without workers for {_WORKERS_WITHIN:g} seconds: "
            f"start some with 'dask worker {address}', and look into the logs of those that ended"
        ) from None
    mark, count = f"stationary-{uuid.uuid4().hex[:8]}", len(items)
    # Tasks, and not data, which would be lost with the worker that holds it.
    opened = client.submit(pickle.loads, dumps(_Remote(function, __version__)), key=f"{mark}-open")
    data = [dumps(item) for item in items]
    keys = [f"{mark}-{k}" for k in range(count)]
    futures = client.map(operator.call, [opened] * count, range(count), data, key=keys)
    try:
        ready = as_completed(futures, client.loop, with_results=True, raise_errors=False)
        for done, (future, answer) in enumerate(ready):
            if not isinstance(answer, _Answer):
                raise _failure(future, address, f"{done} of {count} tasks were done")
            future.release()  # or it would be made again if its worker went now
            yield answer
    finally:
        client.cancel([opened, *futures], force=True)


def _failure(future: Any, address: str, done: str) -> BaseException:
    """Return what to raise for a task that did not finish."""
    from dask.distributed import KilledWorker

    if future.status != "error":
        return RunError(
            f"the Dask scheduler at {address} went away when {done}: start it again, then this"
        )
    error = future.exception()
    if isinstance(error, KilledWorker):
        return RunError(
            f"a task ended every worker that took it, {error.allowed_failures + 1} in all, when "
            f"{done}: see the logs of the workers; most often it needs more memory than they have"
        )
    if isinstance(error, ModuleNotFoundError):
        return RunError(
            f"a worker of the cluster at {address} has no package {(error.name or '?')!r}: "
            f"install there what is installed here, stationary {__version__} among it"
        )
    return error
