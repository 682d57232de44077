"""Many like tasks: in this process, on its cores, or on a Dask cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib

from stationary.errors import InputError
from stationary.threads import one_thread

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, str], None]
"""Called as ``progress(done, text)``."""

_ANSWERS_WITHIN = "10s"
"""How long a scheduler may take to answer."""

_WORTH_IT = 6.0
"""Seconds of work from which processes pay: each takes some to load torch."""


@contextmanager
def workers(jobs: int, cluster: str | None) -> Iterator[joblib.Parallel]:
    """Processes on this machine, or a Dask cluster; results come as they are ready."""
    if cluster is None:
        yield joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
        return
    try:
        from dask.distributed import Client
    except ImportError:
        raise InputError(
            "a cluster needs Dask: pip install 'stationary[cluster]' here and on its workers"
        ) from None
    try:
        client = Client(cluster, timeout=_ANSWERS_WITHIN)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask scheduler answers at {cluster}: {error}") from None
    with client, joblib.parallel_config("dask"):
        yield joblib.Parallel(return_as="generator_unordered")


def in_parallel(
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> list[R]:
    """Return the function of every item, in their order.

    Work that is done before processes would have started stays in this one.

    Parameters
    ----------
    function : callable
        Of one item.
    items : sequence
        What to apply it to.
    jobs : int
        Processes on this machine; -1 for one a core.
    cluster : str, optional
        Address of a Dask scheduler.
    progress : callable, optional
        See `Progress`.
    """
    if jobs == 0:
        raise InputError("jobs must be a number of processes, or -1 for one a core; got 0")
    results: dict[int, R] = {}

    def keep(place: int, result: R) -> None:
        results[place] = result
        if progress is not None:
            progress(len(results), "")

    began = time.monotonic()
    with one_thread():
        for place, item in enumerate(items):
            spent = time.monotonic() - began
            worth = place > 0 and spent / place * (len(items) - place) > _WORTH_IT
            if cluster is not None or (worth and jobs != 1):
                break
            keep(place, function(item))
    left = range(len(results), len(items))
    if left:
        with workers(jobs, cluster) as parallel:
            tasks = (joblib.delayed(_placed)(function, k, items[k]) for k in left)
            for place, result in parallel(tasks):
                keep(place, result)
    return [results[k] for k in range(len(items))]


def _placed(function: Callable[[Any], R], place: int, item: Any) -> tuple[int, R]:
    with one_thread():
        return place, function(item)
