"""What an answer takes as given, and how far it would move if that were otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch

from stationary.data.windows import Windows
from stationary.errors import StationaryError
from stationary.learning.draws import Draws, Part
from stationary.learning.fitting import estimate
from stationary.learning.slowing import service_times
from stationary.models import Model
from stationary.models.queues import ServerQueue, Service
from stationary.planning.limits import limit
from stationary.terms.slo import Slo

_ASIDE = 0.18
"""Share by which a capacity may be off: three of 17 requests."""


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
    """

    name: str
    value: float | None
    given: bool
    others: tuple[tuple[float, float], ...] = ()


def assumed(
    part: Part,
    windows: Windows | None,
    slos: tuple[Slo, ...],
    near: float,
    answer: float,
    missing: tuple[str, ...],
) -> tuple[Assumed, ...]:
    """Return what draws of a queue take as given.

    Parameters
    ----------
    part : Part
        Draws of the main model.
    windows : Windows, optional
        The data; none for a system that was not observed.
    slos : tuple of Slo
        What must hold; without any, no effects are computed.
    near : float
        A load to search limits from.
    answer : float
        The limit on the load; zero where there is none, so that nothing moves it.
    missing : tuple of str
        Names of what the user did not say.
    """
    model = part.model
    if not isinstance(model, ServerQueue):
        return ()
    # By ratios: the answer is a median of draws, and these are limits at the estimates.
    own = _limit(part, model, slos, near) if answer > 0 else np.nan

    def effects(
        values: list[float], change: Callable[[float], Model]
    ) -> tuple[tuple[float, float], ...]:
        found = []
        for value in values if answer > 0 else ():
            with suppress(StationaryError):  # a system that cannot be has no effect to tell
                ratio = _limit(part, change(value), slos, near) / own
                found.append((value, answer * ratio))
        return tuple((value, load) for value, load in found if np.isfinite(load))

    aside = max(round(_ASIDE * model.capacity), 1)
    sizes = [float(max(model.capacity - aside, model.smallest)), float(model.capacity + aside)]
    found = [
        Assumed(
            "servers",
            model.servers,
            "servers" not in missing,
            ()
            if windows is None
            else effects(
                _other_servers(model, windows), lambda m: _refitted(model, windows, int(m))
            ),
        ),
        Assumed(
            "capacity",
            model.capacity,
            "capacity" not in missing,
            effects(sizes, lambda size: model.changed(capacity=int(size))),
        ),
    ]
    if isinstance(model, Service):
        # As long as half of a full queue takes: much longer, and a full queue decides anyway.
        some = [model.capacity / (2 * model.servers * model.estimates["service_rate"])]
        others = [] if model.patience else some
        found.append(
            Assumed(
                "patience",
                model.patience,
                model.patience is not None,
                effects(others, lambda wait: model.changed(patience=wait)),
            )
        )
    return (*found, Assumed("retries", 0, given=False, others=_retried(part, answer)))


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


def _limit(part: Part, model: Model, slos: tuple[Slo, ...], near: float) -> float:
    """Limit on the load at the estimates of a model."""
    theta = model.theta.detach()[None]
    alone = replace(part, model=model, theta=theta, weights=np.ones(1))
    return limit(Draws((alone,)), slos, near).load


def _other_servers(model: ServerQueue, windows: Windows) -> list[float]:
    """One server fewer and one more, where the requests tell what that would mean."""
    near = [m for m in (model.servers - 1, model.servers + 1) if 1 <= m <= model.capacity]
    return [float(m) for m in near if service_times(windows, model.changed(servers=m)) is not None]


def _refitted(model: ServerQueue, windows: Windows, servers: int) -> Model:
    """Return the model with other servers, fitted to the service times that they would have."""
    return estimate(model.changed(servers=servers), windows)[0].model
