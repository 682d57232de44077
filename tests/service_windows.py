"""Windows with service times of a known server, for several tests."""

import numpy as np

import stationary as st
from stationary.data import Cell, ServiceTimes

OVERHEAD, MEAN, VARIABILITY = 0.02, 0.1, 0.5


def windows(rows=24, requests=400, seed=0, speed_spread=0.0):
    """Gamma distributed services of one server; half of the requests found it idle."""
    random = np.random.default_rng(seed)
    cells = [Cell(1, True, 1), Cell(1, False, 1), Cell(1, False, 2)]
    data = np.zeros((rows, 3, 3))
    for row in range(rows):
        mean = MEAN * np.exp(speed_spread * random.standard_normal())
        for k, (cell, share) in enumerate(zip(cells, (0.5, 0.3, 0.2), strict=True)):
            count = int(share * requests)
            times = random.gamma(1 / VARIABILITY, VARIABILITY * mean, count)
            times = times + OVERHEAD * cell.idle
            data[row, k] = count, times.sum(), (times**2).sum()
    kind = ServiceTimes(data.reshape(rows, -1), cells, shortest=0.03)
    loads = np.linspace(1.0, 5.0, rows)
    counts = np.stack([np.full(rows, requests - 100), np.full(rows, 100)], -1)
    return st.Windows(x=loads, counts=counts, observe=[0, 1], observations=[kind])
