"""Windows of counts: what they are, how to read them and how to simulate them."""

from stationary.data._base import Counts, Observation
from stationary.data.logs import LogWindows, windows_from_logs
from stationary.data.paths import Trajectory, trajectory
from stationary.data.readers import read_windows
from stationary.data.requests import Calibration, RequestLog, calibrate
from stationary.data.simulate import Arrivals, Events, PoissonCounts, simulate
from stationary.data.states import Sampling, States, conditional_nll
from stationary.data.windows import Windows

__all__ = [
    "Arrivals",
    "Calibration",
    "Counts",
    "Events",
    "LogWindows",
    "Observation",
    "PoissonCounts",
    "RequestLog",
    "Sampling",
    "States",
    "Trajectory",
    "Windows",
    "calibrate",
    "conditional_nll",
    "read_windows",
    "simulate",
    "trajectory",
    "windows_from_logs",
]
