"""The models that are compared when none is named: those that suit the servers and the sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stationary.data import Latencies, Losses, ServiceTimes, States
from stationary.data.windows import Windows
from stationary.models import Model, RuleModel
from stationary.models.registry import build, can_rebuild, describe
from stationary.terms.candidates import pairs
from stationary.terms.categories import members

_LARGE = 300
"""Capacity from which batches and bursts, whose chains are dense or long, must be asked for."""

_FOLLOWED = 100  # capacity up to which response times under processor sharing are fitted
_LEAST, _MOST = 10, 200
"""Least capacity where no queue was seen, and the most that is tried where nobody knows it: with
more, limits stay the same, and times in overload grow on."""

_PER_LOAD, _FASTER = 8.0, 4.0
"""How many times the heaviest load, and the joint speed of all servers, may arrive during the
patience and still be counted one by one."""

_SMALLEST, _MOST_WAITING = 20, 2000  # least and largest capacity where patience decides
_DEEPEST = 30  # queue lengths with a rate of their own, at most: more are hardly ever determined


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
    general = {name: model for name, model in models.items() if model.encompassing} or {**models}
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
    """
    both = {"servers": servers, "capacity": capacity}
    service = {"name": "service", **both, "patience": patience}
    if patience is not None:  # which no other model knows
        chains = {"service": build({**service, "overhead": 1.0})}
        used = windows.informing(chains.values()).observations
        return chains if any(kind.rank > 1 for kind in used) else {"service": build(service)}
    # Under processor sharing only the mean of service matters; long queues are hard to follow.
    if servers == 1 and capacity <= _FOLLOWED and _shares(windows):
        shared = {"name": "mmmk", **both, "discipline": "ps"}
        known = build({**shared, "overhead": _OVERHEAD})
        used = windows.informing([known]).observations
        has_times = any(isinstance(kind, Latencies) for kind in used)
        return {"mmmk:discipline=ps": known if has_times else build(shared)}
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
    # Queue lengths above zero that were counted: rates that the data can determine.
    counted = 1 if windows.counted is None else max(windows.counted.data.shape[1] - 1, 1)
    depth = min(counted, capacity, _DEEPEST)
    described: list[Mapping[str, Any]] = [
        service if name == "service" else {"name": name, **both}
        for name in ("mmmk", "service", "slowing")
    ]
    if depth > servers:
        described.append({"name": "statedependent", "depth": depth, "capacity": capacity})
    if not windows.by_arrivals and capacity <= _LARGE:
        described += [{"name": name, **both} for name in ("batch", "onoff")]
    return {_short(each): build(each) for each in described}


def likely_capacities(
    windows: Windows, servers: Sequence[int] = (1,), patience: float | None = None
) -> tuple[int, ...]:
    """Return the capacities that may be, where the user gave none.

    One, if the windows name it. Else it may be the longest queue that was seen or any larger
    number: three of them span what that means for an answer. Where requests are given up, one that
    is so large that their patience decides how many there are.
    """
    largest, full = _largest_state(windows)
    if patience is not None:
        return (_patient_capacity(windows, servers, patience, largest),)
    if full and largest >= max(servers):
        return (largest,)
    least = max(largest or _LEAST, *servers)
    most = max(_MOST, 2 * least)
    between = round(math.sqrt(least * most))
    # Every number of servers is tried with every capacity, and large chains take long.
    few = len(servers) > 1 or least > _LARGE
    return (least, most) if few else (least, between, most)


def _patient_capacity(windows: Windows, servers: Sequence[int], patience: float, least: int) -> int:
    """Return a capacity so large that the patience decides how many requests there are."""
    fastest = _PER_LOAD * float(windows.loads.max())
    for kind in windows.observations:
        if not isinstance(kind, ServiceTimes):
            continue
        for m in set(servers) & set(kind.servers):
            number, seconds, _ = kind.of(m).sums.sum((0, 1)).tolist()
            fastest = max(_FASTER * m * number / seconds, fastest) if seconds > 0 else fastest
    return max(least, _SMALLEST, min(max(servers) + math.ceil(patience * fastest), _MOST_WAITING))


def _shares(windows: Windows) -> bool:
    """Whether requests overtake one another at one server, which serves several at a time."""
    times = windows.find(ServiceTimes)
    return times is not None and times.overtake(1)


def _largest_state(windows: Windows) -> tuple[int, bool]:
    """Return the most requests that there were, zero if unknown, and whether that is a full system.

    A state that nobody saw is named by someone who knows the capacity. In windows of a log that
    says what was lost, lost requests are counted in the full system. Requests that found the
    largest state and were not lost had room, too.
    """
    counted, losses = windows.counted, windows.find(Losses)
    if not isinstance(counted, States):
        return 0, False
    named = [
        (state, column)
        for column, each in enumerate(counted.observe)
        for state in members(each)
        if isinstance(state, int)
    ]
    largest, column = max(named, default=(0, 0))
    seen = counted.data[:, column]
    if not largest or not seen.any() or losses is None or not windows.by_arrivals:
        return largest, not seen.any()
    return (largest, True) if seen.equal(losses.data[:, 0]) else (largest + 1, False)


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
