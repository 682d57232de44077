"""All checks of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stationary.diagnostics._residuals import FEWEST, Residuals
from stationary.diagnostics.bursts import bursts
from stationary.diagnostics.implied_rate import implied_rate
from stationary.diagnostics.lack_of_fit import lack_of_fit
from stationary.diagnostics.order import drift, hysteresis, serial_correlation
from stationary.diagnostics.short_windows import short_windows
from stationary.findings import Finding, Verdict

if TYPE_CHECKING:
    from stationary.result import Fit

_TESTS = ("drift", "serial correlation", "hysteresis", "bursts", "service rate", "lack of fit")


def diagnose(fit: Fit) -> list[Finding]:
    """Check whether the data is what the method assumes, and whether the model fits it.

    Windows are taken in recorded order; of pooled ones, which have none, nothing can be said. Every
    test has a level of 0.01, and goes by the spread between windows: counts inside one are not
    independent.

    Parameters
    ----------
    fit : Fit
        A fit; its own windows are checked.

    Returns
    -------
    list of Finding
        One for each check, in this order: ``steady state``, ``drift``, ``serial correlation``,
        ``hysteresis``, ``bursts``, ``service rate``, ``lack of fit``.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[11, 11, 13, 15, 15, 13] * 10, duration=20.0, seed=0)
    >>> found = diagnose(st.fit(st.models.MMmK(servers=1, capacity=20), windows))
    >>> [str(finding.verdict) for finding in found]
    ['ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok']
    """
    if fit.windows.moments is not None:
        gone = (
            f"This check needs the single windows in their order, and {fit.windows.recorded} were "
            f"pooled as they were read: read a part of them without pooling to check."
        )
        return [Finding(name, Verdict.UNKNOWN, gone) for name in ("steady state", *_TESTS)]
    residuals = Residuals.of(fit)
    steady = short_windows(fit, residuals)
    if len(residuals) < FEWEST:
        few = f"{len(residuals)} windows are too few for this check: record {FEWEST} or more."
        return [steady, *(Finding(name, Verdict.UNKNOWN, few) for name in _TESTS)]
    return [
        steady,
        drift(residuals),
        serial_correlation(residuals),
        hysteresis(residuals),
        bursts(fit, residuals),
        implied_rate(fit, residuals),
        lack_of_fit(residuals),
    ]
