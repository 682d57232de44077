"""The ladder of a report: the fit's own model beside others of the same servers and room."""

from __future__ import annotations

from stationary.ladder import ladder_of
from stationary.parallel import Progress
from stationary.result import Fit
from stationary.selection import Comparison, compare

_MOST_PARAMETERS = 40
"""Parameters above which refitting a model at every cut takes longer than a report should."""


def compared(fit: Fit, progress: Progress | None = None) -> Comparison | None:
    """Compare a fit with its ladder; None where there is no backtest to make, or it takes long."""
    several, large = len(fit.windows.inputs) != 1, len(fit.model.param_names) > _MOST_PARAMETERS
    if several or large or fit.hypothetical:
        return None
    return compare(ladder_of(fit), fit.windows, progress=progress)
