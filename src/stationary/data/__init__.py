"""Windows of counts: what they are, how to read them and how to simulate them."""

from stationary.data.paths import Trajectory, trajectory
from stationary.data.readers import read_windows
from stationary.data.simulate import Arrivals, Events, PoissonCounts, simulate
from stationary.data.windows import Sampling, Windows

__all__ = [
    "Arrivals",
    "Events",
    "PoissonCounts",
    "Sampling",
    "Trajectory",
    "Windows",
    "read_windows",
    "simulate",
    "trajectory",
]
