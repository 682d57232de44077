r"""How many requests were in the system: a sweep over arrivals and departures, in parts.

Sorted by time, arrivals add one and departures take one off; the running sum before an arrival is
what it found. A running sum over all events would have to be done by one worker in one piece.
Here every window is cut into parts. Within a part, a running sum starts from zero,

    before_i = sum of changes of the part before event i,

which any number of workers do side by side; what is grouped by ``(part, before)`` is small. The
number at the begin of a part is the sum of all changes in the parts before it: a running sum over
parts, of which there are few. The number that event ``i`` found is the sum of the two.

Departures come before arrivals of the same instant, as in `stationary.data.RequestLog`. Of several
arrivals of the same instant those that take no time come first, because not every engine knows the
order of rows in a file.

A clock that looks ``N`` times a window sees an event at the fraction ``f`` of a window after
``floor(f N + 1/2)`` looks. Differences of that between events are the looks in between.
"""

from __future__ import annotations

from typing import Any

from stationary.data.states import Sampling
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.engines import Session
from stationary.ingest.literals import real
from stationary.ingest.sources import Requests

_LEAVES, _PASSES, _LOST, _STAYS = range(4)
"""What happens, in the order in which it happens at the same instant: first who leaves, then who
arrives and does not stay, then who does. The order of the latter does not matter."""


def levels(session: Session, requests: Requests, cut: Cut, grid: Grid) -> Any:
    """Return how often each number of requests was met, by window and half of it.

    Returns
    -------
    ibis table
        ``window``, ``late`` (1 in the second half), ``level`` (requests in the system), and the
        number of arrivals that met it (``sent``), of the lost ones among them (``lost``) and of
        looks: of arrivals, or of the clock.
    """
    import ibis

    relative = session.keep("relative", _relative(_changes(requests.table, cut, grid), cut, grid))
    slots = session.keep("slots", _slots(relative, cut, grid))
    met = relative.join(slots, ["window", "part"]).select(
        relative.window,
        relative.part,
        level=relative.before + slots.carried,
        sent=relative.sent,
        lost=relative.lost,
        looks=relative.looks,
    )
    if cut.sampling is Sampling.TIME:
        nobody = ibis.literal(0, "int64")
        after = slots.select(
            slots.window,
            slots.part,
            level=slots.carried + slots.change,
            sent=nobody,
            lost=nobody,
            looks=_looks_at((slots.part + 1) * (1.0 / grid.parts), cut) - slots.last_look,
        )
        met = met.union(after)
    grouped = met.group_by(
        met.window, late=ibis.ifelse(met.part >= grid.parts // 2, 1, 0), level=met.level
    ).aggregate(
        sent=met.sent.sum(),
        lost=met.lost.sum(),
        looks=met.looks.sum(),
    )
    return session.keep("levels", grouped)


def _changes(table: Any, cut: Cut, grid: Grid) -> Any:
    """Two rows a request that stays, one for another: which part, when, and what happened.

    Only these three columns are sorted, so what happened is one number, in the order in which it
    happens at the same instant.
    """
    import ibis

    departure = table.departure
    if cut.propagation:
        departure = table.arrival + (table.response - real(cut.propagation))
    lost = table.response.isnull()
    if cut.lost_pattern is not None:
        lost = lost | refused(table, cut.lost_pattern)
    # Not ``stay > 0``: a stay that is lost in rounding would end before it began.
    stays = (departure > table.arrival).fill_null(False)
    came = ibis.cases((lost, _LOST), (stays, _STAYS), else_=_PASSES)
    both = table.select("arrival", departure=departure, came=came, leaves=ibis.range(0, 2).unnest())
    both = both.filter((both.leaves == 0) | (both.came == _STAYS))
    at = both.select(
        time=ibis.ifelse(both.leaves == 1, both.departure, both.arrival),
        what=ibis.ifelse(both.leaves == 1, _LEAVES, both.came),
    )
    at = at.mutate(passed=_passed(at.time, cut, grid))
    at = at.filter(at.passed < grid.windows)
    return at.select("time", "what", slot=(at.passed * grid.parts).floor().cast("int64"))


def refused(table: Any, pattern: str) -> Any:
    """Whether the outcome of a request is that of a lost one."""
    return table.status.re_search(pattern).fill_null(False)


def _passed(time: Any, cut: Cut, grid: Grid) -> Any:
    """Windows until an instant."""
    return (time - real(grid.origin)) / real(cut.window)


def _relative(at: Any, cut: Cut, grid: Grid) -> Any:
    """Running sums within parts, grouped by their value before an event."""
    import ibis

    order = {"group_by": "slot", "order_by": ["time", "what"]}
    change = ibis.cases((at.what == _STAYS, 1), (at.what == _LEAVES, -1), else_=0)
    so_far = change.sum().over(ibis.window(**order, preceding=None, following=0))
    rows = at.mutate(change=change, before=so_far - change)
    if cut.sampling is Sampling.TIME:
        passed = _passed(rows.time, cut, grid)
        rows = rows.mutate(look=_looks_at(passed - passed.floor(), cut))
        last = rows.look.lag().over(ibis.window(**order))
        begin = _looks_at((rows.slot % grid.parts) * (1.0 / grid.parts), cut)
        rows = rows.mutate(looks=rows.look - ibis.coalesce(last, begin))
    else:
        rows = rows.mutate(look=0, looks=ibis.ifelse(rows.what == _LEAVES, 0, 1))
    grouped = rows.group_by("slot", "before").aggregate(
        sent=(rows.what != _LEAVES).sum(),
        lost=(rows.what == _LOST).sum(),
        change=rows.change.sum(),
        looks=rows.looks.sum(),
        last_look=rows.look.max(),
    )
    part = grouped.slot % grid.parts
    return grouped.mutate(
        window=((grouped.slot - part) * (1.0 / grid.parts)).cast("int64"), part=part
    ).drop("slot")


def _slots(relative: Any, cut: Cut, grid: Grid) -> Any:
    """Every part of every window with an event, and how many were there when it began."""
    import ibis

    parts = relative.group_by("window", "part").aggregate(
        change=relative.change.sum(), last_look=relative.last_look.max()
    )
    every = relative.select("window").distinct()
    every = every.mutate(part=ibis.range(0, grid.parts).unnest())
    every = every.mutate(part=every.part.cast("int64"))
    joined = every.left_join(parts, ["window", "part"])
    slots = joined.select(
        "window",
        "part",
        change=ibis.coalesce(joined.change, 0),
        last_look=ibis.coalesce(joined.last_look, _looks_at(joined.part * (1.0 / grid.parts), cut)),
    )
    so_far = ibis.window(order_by=["window", "part"], preceding=None, following=0)
    return slots.mutate(carried=slots.change.sum().over(so_far) - slots.change)


def _looks_at(fraction: Any, cut: Cut) -> Any:
    """Looks of the clock until a fraction of a window has passed."""
    if cut.sampling is Sampling.ARRIVAL:
        return (fraction * 0).cast("int64")
    return (fraction * cut.looks + 0.5).floor().cast("int64")
