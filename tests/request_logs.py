"""Simulated logs for the tests of ingestion, and brute force to hold it against."""

import numpy as np
import pandas as pd

import stationary as st
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
    """Load and counts of every whole window by `RequestLog`, which holds all in memory."""
    made = st.ingest.windows_from_logs(RequestLog(arrival, response).cut(window), window, capacity)
    return made.table[made.table["sent"] > 0], made.calibration.propagation


def counts(table):
    """The counts of a table of windows."""
    return table.filter(like="Q=").to_numpy()
