"""Is the data what the method assumes? Every file here is one check, which gives a finding.

To add a check, write a file with a function ``check`` that takes a `Case` and returns a
`Finding` (see ``drift.py``), and its sentences in ``stationary/words/findings.py``. The name of the
file is the name of the check: ``lack_of_fit.py`` is ``lack of fit``.
"""

from stationary.trust.checks._case import diagnose
from stationary.trust.checks._residuals import Residuals, residuals
from stationary.trust.checks.lack_of_fit import shares_by_load

__all__ = ["Residuals", "diagnose", "residuals", "shares_by_load"]
