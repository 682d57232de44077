"""What a client's log counts: requests in the queue, and those on the way there and back.

A client logs a request when it leaves and when the answer arrives. The request was in the queue for
only a part of that time. The rest is its *overhead* o. So an arriving request finds what is in the
queue and, of those on the way, a Poisson number with the mean ``load * o``.
"""

from __future__ import annotations

import torch

from stationary.data import ServiceTimes, States
from stationary.data.windows import Windows
from stationary.models import Point
from stationary.models.queues import ServerQueue


def as_logged(point: Point, windows: Windows) -> Point:
    """Return a point whose states are those that the log counted, if the windows are of a log."""
    model, overhead = point.model, vars(point.p).get("overhead")
    of_requests = windows.find(ServiceTimes) is not None and windows.by_arrivals
    counted = isinstance(windows.counted, States)
    if overhead is None or not of_requests or not counted or not isinstance(model, ServerQueue):
        return point
    if len(model.states) != model.capacity + 1:  # phases
        return point
    mean = point.load * overhead
    # A request that finds the system full is logged as lost, whatever is on the way.
    inside, full = point.pi[..., :-1], point.pi[..., -1:]
    most = float(mean.max())
    found, share = inside.new_zeros(inside.shape), (-mean).exp()
    for k in range(min(inside.shape[-1], int(most + 10 * most**0.5) + 20)):
        found[..., k:] += share * inside[..., : inside.shape[-1] - k]
        share = share * mean / (k + 1)
    # A log counts more than fit into the system as nearly full.
    found[..., -1:] += (1 - full - found.sum(-1, keepdim=True)).clamp_min(0.0)
    return point.with_pi(torch.cat([found, full], -1))
