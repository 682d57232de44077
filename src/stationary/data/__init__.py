"""Windows of counts: what they are, how to read them and how to simulate them."""

from stationary.data._base import TINY, Counts, Misplaced, Observation
from stationary.data.readers import read_windows
from stationary.data.states import Sampling, States, conditional_nll
from stationary.data.windows import Windows

__all__ = [
    "TINY",
    "Counts",
    "Misplaced",
    "Observation",
    "Sampling",
    "States",
    "Windows",
    "conditional_nll",
    "read_windows",
]
