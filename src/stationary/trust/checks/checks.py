"""All checks of a fitted model and its data."""

from __future__ import annotations

from stationary.data.windows import Windows
from stationary.learning.estimate import Estimate
from stationary.terms.findings import Check, Finding, Verdict
from stationary.trust.checks._residuals import FEWEST, Residuals, has_counts
from stationary.trust.checks.bursts import bursts
from stationary.trust.checks.implied_rate import implied_rate
from stationary.trust.checks.lack_of_fit import lack_of_fit
from stationary.trust.checks.order import drift, hysteresis, serial_correlation
from stationary.trust.checks.short_windows import short_windows

_TESTS = (
    Check.DRIFT,
    Check.SERIAL_CORRELATION,
    Check.HYSTERESIS,
    Check.BURSTS,
    Check.SERVICE_RATE,
    Check.LACK_OF_FIT,
)


def diagnose(estimate: Estimate, windows: Windows) -> list[Finding]:
    """Check whether the data is what the method assumes, and whether the model fits it.

    Windows are taken in recorded order; pooled ones have none, so nothing can be said about them.
    Every test has a level of 0.01 and goes by the spread between windows, because counts inside a
    window are not independent.

    Parameters
    ----------
    estimate : Estimate
        A fitted model.
    windows : Windows
        What it was fitted to.

    Returns
    -------
    list of Finding
        One for each check, in this order: steady state, drift, serial correlation, hysteresis,
        bursts, service rate, lack of fit. `stationary.words.finding` puts them into words.
    """
    if windows.is_pooled:
        recorded = {"recorded": windows.recorded}
        return _unknown((Check.STEADY_STATE, *_TESTS), "pooled", recorded)
    if not bool(has_counts(windows).any()):
        return [short_windows(estimate, windows), *_unknown(_TESTS, "no_states", {})]
    residuals = Residuals.of(estimate, windows)
    steady = short_windows(estimate, windows, residuals)
    if len(residuals) < FEWEST:
        few = {"windows": len(residuals), "fewest": FEWEST}
        return [steady, *_unknown(_TESTS, "few_windows", few)]
    return [
        steady,
        drift(residuals),
        serial_correlation(residuals),
        hysteresis(residuals),
        bursts(estimate, windows, residuals),
        implied_rate(estimate, windows, residuals),
        lack_of_fit(residuals),
    ]


def _unknown(checks: tuple[Check, ...], code: str, facts: dict[str, int]) -> list[Finding]:
    return [Finding(check, Verdict.UNKNOWN, code, facts) for check in checks]
