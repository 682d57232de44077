"""Models written as rules: ``GUARD -> CHANGES [else lost] at RATE``."""

from stationary.models.rules.files import read_model
from stationary.models.rules.formulas import evaluate, on_arrays
from stationary.models.rules.language import parse
from stationary.models.rules.model import RuleModel

__all__ = ["RuleModel", "evaluate", "on_arrays", "parse", "read_model"]
