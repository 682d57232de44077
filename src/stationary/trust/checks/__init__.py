"""Is the data what the method assumes? Each check is a test that gives a finding."""

from stationary.trust.checks._residuals import Residuals, residuals
from stationary.trust.checks.checks import diagnose
from stationary.trust.checks.lack_of_fit import shares_by_load

__all__ = ["Residuals", "diagnose", "residuals", "shares_by_load"]
