"""What if: the draws of a system as it might be, from those of the system as it is.

The parameters that were learnt are those of a server or of a client, not of how many there are, so
they are kept, with their uncertainty. That the changed system would behave like this is an
assumption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stationary.errors import InputError
from stationary.learning.draws import Draws, Part, faster
from stationary.models import Relaxed
from stationary.terms.slo import check_positive
from stationary.terms.trust import Horizon


@dataclass(frozen=True)
class Change:
    """What a what-if changes."""

    options: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """For each option of the model that changes, its value before and after."""
    faster: float = 1.0
    """How many times as fast every server works."""
    dropped: tuple[str, ...] = ()
    """Models that cannot be changed like this, and are left out of a pooled answer."""

    def stretched(self, horizon: Horizon) -> Horizon:
        """How far to trust the changed system: as far as the observed one, per server and speed."""
        before, after = self.options.get("servers", (1, 1))
        return replace(horizon, load=horizon.load * float(after / before * self.faster))


def what_if(draws: Draws, options: Mapping[str, Any], speed: float | None) -> tuple[Draws, Change]:
    """Return the draws of a changed system, and what changed.

    Options of the model take new values, and every server may work at a multiple of its speed.
    """
    if speed is None and not options:
        raise InputError(
            "what_if needs something that changes, such as servers=5, capacity=30 or faster=1.2"
        )
    if speed is not None:
        check_positive(speed, "faster", ", as in 1.2 for a fifth faster")
    pairs: list[tuple[Part, Part]] = []
    refused: dict[str, InputError] = {}
    # Options before and after, and the error if all models refuse, are of the heaviest model.
    for part in sorted(draws.parts, key=lambda part: -float(part.weights.sum())):
        try:
            pairs.append((part, _changed(part, options, speed)))
        except InputError as error:
            refused[part.name] = error
    if not pairs:
        raise next(iter(refused.values()))
    total = sum(float(part.weights.sum()) for _, part in pairs)
    before, after = (part.model.changeable for part in pairs[0])
    moved = {k: (before[k], after[k]) for k in options if after[k] != before[k]}
    changed = Draws(tuple(replace(part, weights=part.weights / total) for _, part in pairs))
    return changed, Change(moved, float(speed or 1.0), tuple(refused))


def _changed(part: Part, options: Mapping[str, Any], speed: float | None) -> Part:
    """Return draws of the changed model, or raise unless it can be changed like this."""
    model = part.model
    parameters = model.declared()
    served = [name for name in model.speed if name in parameters]
    base = f" of {type(model.base).__name__}" if isinstance(model, Relaxed) else ""
    for name in (name for name in options if name not in model.changeable):
        learnt = f"{name} is learnt: " if name in model.param_names else ""
        changeable = ", ".join([*model.changeable, *(["faster"] if served else [])])
        raise InputError(
            f"{learnt}{type(model).__name__}{base} has no option {name!r} to change; it has "
            f"{changeable or 'none'}"
        )
    if speed is not None and not served:
        listed = model.param_names
        few = ", ".join(listed) if len(listed) <= 4 else f"{listed[0]}, ..., {listed[-1]}"
        raise InputError(
            f"{type(model).__name__}{base} has no service rate to make faster; its parameters are "
            f"{few}"
        )
    if options:
        part = replace(part, model=model.changed(**options))
    if speed is None:
        return part
    return faster(part, part.model.speed_mask, float(speed))
