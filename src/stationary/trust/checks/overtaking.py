"""Check that requests leave in an order that servers who take them as they come allow."""

from __future__ import annotations

from stationary.data import ServiceTimes
from stationary.terms.findings import Finding
from stationary.trust.checks._case import Case, passed, unknown, warning

NEEDS_COUNTS = False


def check(case: Case) -> Finding:
    """Look for service times that come out negative, because a later request left first."""
    times = case.windows.find(ServiceTimes)
    servers = getattr(case.estimate.model, "servers", 0)
    if times is None or servers not in times.servers:
        return unknown("no_requests")
    share = times.sharing.get(servers, 0.0)
    if not times.overtake(servers):
        return passed("in_order", share=share)
    code = "overtake" if servers == 1 else "overtake_several"
    return warning(code, share=share, servers=servers)
