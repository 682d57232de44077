"""What a planner asks after a fit: what if the system were changed, and where to test next."""

from stationary.planning.changes import changeable, changed, what_if, what_if_note
from stationary.planning.experiment import Experiment, next_experiment

__all__ = [
    "Experiment",
    "changeable",
    "changed",
    "next_experiment",
    "what_if",
    "what_if_note",
]
