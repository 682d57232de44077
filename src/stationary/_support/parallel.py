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

_LOOK = 0.05  # seconds between looks for results
_IN_HAND = 2  # tasks that a cluster holds for each of its threads: one that runs, and the next
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
        run = _Run(client, cluster, function, items)
        try:
            yield from run.results()
        finally:
            run.cancel()


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


class _Run:
    """Tasks on a cluster, of which it holds only few at a time.

    Dask blames every task that a worker holds for its end, and gives up on one that was blamed too
    often: those that only wait must not be there. Its own queue is no help: it is for tasks that
    need nothing, and these need the function.
    """

    def __init__(
        self, client: Any, address: str, function: Callable[[Any], Any], items: Sequence[Any]
    ) -> None:
        from cloudpickle import dumps  # functions that are defined on the spot, too
        from dask.distributed import as_completed

        self.client, self.address, self.items, self.dumps = client, address, items, dumps
        self.mark = f"stationary-{uuid.uuid4().hex[:8]}"
        self.ready = as_completed((), client.loop, with_results=True, raise_errors=False)
        self.sent = self.done = self.workers = self.threads = 0
        self.alive, self.looked = time.monotonic(), -math.inf
        self._look()
        # Tasks, and not data that is lost with the worker that holds it; one per worker, because
        # Dask brings tasks to where what they need is.
        data = dumps(_Remote(function, __version__))
        self.opened = [
            client.submit(pickle.loads, data, key=f"{self.mark}-open-{k}")
            for k in range(max(1, min(self.workers, len(items))))
        ]

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield results as they arrive; an error where they will not."""
        while self.done < len(self.items):
            self._look()
            self._send()
            batch = self.ready.next_batch(block=False)
            # Not by their status: a worker may have gone since, and what it sent is here.
            answers = [pair for pair in batch if isinstance(pair[1], _Answer)]
            for future, answer in answers:
                future.release()  # or it would be made again if its worker went now
                self.done += 1
                yield answer
            if failed := [future for future, result in batch if not isinstance(result, _Answer)]:
                raise _failure(failed[0], self.address, self._so_far)
            if not batch:
                time.sleep(_LOOK)

    def cancel(self) -> None:
        """Take off the cluster what is still on it."""
        self.client.cancel([*self.opened, *self.ready.futures], force=True)

    def _send(self) -> None:
        while self.sent < min(len(self.items), self.done + _IN_HAND * max(self.threads, 1)):
            place = self.sent
            opened = self.opened[place % len(self.opened)]
            item, key = self.dumps(self.items[place]), f"{self.mark}-{place}"
            self.ready.add(self.client.submit(operator.call, opened, place, item, key=key))
            self.sent += 1

    def _look(self) -> None:
        """Count the workers, once a second."""
        now = time.monotonic()
        if now - self.looked < 1.0:
            return
        self.looked = now
        try:
            threads = self.client.nthreads()
        except OSError:  # the scheduler is gone, and its tasks will say so
            return
        self.workers, self.threads = len(threads), sum(threads.values())
        if threads:
            self.alive = now
        elif now - self.alive > _WORKERS_WITHIN:
            raise RunError(
                f"the cluster at {self.address} has been without workers for {_WORKERS_WITHIN:g} "
                f"seconds, when {self._so_far}: start some with 'dask worker {self.address}', and "
                f"look into the logs of those that ended"
            )

    @property
    def _so_far(self) -> str:
        return f"{self.done} of {len(self.items)} tasks were done"


def _failure(future: Any, address: str, done: str) -> Exception:
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
    return error if isinstance(error, Exception) else RunError(f"a task failed: {error!r}")
