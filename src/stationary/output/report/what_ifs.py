"""What would move the answer: limits of changed systems, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stationary import words
from stationary.errors import StationaryError
from stationary.output.report.answer import Answer
from stationary.output.report.tables import Table

if TYPE_CHECKING:
    from stationary.facade import Plan

_FASTER, _LARGER = 1.2, 1.5
"""By how much servers become faster, and the capacity larger where losses bind."""


def what_if_table(plan: Plan, answer: Answer) -> Table | None:
    """Return the limit as it is, and with other servers and capacities; None where there is none.

    A what-if is made of the system that was observed, and needs a limit that is to be trusted.
    """
    found = answer.limit
    if found is None or not found.trusted or not 0 < found.load < math.inf:
        return None
    if plan.change is not None or any(part.costly for part in plan.draws.parts):
        return None
    ends = f"{words.number(found.low, 3)} to {words.number(found.high, 3)}"
    rows = [("as it is", words.number(found.load, 3), ends, "")]
    for change in _changes(plan.model.changeable, answer.measure == "loss"):
        with suppress(StationaryError):  # a model that cannot be changed like this
            changed = plan.what_if(**change)
            then = changed.max_load(*found.slos)
            if changed.change is None or not 0 < then.load < math.inf:
                continue
            ends = f"{words.number(then.low, 3)} to {words.number(then.high, 3)}"
            gain = words.about(then.load / found.load - 1)
            cells = words.number(then.load, 3), ends, gain if then.load < found.load else f"+{gain}"
            rows.append((words.change(changed.change), *cells))
    interval = words.interval(found.level)
    columns = (("system", "text"), ("largest load", ""), (interval, "quiet"), ("change", ""))
    return Table("What if", columns, tuple(rows), strong=0) if len(rows) > 1 else None


def _changes(options: dict[str, int | float], of_loss: bool) -> Iterator[dict[str, Any]]:
    servers, capacity = options.get("servers"), options.get("capacity")
    if servers is not None:
        if servers > 1:
            yield {"servers": int(servers) - 1}
        more = int(servers) + 1  # which a system without a queue has room for, too
        yield {"servers": more} | ({"capacity": more} if (capacity or more) < more else {})
    if capacity is not None and of_loss:
        yield {"capacity": math.ceil(_LARGER * capacity)}
    yield {"faster": _FASTER}
