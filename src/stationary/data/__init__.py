"""Windows of counts: what they are, how to read them and how to simulate them."""

from stationary.data._base import TINY, Counts, Misplaced, Observation
from stationary.data.logs import LogWindows, windows_from_logs
from stationary.data.readers import read_windows
from stationary.data.requests import Calibration, RequestLog, calibrate
from stationary.data.states import Sampling, States, conditional_nll
from stationary.data.windows import Windows

__all__ = [
    "TINY",
    "Calibration",
    "Counts",
    "LogWindows",
    "Misplaced",
    "Observation",
    "RequestLog",
    "Sampling",
    "States",
    "Windows",
    "calibrate",
    "conditional_nll",
    "read_windows",
    "windows_from_logs",
]
