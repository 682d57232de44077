"""The ladder that a planner gets without naming models: what fits the servers and who counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stationary.data.windows import Sampling, Windows
from stationary.models import Model
from stationary.models.registry import build

_PHASES = 4
"""Phases of the steadier service: a variation of half an exponential one's."""


def ladder(windows: Windows, servers: int = 1, capacity: int = 20) -> dict[str, Model]:
    """Models to compare, by how the command line would write them, simplest first.

    Left out are the models in which requests are lost unseen (``resetting``, ``leaking``): light
    load can hardly speak against them, and they would let no loss be excluded. Name them where the
    system is known to do that. Models whose requests do not see time averages are left out where
    requests counted.

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
        {"name": "usl", **room},
    ]
    if depth > servers:
        rungs.append({"name": "statedependent", "depth": depth, **room})
    if servers == 1:
        rungs.append({"name": "erlang", "phases": _PHASES, **room})
        rungs.append({"name": "hyperexponential", **room})
    if windows.sampling is Sampling.TIME:
        rungs += [{"name": name, **both} for name in ("balking", "batch", "onoff")]
    return {written(rung): build(rung) for rung in rungs}


def written(description: Mapping[str, Any]) -> str:
    """Return a description as the command line writes it: ``name:option=value,...``."""
    options = ",".join(f"{key}={value}" for key, value in description.items() if key != "name")
    return f"{description['name']}:{options}" if options else str(description["name"])


def _observed(windows: Windows) -> int:
    """How many queue lengths above zero were counted apart: rates that the data can tell."""
    return max(len(windows.observe) - 1, 1)
