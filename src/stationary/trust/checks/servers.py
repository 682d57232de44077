"""Check that no other number of servers explains the counts of queue lengths clearly better.

Service times can be worked out for any number of servers, with a different speed for each. The
counts of how many others a request finds do not depend on the number of servers, and tell them
apart: see `stationary.trust.evidence`.
"""

from __future__ import annotations

from stationary.data import ServiceTimes, States
from stationary.errors import StationaryError
from stationary.learning.estimate import Estimate
from stationary.learning.fitting import estimate
from stationary.models.queues import Service
from stationary.terms.findings import Finding
from stationary.trust.checks._case import Case, passed, unknown, warning
from stationary.trust.evidence import log_evidence

_CLEARLY, _PER_COUNT = 10.0, 5e-4
"""Nats by which another number must explain the counts better, and more of them for each count: no
model is quite right, which many counts show. Right numbers were missed by less."""

_NEAR = 2.0  # other numbers are tried up to this factor away, and one server


def check(case: Case) -> Finding:
    """Compare the number of servers with others that the requests allow."""
    model, windows = case.estimate.model, case.windows
    times = next((kind for kind in windows.observations if isinstance(kind, ServiceTimes)), None)
    if times is None or not isinstance(model, Service) or not isinstance(windows.counted, States):
        return unknown("no_requests")
    others = [
        m
        for m in times.servers
        if m != model.servers
        and m <= model.capacity
        and times.explained_by(model.changed(servers=m))
        and (m == 1 or 1 / _NEAR <= m / model.servers <= _NEAR)
    ]
    if not others:
        return unknown("no_requests")
    fitted: dict[str, Estimate] = {str(model.servers): case.estimate}
    for m in others:
        try:
            fitted[str(m)] = estimate(model.changed(servers=m), windows)[0]
        except StationaryError:  # such as service times that are negative for so few servers
            continue
    evidence = log_evidence(fitted, windows)
    best = max(evidence, key=lambda name: evidence[name])
    enough = _CLEARLY + _PER_COUNT * float(windows.counted.data.sum())
    if evidence[best] - evidence[str(model.servers)] > enough:
        # On recordings of real servers this was right five times of six: a warning, no verdict.
        return warning("other_servers", servers=model.servers, better=int(best))
    return passed("servers_fit", servers=model.servers)
