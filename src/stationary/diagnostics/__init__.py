"""Is the data what the method assumes? Each check is a test with a sentence for people."""

from stationary.diagnostics._residuals import Residuals, residuals
from stationary.diagnostics.checks import diagnose
from stationary.diagnostics.lack_of_fit import load_range, shares_by_load

__all__ = ["Residuals", "diagnose", "load_range", "residuals", "shares_by_load"]
