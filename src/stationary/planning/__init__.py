"""What a planner asks after a fit: what if the system were changed, and where to test next."""

from stationary.planning.experiment import Experiment, next_experiment
from stationary.planning.what_if import Change, what_if

__all__ = ["Change", "Experiment", "next_experiment", "what_if"]
