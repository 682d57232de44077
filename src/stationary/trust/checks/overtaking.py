"""Check that requests leave a single server in the order in which they came."""

from __future__ import annotations

from stationary.data import ServiceTimes
from stationary.data.service_times import OVERTAKING
from stationary.terms.findings import Finding
from stationary.trust.checks._case import Case, passed, unknown, warning

NEEDS_COUNTS = False


def check(case: Case) -> Finding:
    """Look for service times that come out negative, because a later request left first."""
    times = case.windows.find(ServiceTimes)
    if times is None:
        return unknown("no_requests")
    if getattr(case.estimate.model, "servers", 0) != 1:
        return unknown("several_servers")
    if times.sharing <= OVERTAKING:
        return passed("in_order", share=times.sharing)
    return warning("overtake", share=times.sharing)
