"""What an answer takes as given, and how far it would move with other values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from stationary.data.windows import Windows
from stationary.errors import StationaryError
from stationary.learning.draws import Draws, Part
from stationary.learning.fitting import estimate
from stationary.learning.slowing import service_times
from stationary.models import Model
from stationary.models.queues import ServerQueue, Service
from stationary.planning.limits import Limit, limit
from stationary.terms.slo import Slo

_ASIDE = 0.18  # share by which a capacity or a patience may be off: three of 17 requests
_UNLIKELY = 1e-3  # weight of a candidate that does not matter
_IN_A_TAIL = 0.025
"""Weight of a number of servers from which it alone can move an end of a 95 % interval."""


@dataclass(frozen=True)
class Assumed:
    """Something that an operator must say, because data at light load do not show it.

    Attributes
    ----------
    name : str
        ``servers``, ``capacity``, ``patience`` or ``retries``.
    value : float, optional
        What the answer takes it for; None for a request that waits for ever.
    given : bool
        Whether the user said so; otherwise it is a default.
    others : tuple of (float, float)
        Other values, and the limit on the load with each of them.
    bound_by : tuple of str
        For each of those, the measure that is missed first there; empty where it is the same.
    most : float, optional
        The largest of several candidates that the data leave, of which ``value`` is the smallest.
        Of servers, and of candidates that nobody gave, ``others`` are these two.
    """

    name: str
    value: float | None
    given: bool
    others: tuple[tuple[float, float], ...] = ()
    bound_by: tuple[str, ...] = ()
    most: float | None = None


def assumed(
    parts: Sequence[Part],
    windows: Windows | None,
    slos: tuple[Slo, ...],
    near: float,
    answer: float,
    missing: tuple[str, ...],
) -> tuple[Assumed, ...]:
    """Return what draws of a queue take as given, those of the main model first.

    Effects on the limit are computed where there is one, an ``answer`` above zero; those of other
    servers where the system was observed. Limits are searched from the load ``near``, and
    ``missing`` names what the user did not say.
    """
    if not isinstance(parts[0].model, ServerQueue):
        return ()
    part, capacities = _likeliest(parts, parts[0].model)
    model = part.model
    assert isinstance(model, ServerQueue)  # noqa: S101 - one of its kind
    # By ratios: the answer is a median of draws, and these are limits at the estimates.
    own = _limit(part, model, slos, near) if answer > 0 else None
    if own is not None and own.load == 0:  # where the median of draws is not
        own = None

    def effects(values: list[float], change: Callable[[float], Model]) -> dict[str, Any]:
        others, bound_by = [], []
        for value in values if own is not None else ():
            with suppress(StationaryError):  # a system that cannot be has no effect to tell
                found = _limit(part, change(value), slos, near)
                if own and np.isfinite(load := answer * found.load / own.load):
                    others.append((value, load))
                    same = found.binding.measure == own.binding.measure
                    bound_by.append("" if same else found.binding.measure)
        return {"others": tuple(others), "bound_by": tuple(bound_by)}

    least, most = min(capacities), max(capacities)
    low, high = (max(round(_ASIDE * size), 1) for size in (least, most))
    sizes = [float(max(least - low, model.smallest)), float(most + high)]
    machines = _likely_servers(parts)
    fewest = min(machines)
    if len(machines) > 1:
        others = effects([fewest, max(machines)], lambda m: machines[int(m)])
        others["most"] = max(machines)
    else:
        # One server fewer and one more, where the requests tell what that would mean.
        seen: Any = windows
        near_by = [model.servers - 1, model.servers + 1] if seen else []
        valid = (m for m in near_by if 1 <= m <= model.capacity)
        resized = {float(m): model.changed(servers=m) for m in valid}
        told = [m for m in resized if service_times(seen, resized[m]) is not None]
        others = effects(told, lambda m: estimate(resized[m], seen)[0].model)
    found = [Assumed("servers", fewest, "servers" not in missing, **others)]
    patience = model.patience if isinstance(model, Service) else None
    # A capacity that nobody gave is so large that patience decides.
    if patience is None or "capacity" not in missing:
        if most > least and "capacity" in missing:
            sizes = [float(least), float(most)]
        others = effects(sizes, lambda size: model.changed(capacity=int(size)))
        if most > least:
            others["most"] = most
        found.append(Assumed("capacity", least, "capacity" not in missing, **others))
    if isinstance(model, Service):
        # As long as half of a full queue takes: much longer, and a full queue decides anyway.
        waits = [model.capacity / (2 * model.servers * model.estimates["service_rate"])]
        if patience is not None:
            waits = [patience * (1 - _ASIDE), patience * (1 + _ASIDE)]
        others = effects(waits, lambda wait: model.changed(patience=wait))
        found.append(Assumed("patience", patience, patience is not None, **others))
    retried = () if own is None else _retried(part, own.load, answer)
    return (
        *found,
        Assumed("retries", 0, given=False, others=retried, bound_by=("",) * len(retried)),
    )


def _likeliest(parts: Sequence[Part], main: ServerQueue) -> tuple[Part, list[int]]:
    """Return the draws of the median capacity, as the answer is a median, and all likely ones."""
    kind = type(main), main.param_names, main.servers
    sizes, found = [], []
    for part in parts:
        queue, weight = part.model, float(part.weights.sum())
        if isinstance(queue, ServerQueue) and queue.servers == main.servers:
            if weight > _UNLIKELY or part is parts[0]:
                sizes.append(queue.capacity)
            if (type(queue), queue.param_names, queue.servers) == kind:
                found.append((queue.capacity, weight, part))
    found.sort(key=lambda each: each[0])
    below = np.cumsum([weight for _, weight, _ in found])
    return found[int(np.searchsorted(below, below[-1] / 2))][2], sizes


def _likely_servers(parts: Sequence[Part]) -> dict[int, ServerQueue]:
    """Return the numbers of servers that may be, with the likeliest model of each."""
    found: dict[int, ServerQueue] = {}
    total: dict[int, float] = {}
    for part in sorted(parts, key=lambda part: -float(part.weights.sum())):
        if isinstance(part.model, ServerQueue):
            servers = part.model.servers
            found.setdefault(servers, part.model)
            total[servers] = total.get(servers, 0.0) + float(part.weights.sum())
    most = max(total.values())
    return {m: model for m, model in found.items() if total[m] > min(_IN_A_TAIL, most / 2)}


def _retried(part: Part, load: float, answer: float) -> tuple[tuple[float, float], ...]:
    """Return the limit on new requests if every lost one is sent again until it is served.

    The system takes as much as before, and the share that it loses at its limit has come before.
    """
    if not 0 < load < np.inf or "loss" not in part.model.measures:
        return ()
    x = torch.full((1, 1, 1), load, dtype=torch.float64)
    with suppress(StationaryError):
        lost = float(part.centre(x, ["loss"])[0, 0, 0])
        return ((1.0, answer * (1 - lost)),) if np.isfinite(lost) else ()
    return ()


def _limit(part: Part, model: Model, slos: tuple[Slo, ...], near: float) -> Limit:
    """Limit on the load at the estimates of a model."""
    theta = model.theta.detach()[None]
    alone = replace(part, model=model, theta=theta, weights=np.ones(1))
    return limit(Draws((alone,)), slos, near)
