"""The models that are compared when none is named: those that suit the servers and the sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stationary.data import Latencies, ServiceTimes, States
from stationary.data.windows import Windows
from stationary.models import Model, RuleModel
from stationary.models.registry import build, can_rebuild, describe
from stationary.terms.candidates import pairs
from stationary.terms.categories import members

_LARGE = 300
"""Capacity from which batches and bursts, whose chains are dense or long, must be asked for."""

_CAPACITY = 20
"""Most requests in the system, where neither the user nor the windows say."""

_PER_LOAD, _FASTER = 8.0, 4.0
"""How many times the heaviest load, and the joint speed of all servers, may arrive during the
patience and still be counted one by one."""

_MOST_WAITING = 2000

_DEEPEST = 30
"""Queue lengths with a rate of their own, at most: more are hardly ever determined."""


_OVERHEAD = 0.01
"""Time outside the queue from which a fit to latencies starts, as a share of a service."""


def candidates(
    windows: Windows,
    servers: Sequence[int],
    capacities: Sequence[int],
    patience: float | None = None,
) -> dict[str, Model]:
    """Models to compare where the servers or the capacity are not known for sure.

    The general model for every pair of them; the others for the first pair alone.
    """
    sizes = pairs(servers, capacities)
    models = ladder(windows, *sizes[0], patience)
    if len(sizes) == 1:
        return models
    general = {name: model for name, model in models.items() if model.encompassing}
    for name, model in general.items():
        del models[name]
        for m, size in sizes:
            key = f"{name}:servers={m},capacity={size}"
            models[key] = model.changed(servers=m, capacity=size)
    return models


def ladder(
    windows: Windows, servers: int = 1, capacity: int = 20, patience: float | None = None
) -> dict[str, Model]:
    """Models to compare, by name and the options in which they differ, simplest first.

    Models in which requests are lost without a trace (``balking``, ``resetting``, ``leaking``) are
    left out: data at light load can hardly exclude them, so that any loss would seem possible. Name
    them where the system is known to do that. Models whose arriving requests do not see the
    time-average state are left out where arriving requests did the sampling.

    Parameters
    ----------
    windows : Windows
        The data: what was observed, and how it was sampled.
    servers, capacity : int
        Of the system.
    patience : float, optional
        Longest time that a request waits before it is given up.
    """
    both = {"servers": servers, "capacity": capacity}
    service = {"name": "service", **both, "patience": patience}
    if patience is not None:  # which no other model knows
        chains = {"service": build({**service, "overhead": 1.0})}
        used = windows.informing(chains.values()).observations
        return chains if any(kind.rank > 1 for kind in used) else {"service": build(service)}
    # Where times were observed, other models add nothing to one of any service.
    timed = {
        "service": build({**service, "overhead": 1.0}),
        "mmmk": build({"name": "mmmk", **both}),
    }
    used = windows.informing(timed.values()).observations
    if any(isinstance(kind, Latencies) for kind in used):
        timed["mmmk"] = build({"name": "mmmk", **both, "overhead": _OVERHEAD})
    if any(kind.rank > 1 for kind in used):
        return timed
    depth = min(_observed(windows), capacity, _DEEPEST)
    described: list[Mapping[str, Any]] = [
        service if name == "service" else {"name": name, **both}
        for name in ("mmmk", "service", "slowing")
    ]
    if depth > servers:
        described.append({"name": "statedependent", "depth": depth, "capacity": capacity})
    if not windows.by_arrivals and capacity <= _LARGE:
        described += [{"name": name, **both} for name in ("batch", "onoff")]
    return {_short(each): build(each) for each in described}


def default_capacity(
    windows: Windows, servers: Sequence[int] = (1,), patience: float | None = None
) -> int:
    """Return a capacity that holds every state that the windows name, and 20 at least.

    Where requests are given up, it is so large that their patience decides how many there are.
    """
    least = max(_CAPACITY, largest_state(windows))
    if patience is None:
        return least
    fastest = _PER_LOAD * float(windows.loads.max())
    for kind in windows.observations:
        if not isinstance(kind, ServiceTimes):
            continue
        for m in set(servers) & set(kind.servers):
            number, seconds, _ = kind.of(m).sums.sum((0, 1)).tolist()
            fastest = max(_FASTER * m * number / seconds, fastest) if seconds > 0 else fastest
    return max(least, min(max(servers) + math.ceil(patience * fastest), _MOST_WAITING))


def largest_state(windows: Windows) -> int:
    """Return the largest number of requests that the windows name; zero where they name none."""
    counted = windows.counted
    categories = counted.observe if isinstance(counted, States) else ()
    named = (state for each in categories for state in members(each) if isinstance(state, int))
    return max(named, default=0)


def ladder_of(model: Model, windows: Windows) -> dict[str, Model]:
    """Models to compare a model with: its own first, then those of the same servers and capacity.

    A model without a capacity, such as a user's own, has no others to be compared with.
    """
    # Built again where possible: a fit starts at the parameters of the model, and a rate that was
    # estimated at zero is a bad start.
    own = build(describe(model)) if can_rebuild(model) else model
    models = {own.name or type(own).__name__: own}
    options = own.options
    # A model made of rules may call anything its capacity.
    if "capacity" in options and not isinstance(own, RuleModel):
        others = ladder(windows, options.get("servers", 1), options["capacity"])
        models |= {
            name: other
            for name, other in others.items()
            if (other.name, other.options) != (own.name, own.options)
        }
    return models


def _short(described: Mapping[str, Any]) -> str:
    """Name a model as the command line does, without the options that all have in common."""
    common = ("name", "servers", "capacity", "patience")
    options = ",".join(f"{key}={value}" for key, value in described.items() if key not in common)
    return f"{described['name']}:{options}" if options else str(described["name"])


def _observed(windows: Windows) -> int:
    """Number of queue lengths above zero that were counted: rates that the data can determine."""
    counted = windows.counted
    return 1 if counted is None else max(counted.data.shape[1] - 1, 1)
