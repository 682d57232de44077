"""Simulated logs of requests, as a queue would write them, one line per request."""

from __future__ import annotations

from typing import Any

import numpy as np

from stationary._support.arguments import explained
from stationary._support.seeds import as_random
from stationary.data.numbers import as_duration
from stationary.errors import InputError
from stationary.ingest.requests import RequestLog
from stationary.models.queues.mmmk import MMmK
from stationary.simulation import _kernels
from stationary.simulation.trajectories import MOST_MOVES, as_inputs, check_size


@explained
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
            f"simulate_requests takes an M/M/m/K queue, MMmK(); got {type(model).__name__}"
        )
    if len(model.theta) > 1:
        raise InputError(
            f"simulate_requests knows one service rate and nothing else; got "
            f"{', '.join(model.param_names)}: take MMmK(servers={model.servers}, "
            f"capacity={model.capacity}, service_rate=...)"
        )
    duration, rng = as_duration(duration), as_random(seed)
    loads = as_inputs(model, x)[:, 0].numpy()
    check_size(float(loads.sum()) * duration, MOST_MOVES, "requests")
    requests = rng.poisson(loads * duration)
    begin = np.repeat(np.arange(len(loads)) * duration, requests)
    arrival = np.sort(begin + rng.uniform(0.0, duration, requests.sum()))
    service = rng.exponential(1.0 / model.theta.item(), len(arrival))
    return RequestLog(arrival, _kernels.serve(arrival, service, model.servers, model.capacity))
