"""What if: the draws of a system as it might be, from those of the system as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary.errors import InputError
from stationary.learning.draws import Draws, Part, faster
from stationary.models import Model, Relaxed
from stationary.terms.trust import Horizon


@dataclass(frozen=True)
class Change:
    """What a what-if changes.

    Attributes
    ----------
    options : mapping
        For each option of the model that changes, its value before and after.
    faster : float
        How many times as fast every server works.
    dropped : tuple of str
        Models that cannot be changed like this, and are left out of a pooled answer.
    """

    options: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    faster: float = 1.0
    dropped: tuple[str, ...] = ()

    @property
    def stretch(self) -> float:
        """How many times the load it was tested at the changed system is believed at."""
        before, after = self.options.get("servers", (1, 1))
        return float(after / before * self.faster)


def check_change(model: Model, options: Mapping[str, Any], speed: float | None) -> None:
    """Raise unless a model can be changed like this."""
    if speed is None and not options:
        raise InputError(
            "what_if needs something that changes, such as servers=5, capacity=30 or faster=1.2"
        )
    present = model.changeable
    for name in options:
        if name not in present:
            learnt = f"{name} is learnt: " if name in model.param_names else ""
            there = [*present, *(["faster"] if _fast(model) else [])]
            raise InputError(
                f"{learnt}{_called(model)} has no option {name!r} to change; it has "
                f"{', '.join(there) or 'none'}"
            )
    if speed is not None:
        if not isinstance(speed, Real) or not 0 < speed < math.inf:
            raise InputError(
                f"faster must be positive and finite, as in 1.2 for a fifth faster; got {speed!r}"
            )
        _service(model)


def what_if(
    draws: Draws, names: Mapping[int, str], options: Mapping[str, Any], speed: float | None
) -> tuple[Draws, Change]:
    """Return the draws of a changed system, and what changed.

    What was learnt carries over, with its uncertainty: the parameters are those of a server or of a
    client, not of how many there are. That the system would go on like this is an assumption.

    Parameters
    ----------
    draws : Draws
        Of the system as it is.
    names : mapping
        What the model of each part is called, by position.
    options : mapping
        New values of the model's options, such as ``servers`` or ``capacity``.
    speed : float, optional
        Every server works this many times as fast.
    """
    parts: list[Part] = []
    dropped, refusals = [], []
    before: dict[str, Any] = {}
    # The model of most weight speaks first, of what changes and of what is wrong.
    order = sorted(names, key=lambda k: -float(draws.parts[k].weights.sum()))
    for k in order:
        part = draws.parts[k]
        try:
            check_change(part.model, options, speed)
            parts.append(_changed(part, options, speed))
            before = before or part.model.changeable
        except InputError as error:
            dropped.append(names[k])
            refusals.append(error)
    if not parts:
        raise refusals[0]
    total = sum(float(part.weights.sum()) for part in parts)
    after = parts[0].model.changeable
    moved = {k: (before[k], after[k]) for k in options if after[k] != before[k]}
    whole = (replace(part, weights=part.weights / total) for part in parts)
    return Draws(tuple(whole)), Change(moved, float(speed or 1.0), tuple(dropped))


def stretched(found: Horizon, change: Change) -> Horizon:
    """How far the changed system is believed: as far as the observed one, per server and speed."""
    return replace(found, load=found.load * change.stretch)


def _changed(part: Part, options: Mapping[str, Any], speed: float | None) -> Part:
    if options:
        part = replace(part, model=part.model.changed(**options))
    return part if speed is None else faster(part, _service(part.model), float(speed))


def _service(model: Model) -> Tensor:
    """Return which parameters are speeds of service, or raise if none is."""
    names, fast = model.declared(), _fast(model)
    if not fast:
        listed = model.param_names
        few = ", ".join(listed) if len(listed) <= 4 else f"{listed[0]}, ..., {listed[-1]}"
        raise InputError(
            f"{_called(model)} has no service rate to make faster; its parameters are {few}"
        )
    sizes = {name: np.size(param.value) for name, param in names.items()}
    return torch.cat([torch.full((size,), name in fast) for name, size in sizes.items()])


def _fast(model: Model) -> list[str]:
    """Parameters that a faster server multiplies."""
    return [name for name in model.speed if name in model.declared()]


def _called(model: Model) -> str:
    base = f" of {type(model.base).__name__}" if isinstance(model, Relaxed) else ""
    return type(model).__name__ + base
