"""Simulated logs of requests: what a queue would write down, one line a request."""

from __future__ import annotations

from typing import Any

import numpy as np

from stationary._support.seeds import as_random
from stationary.data.numbers import as_duration
from stationary.errors import InputError
from stationary.ingest.requests import RequestLog
from stationary.models import MMmK
from stationary.simulation._kernels import serve
from stationary.simulation.paths import as_inputs, check_moves
from stationary.simulation.simulate import MOST_MOVES


def simulate_requests(
    model: MMmK, x: Any, duration: float = 1.0, seed: int | np.random.Generator = 0
) -> RequestLog:
    """Simulate the requests of an M/M/m/K queue, first come, first served, from empty.

    Parameters
    ----------
    model : MMmK
        The queue, at its present parameters.
    x : array_like [M]
        Loads, one after the other.
    duration : float
        How long each lasts.
    seed : int or numpy.random.Generator
        The same seed gives the same requests.

    Examples
    --------
    >>> log = simulate_requests(MMmK(capacity=3, service_rate=10.0), x=[8.0, 12.0], duration=50.0)
    >>> len(log), int((~log.answered).sum()), log.in_system.max()
    (945, 243, np.int64(3))
    """
    if not isinstance(model, MMmK):
        raise InputError(
            f"requests are simulated for M/M/m/K queues; {type(model).__name__} is none"
        )
    duration, rng = as_duration(duration), as_random(seed)
    loads = as_inputs(model, x)[:, 0].numpy()
    check_moves(float(loads.sum()) * duration, MOST_MOVES, "requests")
    many = rng.poisson(loads * duration)
    begin = np.repeat(np.arange(len(loads)) * duration, many)
    arrival = np.sort(begin + rng.uniform(0.0, duration, many.sum()))
    service = rng.exponential(1.0 / model.theta.item(), len(arrival))
    return RequestLog(arrival, serve(arrival, service, model.servers, model.capacity))
