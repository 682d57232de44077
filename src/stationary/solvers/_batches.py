"""Hand a batch of torch tensors to a compiled kernel, in threads when the work is worth it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.generator import Generator

# Below this many multiply-adds a second thread costs more than it saves.
_WORTH_A_THREAD = 1_500_000


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="stationary")


def in_threads(
    kernel: Callable[..., None], shared: tuple[Any, ...], rows: tuple[Array, ...], work: int
) -> None:
    """Call ``kernel(*shared, *rows)``, the rows split over torch's number of threads.

    The kernels release the GIL, so plain threads do; numba's own thread pools were seen to fight
    with torch's.
    """
    batch = len(rows[0])
    workers = min(torch.get_num_threads(), batch) if work * batch > _WORTH_A_THREAD else 1
    if workers <= 1:
        kernel(*shared, *rows)
        return
    cuts = [batch * k // workers for k in range(workers + 1)]
    jobs = [
        _pool(torch.get_num_threads()).submit(kernel, *shared, *(r[a:b] for r in rows))
        for a, b in itertools.pairwise(cuts)
    ]
    for job in jobs:
        job.result()


def rows_of(tensor: Tensor) -> Array:
    """Flatten a batch ``[..., k]`` to a contiguous array ``[B, k]`` outside the graph."""
    # Sizes spelt out: -1 is ambiguous when a chain of one state has no edges.
    rows = tensor.detach().numpy().reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])
    return np.ascontiguousarray(rows)


def batch_of(rows: Array, batch_shape: Sequence[int]) -> Tensor:
    """Rows ``[B, k]`` as a tensor ``[..., k]``, in the same memory."""
    return torch.from_numpy(rows.reshape(*batch_shape, rows.shape[-1]))


def raise_lost_gradient(lost: Array) -> NoReturn:
    """Raise for the first chain ``[B]`` whose steady state is known, but not its derivatives."""
    which = f"chain {lost.argmax()} of the batch" if len(lost) > 1 else "the chain"
    raise SolverError(
        f"the steady state of {which} is known, but its derivatives are not: its rates are too far "
        f"apart for float64; leave out transitions that never happen, and "
        f"check the units of the loads"
    )


def in_range(gradient: Tensor, g: Tensor) -> Tensor:
    """Return a gradient that is finite wherever ``g = dL/dpi`` is, or raise."""
    lost = g.isfinite().all(-1) > gradient.isfinite().all(-1)
    if bool(lost.any()):
        raise_lost_gradient(lost.reshape(-1).cpu().numpy())
    return gradient


def raise_failure(generator: Generator, status: Array) -> NoReturn:
    """Raise for the first chain that failed: it has several closed classes, or overflowed."""
    index = generator.unravel(int(status.argmax()))
    generator.closed_class(index)
    which = f"chain {index} of the batch" if index else "the chain"
    raise SolverError(
        f"{which} has one closed class, but its rates are too far apart for float64: elimination "
        f"under- or overflowed; leave out transitions that never happen, and "
        f"check the units of the loads"
    )
