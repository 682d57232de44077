r"""The number of requests in the system: a sweep over arrivals and departures, in parts.

Sorted by time, arrivals add one and departures subtract one; the running sum before an arrival is
what it found. A running sum over all events would have to be done by one worker in one piece.
Here every window is cut into parts. Within a part, a running sum starts from zero,

    before_i = sum of changes of the part before event i,

which any number of workers do side by side; what is grouped by ``(part, before)`` is small. The
number at the begin of a part is the sum of all changes in the parts before it: a running sum over
parts, of which there are few. The number that event ``i`` found is the sum of the two.

Departures come before arrivals of the same instant, as in `stationary.ingest.RequestLog`. Of
several arrivals of the same instant those that take no time come first, because not every engine
knows the order of rows in a file.

With ``N`` regular samples per window, ``floor(f N + 1/2)`` of them come before an event at the
fraction ``f`` of the window. Differences of that between events are the samples in between.
"""

from __future__ import annotations

from typing import Any

from stationary.data.states import Sampling
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.engines import Session, real

_LEAVES, _PASSES, _LOST, _STAYS = range(4)
"""Kinds of event, in the order in which they happen at the same instant: first departures, then
arrivals that do not stay, then those that do. The order among the latter does not matter."""


def sweep(session: Session, requests: Rows, cut: Cut, grid: Grid) -> Any:
    """Return how often each number of requests in the system was seen, per half window.

    Returns
    -------
    ibis table
        ``window``, ``half`` (0 or 1), ``level`` (requests in the system), the number of arrivals
        at this level (``sent``), of the lost ones among them (``lost``), and of ``samples``: by
        arrivals, or at regular times.
    """
    import ibis

    relative = session.keep("relative", _relative(_events(requests.table, cut, grid), cut, grid))
    parts = session.keep("parts", _parts(relative, cut, grid))
    seen = relative.join(parts, ["window", "part"]).select(
        relative.window,
        relative.part,
        level=relative.before + parts.at_begin,
        sent=relative.sent,
        lost=relative.lost,
        samples=relative.samples,
    )
    if cut.sampling is Sampling.TIME:
        none = ibis.literal(0, "int64")
        after_last = parts.select(
            parts.window,
            parts.part,
            level=parts.at_begin + parts.change,
            sent=none,
            lost=none,
            samples=_samples_until((parts.part + 1) * (1.0 / grid.parts), cut) - parts.last_sample,
        )
        seen = seen.union(after_last)
    grouped = seen.group_by(
        seen.window, half=ibis.ifelse(seen.part >= grid.parts // 2, 1, 0), level=seen.level
    ).aggregate(sent=seen.sent.sum(), lost=seen.lost.sum(), samples=seen.samples.sum())
    return session.keep("levels", grouped)


def has_status(table: Any, pattern: str) -> Any:
    """Whether the outcome of a request matches a pattern."""
    return table.status.re_search(pattern).fill_null(False)


def _events(table: Any, cut: Cut, grid: Grid) -> Any:
    """Two rows per request that stays, one per other request: ``time``, ``kind``, ``slot``.

    Only these three columns are sorted, so the kind is one number, in the order of events at the
    same instant. Slots are the parts of all windows, numbered from the first.
    """
    import ibis

    departure = table.departure
    if cut.propagation:
        departure = table.arrival + (table.response - real(cut.propagation))
    lost = table.response.isnull()
    if cut.lost_pattern is not None:
        lost = lost | has_status(table, cut.lost_pattern)
    # Not ``response > 0``: a stay that is lost in rounding would end before it began.
    stays = (departure > table.arrival).fill_null(False)
    arrives = ibis.cases((lost, _LOST), (stays, _STAYS), else_=_PASSES)
    both = table.select(
        "arrival", departure=departure, arrives=arrives, leaves=ibis.range(0, 2).unnest()
    )
    both = both.filter((both.leaves == 0) | (both.arrives == _STAYS))
    events = both.select(
        time=ibis.ifelse(both.leaves == 1, both.departure, both.arrival),
        kind=ibis.ifelse(both.leaves == 1, _LEAVES, both.arrives),
    )
    events = events.mutate(passed=windows_until(events.time, cut, grid))
    events = events.filter(events.passed < grid.windows)
    slot = (events.passed * grid.parts).floor().cast("int64")
    return events.select("time", "kind", slot=slot)


def windows_until(time: Any, cut: Cut, grid: Grid) -> Any:
    """Return how many windows, and fractions of one, have passed until an instant."""
    return (time - real(grid.origin)) / real(cut.window)


def _relative(events: Any, cut: Cut, grid: Grid) -> Any:
    """Running sums within parts, grouped by their value before an event."""
    import ibis

    order = {"group_by": "slot", "order_by": ["time", "kind"]}
    change = ibis.cases((events.kind == _STAYS, 1), (events.kind == _LEAVES, -1), else_=0)
    so_far = change.sum().over(ibis.window(**order, preceding=None, following=0))
    rows = events.mutate(change=change, before=so_far - change)
    if cut.sampling is Sampling.TIME:
        passed = windows_until(rows.time, cut, grid)
        rows = rows.mutate(sample=_samples_until(passed - passed.floor(), cut))
        last = rows["sample"].lag().over(ibis.window(**order))
        begin = _samples_until((rows.slot % grid.parts) * (1.0 / grid.parts), cut)
        rows = rows.mutate(samples=rows["sample"] - ibis.coalesce(last, begin))
    else:
        rows = rows.mutate(sample=0, samples=ibis.ifelse(rows.kind == _LEAVES, 0, 1))
    grouped = rows.group_by("slot", "before").aggregate(
        sent=(rows.kind != _LEAVES).sum(),
        lost=(rows.kind == _LOST).sum(),
        change=rows.change.sum(),
        samples=rows.samples.sum(),
        last_sample=rows["sample"].max(),
    )
    part = grouped.slot % grid.parts
    window = ((grouped.slot - part) * (1.0 / grid.parts)).cast("int64")
    return grouped.mutate(window=window, part=part).drop("slot")


def _parts(relative: Any, cut: Cut, grid: Grid) -> Any:
    """Every part of every window with an event, and the number in the system at its begin."""
    import ibis

    parts = relative.group_by("window", "part").aggregate(
        change=relative.change.sum(), last_sample=relative.last_sample.max()
    )
    every = relative.select("window").distinct()
    every = every.mutate(part=ibis.range(0, grid.parts).unnest())
    every = every.mutate(part=every.part.cast("int64"))
    joined = every.left_join(parts, ["window", "part"])
    begin = _samples_until(joined.part * (1.0 / grid.parts), cut)
    filled = joined.select(
        "window",
        "part",
        change=ibis.coalesce(joined.change, 0),
        last_sample=ibis.coalesce(joined.last_sample, begin),
    )
    so_far = ibis.window(order_by=["window", "part"], preceding=None, following=0)
    return filled.mutate(at_begin=filled.change.sum().over(so_far) - filled.change)


def _samples_until(fraction: Any, cut: Cut) -> Any:
    """Regular samples until a fraction of a window has passed."""
    if cut.sampling is Sampling.ARRIVAL:
        return (fraction * 0).cast("int64")
    return (fraction * cut.samples + 0.5).floor().cast("int64")
