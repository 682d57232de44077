"""Windows: what was observed at each load, and how it is read from files."""

from stationary.data._base import TINY, Counts, Misplaced, Observation
from stationary.data.readers import read_windows
from stationary.data.states import ObservationMap, Sampling, States, conditional_nll
from stationary.data.windows import Windows

__all__ = [
    "TINY",
    "Counts",
    "Misplaced",
    "Observation",
    "ObservationMap",
    "Sampling",
    "States",
    "Windows",
    "conditional_nll",
    "read_windows",
]
