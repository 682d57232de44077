"""Simulated logs for the tests of ingestion, and brute force to hold it against."""

import numpy as np
import pandas as pd

from stationary.ingest import RequestLog


def queue(rate, seconds, capacity, service=1.0, seed=0, start=0.0):
    """One server, first come, first served: arrivals and responses, NaN for the lost."""
    rng = np.random.default_rng(seed)
    count = rng.poisson(rate * seconds)
    arrival = start + np.sort(rng.uniform(0, seconds, count))
    response, departures = np.full(count, np.nan), []
    for i, (now, need) in enumerate(zip(arrival, rng.exponential(service, count), strict=True)):
        departures = [d for d in departures if d > now]
        if len(departures) < capacity:
            departures.append((departures[-1] if departures else now) + need)
            response[i] = departures[-1] - now
    return arrival, response


def frame(arrival, response, seed=0):
    """The log as a table, in no order, as files of several servers are."""
    table = pd.DataFrame({"arrival": arrival, "response": response})
    return table.sample(frac=1, random_state=seed)


def counted(arrival, response, window, capacity):
    """States that requests found in every whole window, by `RequestLog`, all in memory."""
    return [
        np.bincount(
            np.where(log.answered, np.minimum(log.in_system, capacity - 1), capacity),
            minlength=capacity + 1,
        )
        for log in RequestLog(arrival, response).cut(window)
    ]


def counts(table):
    """The counts of a table of windows."""
    return table.filter(like="Q=").to_numpy()
