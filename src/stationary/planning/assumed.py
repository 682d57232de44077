"""What an answer takes as given, and how far it would move if that were otherwise."""

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

_ASIDE = 0.18
"""Share by which a capacity or a patience may be off: three of 17 requests."""


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
        The largest of several candidates, of which ``value`` is the smallest.
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
    part, model = parts[0], parts[0].model
    if not isinstance(model, ServerQueue):
        return ()
    models = [each.model for each in parts]
    queues = [each for each in models if isinstance(each, ServerQueue)]
    capacities = [queue.capacity for queue in queues if queue.servers == model.servers]
    # By ratios: the answer is a median of draws, and these are limits at the estimates.
    own = _limit(part, model, slos, near) if answer > 0 else None

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
    servers = [] if windows is None else _other_servers(model, windows)
    found = [
        Assumed(
            "servers",
            model.servers,
            "servers" not in missing,
            **effects(servers, lambda m: _refitted(model, windows, int(m))),
        )
    ]
    patience = model.patience if isinstance(model, Service) else None
    # A capacity that nobody gave is so large that patience decides.
    if patience is None or "capacity" not in missing:
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
    retried = _retried(part, answer)
    return (
        *found,
        Assumed("retries", 0, given=False, others=retried, bound_by=("",) * len(retried)),
    )


def _retried(part: Part, answer: float) -> tuple[tuple[float, float], ...]:
    """Return the limit on new requests if every lost one is sent again until it is served.

    The system takes as much as before, and the share that it loses has come before.
    """
    if answer <= 0 or "loss" not in part.model.measures:
        return ()
    x = torch.full((1, 1, 1), answer, dtype=torch.float64)
    with suppress(StationaryError):
        lost = float(part.centre(x, ["loss"])[0, 0, 0])
        return ((1.0, answer * (1 - lost)),) if np.isfinite(lost) else ()
    return ()


def _limit(part: Part, model: Model, slos: tuple[Slo, ...], near: float) -> Limit:
    """Limit on the load at the estimates of a model."""
    theta = model.theta.detach()[None]
    alone = replace(part, model=model, theta=theta, weights=np.ones(1))
    return limit(Draws((alone,)), slos, near)


def _other_servers(model: ServerQueue, windows: Windows) -> list[float]:
    """One server fewer and one more, where the requests tell what that would mean."""
    near = [m for m in (model.servers - 1, model.servers + 1) if 1 <= m <= model.capacity]
    return [float(m) for m in near if service_times(windows, model.changed(servers=m)) is not None]


def _refitted(model: ServerQueue, windows: Any, servers: int) -> Model:
    """Return the model with other servers, fitted to the service times that they would have."""
    return estimate(model.changed(servers=servers), windows)[0].model
