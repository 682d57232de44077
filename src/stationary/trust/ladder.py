"""The models that are compared when none is named: those that suit the servers and the sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stationary.data.windows import Windows
from stationary.models import Model, RuleModel
from stationary.models.registry import build, can_rebuild, describe

_LARGE = 300
"""Capacity from which batches and bursts, whose chains are dense or long, must be asked for."""

_DEEPEST = 30
"""Queue lengths with a rate of their own, at most: more are hardly ever determined."""


def ladder(windows: Windows, servers: int = 1, capacity: int = 20) -> dict[str, Model]:
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
    """
    both = {"servers": servers, "capacity": capacity}
    depth = min(_observed(windows), capacity, _DEEPEST)
    described: list[Mapping[str, Any]] = [
        {"name": name, **both} for name in ("mmmk", "service", "slowing")
    ]
    if depth > servers:
        described.append({"name": "statedependent", "depth": depth, "capacity": capacity})
    if not windows.by_arrivals and capacity <= _LARGE:
        described += [{"name": name, **both} for name in ("batch", "onoff")]
    return {_short(each): build(each) for each in described}


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
    common = ("name", "servers", "capacity")
    options = ",".join(f"{key}={value}" for key, value in described.items() if key not in common)
    return f"{described['name']}:{options}" if options else str(described["name"])


def _observed(windows: Windows) -> int:
    """Number of queue lengths above zero that were counted: rates that the data can determine."""
    counted = windows.counted
    return 1 if counted is None else max(counted.data.shape[1] - 1, 1)
