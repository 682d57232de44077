"""Windows of counts: what they are, how to read them and how to simulate them."""

from stationary.data.logs import LogWindows, windows_from_logs
from stationary.data.paths import Trajectory, trajectory
from stationary.data.readers import read_windows
from stationary.data.requests import Calibration, RequestLog, calibrate
from stationary.data.simulate import Arrivals, Events, PoissonCounts, simulate
from stationary.data.windows import Sampling, Windows

__all__ = [
    "Arrivals",
    "Calibration",
    "Events",
    "LogWindows",
    "PoissonCounts",
    "RequestLog",
    "Sampling",
    "Trajectory",
    "Windows",
    "calibrate",
    "read_windows",
    "simulate",
    "trajectory",
    "windows_from_logs",
]
