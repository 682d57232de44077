"""The ladder that a planner gets without naming models: what fits the servers and who counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stationary.data.windows import Windows
from stationary.models import Model, RuleModel
from stationary.models.registry import build, can_rebuild, describe

_PHASES = 4
"""Phases of the steadier service: a variation of half an exponential one's."""


def ladder(windows: Windows, servers: int = 1, capacity: int = 20) -> dict[str, Model]:
    """Models to compare, by name and what else sets them apart, simplest first.

    Left out are the models in which requests are lost unseen (``balking``, ``resetting``,
    ``leaking``): light load can hardly speak against them, and they would let no loss be excluded.
    Name them where the system is known to do that. Models whose requests do not see time averages
    are left out where requests counted.

    Parameters
    ----------
    windows : Windows
        The data: what was observed, and by whom.
    servers, capacity : int
        Of the system.
    """
    both = {"servers": servers, "capacity": capacity}
    room = {"capacity": capacity}
    depth = min(_observed(windows), capacity)
    rungs: list[Mapping[str, Any]] = [
        {"name": "mmmk", **both},
        {"name": "slowing", **both},
    ]
    if depth > servers:
        rungs.append({"name": "statedependent", "depth": depth, **room})
    if servers == 1:
        rungs.append({"name": "erlang", "phases": _PHASES, **room})
        rungs.append({"name": "hyperexponential", **room})
    if not windows.by_arrivals:
        rungs += [{"name": name, **both} for name in ("batch", "onoff")]
    return {_short(rung): build(rung) for rung in rungs}


def ladder_of(model: Model, windows: Windows) -> dict[str, Model]:
    """Models to compare a model with: its own first, then those of the same servers and capacity.

    Of a model that has no capacity to speak of, such as one of your own, there is only itself.
    """
    # Made anew where it can be: a fit starts where the model stands, and zero is no start.
    own = build(describe(model)) if can_rebuild(model) else model
    rungs = {own.name or type(own).__name__: own}
    options = own.options
    # A model made of rules may call anything its capacity.
    if "capacity" in options and not isinstance(own, RuleModel):
        others = ladder(windows, options.get("servers", 1), options["capacity"])
        rungs |= {
            name: model
            for name, model in others.items()
            if (model.name, model.options) != (own.name, own.options)
        }
    return rungs


def _short(rung: Mapping[str, Any]) -> str:
    """Name a rung as the command line does, without what all have in common."""
    common = ("name", "servers", "capacity")
    options = ",".join(f"{key}={value}" for key, value in rung.items() if key not in common)
    return f"{rung['name']}:{options}" if options else str(rung["name"])


def _observed(windows: Windows) -> int:
    """How many queue lengths above zero were counted apart: rates that the data can tell."""
    counted = windows.counted
    return 1 if counted is None else max(counted.data.shape[1] - 1, 1)
