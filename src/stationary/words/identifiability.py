"""What the data determine, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stationary.words.findings import clause, likelihood_loss, measure_range
from stationary.words.numbers import listed, number, sentence

if TYPE_CHECKING:
    from stationary.trust.identifiability import Direction, Identifiability

_MOST_SHOWN = 5  # directions that a summary describes before it only counts them


def direction(found: Direction) -> str:
    """Return what a direction that the data leaves open means, in one sentence."""
    names = found.raised
    if found.kind == "at zero":
        return f"The estimate of {names[0]} is zero, {_bound(found.at_most)}."
    if found.kind == "alone":
        if found.nearly:
            return f"The data hardly determine {names[0]}."
        return _unseen(names)
    rest = "hardly changes what the data show"
    if not found.nearly:
        rest = "changes nothing that the data show"
    if found.kind == "common factor":
        return f"Multiplying {listed(names)} by one common factor {rest}."
    what = f"{listed(names)} together"
    if found.lowered:
        what = f"{listed(names)} while lowering {listed(found.lowered)}"
    return f"Raising {what} {rest}, so that only their combination is known."


def directions(found: Sequence[Direction], most: int = _MOST_SHOWN) -> list[str]:
    """Return one sentence for all parameters that are open alone, then some of the others."""
    unseen = [d.raised[0] for d in found if d.kind == "alone" and not d.nearly]
    lines = [direction(d) for d in found if d.kind != "alone" or d.nearly]
    if len(lines) > most:
        lines = [*lines[:most], f"... and {len(lines) - most} more."]
    return [_unseen(unseen), *lines] if unseen else lines


def identifiability(found: Identifiability) -> str:
    """Return what is open and what is known, on a few lines."""
    rank, *_ = found.findings()
    parts = [sentence(clause(rank)), *(f"  {line}" for line in directions(found.directions))]
    divided = ""
    if found.dispersion != 1:
        divided = (
            f", after division by {number(found.dispersion, 3)} because counts vary more than "
            f"independent ones"
        )
    parts += [
        "",
        f"Among parameters that explain the data almost as well as the best ones "
        f"({likelihood_loss(found.nats)}{divided}):",
    ]
    for row in found.rows():
        mark = "" if row["determined"] else ": NOT determined"
        if not row["searched"]:
            mark = " or beyond: the search reached its limit of work"
        parts.append(f"  {measure_range(row)}{mark}")
    end = "The data determine all of this to within these ranges, if the model is right."
    if any(row["searched"] and not row["determined"] for row in found.rows()):
        end = (
            "The data do not determine all of this, whatever a forecast says: observe more states "
            "or heavier loads, or take a model with fewer parameters."
        )
    elif not found.determined:
        end = (
            "Whether the data determine all of this is not known, because the search reached its "
            "limit of work: ask about fewer loads or measures at a time."
        )
    parts += ["", end]
    if not found.converged:
        parts.append("WARNING: the fit did not converge.")
    return "\n".join(parts)


def _unseen(names: Sequence[str]) -> str:
    them = "it" if len(names) == 1 else "them"
    return (
        f"The data say nothing about {listed(names)}: near the best fit no observed count depends "
        f"on {them}."
    )


def _bound(most: float) -> str:
    if math.isnan(most):
        return "and known to be small only while the others stay as they are"
    if math.isinf(most):
        return "but any value explains the data almost as well"
    return f"but any value up to {number(most, 3)} explains the data almost as well"
