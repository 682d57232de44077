"""What a planner asks after a fit: what if the system were changed, and where to test next."""

from stationary.planning.changes import Change, what_if
from stationary.planning.experiment import Experiment, next_experiment

__all__ = ["Change", "Experiment", "next_experiment", "what_if"]
