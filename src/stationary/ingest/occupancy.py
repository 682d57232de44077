r"""The sweep over requests as a query, for engines that keep the requests where they are.

Sorted by time, arrivals add one and departures subtract one; what an arrival found is the number of
arrivals before it less that of departures. A running sum over all events would have to be done by
one worker in one piece. So time is cut into slots. Within a slot, running sums start from zero, and
any number of workers do them side by side; the sums at the start of a slot are a running sum over
slots, of which there are few.

Numbered in this way, the j-th departure frees a server for the arrival number ``j + m``: one join
gives all service times. `stationary.ingest.sweep` says in which order events of the same instant
come.

With ``N`` regular samples per window, ``floor(f N + 1/2)`` of them come before an event at the
fraction ``f`` of the window. Differences of that between events are the samples in between.
"""

from __future__ import annotations

import math
from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from stationary.data.states import Sampling
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.engines import Session, real
from stationary.ingest.sweep import (
    EDGES,
    FINE,
    FINEST,
    LEVELS,
    SERVERS,
    SUBSLOTS,
    Swept,
    level_column,
    low_quantile,
    negative_shares,
)

_LEAVES, _PASSES, _LOST, _STAYS = range(4)
"""Kinds of event, in the order in which they happen at the same instant: first departures, then
arrivals that do not stay, then those that do, the earliest to leave first."""


def query(session: Session, requests: Rows, cut: Cut, grid: Grid) -> Swept:
    """Sweep over requests where they are."""
    events = session.keep("numbered", _numbered(session, _events(requests.table, cut, grid)))
    inside = events.filter(events.slot < grid.windows * grid.parts)
    servers = tuple(sorted({*(cut.servers or SERVERS)}))
    services, negative = _services(session, events, servers, grid)
    # Answered requests that found nobody.
    alone = events.filter(events.kind.isin([_PASSES, _STAYS]) & (events.arrived == events.left))
    top = events.filter(events.kind == _STAYS)
    highest = session.fetch_row(top.aggregate(most=(top.arrived - top.left).max()), "counting")
    return Swept(
        _levels(session, inside, cut, grid),
        _latencies(session, inside, grid),
        services[services[:, 0] < grid.windows],
        _arrivals(session, inside, grid),
        servers,
        0 if highest["most"] is None or math.isnan(highest["most"]) else int(highest["most"]) + 1,
        _shortest(session, alone),
        negative_shares(negative, services, servers),
    )


def has_status(table: Any, pattern: str) -> Any:
    """Whether the outcome of a request matches a pattern."""
    return table.status.re_search(pattern).fill_null(False)


def is_lost(table: Any, cut: Cut) -> Any:
    """Whether requests have no answer, or a status that says so."""
    lost = table.response.isnull()
    return lost if cut.lost_pattern is None else lost | has_status(table, cut.lost_pattern)


def _events(table: Any, cut: Cut, grid: Grid) -> Any:
    """Two rows per request that stays, one per other request.

    Slots are the parts of all windows, numbered from the first.
    """
    departure = table.departure
    # Not ``response > 0``: a stay that is lost in rounding would end before it began.
    stays = (departure > table.arrival).fill_null(False)
    arrives = ibis.cases((is_lost(table, cut), _LOST), (stays, _STAYS), else_=_PASSES)
    both = table.select("arrival", "response", departure=departure, arrives=arrives)
    both = both.mutate(leaves=ibis.range(0, 2).unnest())
    both = both.filter((both.leaves == 0) | (both.arrives == _STAYS))
    events = both.select(
        "response",
        "departure",
        time=ibis.ifelse(both.leaves == 1, both.departure, both.arrival),
        kind=ibis.ifelse(both.leaves == 1, _LEAVES, both.arrives),
    )
    passed = (events.time - real(grid.origin)) / real(cut.length)
    return events.mutate(
        passed=passed - passed.floor(), slot=(passed * grid.parts).floor().cast("int64")
    )


def _numbered(session: Session, events: Any) -> Any:
    """Add how many arrived to stay, and how many left, before each event."""
    so_far = ibis.window(
        group_by="slot", order_by=["time", "kind", "departure"], preceding=None, following=0
    )
    came = ibis.ifelse(events.kind == _STAYS, 1, 0)
    went = ibis.ifelse(events.kind == _LEAVES, 1, 0)
    rows = session.keep(
        "within",
        events.mutate(
            arrived_here=came.sum().over(so_far) - came, left_here=went.sum().over(so_far) - went
        ),
    )
    slots = rows.group_by("slot").aggregate(
        came=(rows.kind == _STAYS).sum(), went=(rows.kind == _LEAVES).sum()
    )
    before = ibis.window(order_by="slot", preceding=None, following=0)
    slots = slots.select(
        "slot",
        arrived_before=slots.came.sum().over(before) - slots.came,
        left_before=slots.went.sum().over(before) - slots.went,
    )
    both = rows.join(slots, "slot")
    return both.mutate(
        arrived=(both.arrived_here + both.arrived_before).cast("int64"),
        left=(both.left_here + both.left_before).cast("int64"),
    ).drop("arrived_here", "left_here", "arrived_before", "left_before")


def _window(events: Any, grid: Grid) -> Any:
    """Return the window of a slot; all after the last share a number."""
    part = events.slot % grid.parts
    window = ((events.slot - part) * (1.0 / grid.parts)).cast("int64")
    return ibis.least(window, ibis.literal(grid.windows, "int64"))


def _half(slot: Any, grid: Grid) -> Any:
    return ibis.ifelse(slot % grid.parts >= grid.parts // 2, 1, 0)


def _levels(session: Session, events: Any, cut: Cut, grid: Grid) -> NDArray[np.int64]:
    """How often each number of requests in the system was seen, per half window."""
    rows = events.mutate(
        window=_window(events, grid),
        half=_half(events.slot, grid),
        level=events.arrived - events.left,
        sent=ibis.ifelse(events.kind == _LEAVES, 0, 1),
        lost=ibis.ifelse(events.kind == _LOST, 1, 0),
    )
    if cut.sampling is Sampling.ARRIVAL:
        seen = rows.filter(rows.kind != _LEAVES).mutate(samples=1)
    else:
        seen = _sampled(session, rows, cut, grid)
    levels = seen.group_by("window", "half", "level").aggregate(
        sent=seen.sent.sum(), lost=seen.lost.sum(), samples=seen.samples.sum()
    )
    return session.fetch(levels, "counting").to_numpy(np.int64)


def _sampled(session: Session, rows: Any, cut: Cut, grid: Grid) -> Any:
    """Events with the regular samples since the one before, and what is left of each slot."""

    def until(fraction: Any) -> Any:
        return (fraction * cut.samples + 0.5).floor().cast("int64")

    def begin(slot: Any) -> Any:
        return until((slot % grid.parts) * (1.0 / grid.parts))

    order = ibis.window(group_by="slot", order_by=["time", "kind", "departure"])
    sample = until(rows.passed)
    since = ibis.coalesce(sample.lag().over(order), begin(rows.slot))
    columns = ("window", "half", "level", "sent", "lost", "samples")
    seen = rows.mutate(samples=sample - since).select(*columns)
    # Every slot of a window with an event has a rest, at the level after the last event so far.
    ends = rows.group_by("window", "slot").aggregate(
        change=ibis.ifelse(rows.kind == _STAYS, 1, ibis.ifelse(rows.kind == _LEAVES, -1, 0)).sum(),
        last=sample.max(),
    )
    every = ends.select("window").distinct()
    every = every.mutate(part=ibis.range(0, grid.parts).unnest())
    every = every.select(slot=every.window * grid.parts + every.part.cast("int64"))
    joined = every.left_join(ends, "slot")
    so_far = ibis.window(order_by="slot", preceding=None, following=0)
    rest = joined.select(
        window=((joined.slot - joined.slot % grid.parts) * (1.0 / grid.parts)).cast("int64"),
        half=_half(joined.slot, grid),
        level=ibis.coalesce(joined.change, 0).sum().over(so_far),
        sent=ibis.literal(0),
        lost=ibis.literal(0),
        samples=until((joined.slot % grid.parts + 1) * (1.0 / grid.parts))
        - ibis.coalesce(joined["last"], begin(joined.slot)),
    )
    kinds = dict.fromkeys(columns, "int64")
    return seen.cast(kinds).union(session.keep("rest", rest.cast(kinds)))


def _latencies(session: Session, events: Any, grid: Grid) -> NDArray[np.int64]:
    """Answered requests by window and latency bucket."""
    rows = events.filter(events.kind.isin([_PASSES, _STAYS]))
    buckets = ((rows.response <= real(edge), k) for k, edge in enumerate(EDGES.tolist()))
    grouped = rows.group_by(
        window=_window(rows, grid), bucket=ibis.cases(*buckets, else_=len(EDGES))
    ).aggregate(answered=rows.count())
    frame = session.fetch(grouped, "counting")
    return frame[["window", "bucket", "answered"]].to_numpy(np.int64)


def _services(
    session: Session, events: Any, servers: tuple[int, ...], grid: Grid
) -> tuple[NDArray[np.float64], list[int]]:
    """Service times, and how many are negative for each number of servers."""
    rows = events.select(
        "kind",
        "time",
        "arrived",
        "left",
        window=_window(events, grid),
        level=events.arrived - events.left,
        departure=ibis.coalesce(events.departure, events.time),
    )
    answered = rows.filter(rows.kind.isin([_PASSES, _STAYS]))
    answered = answered.mutate(servers=ibis.array(list(servers)).unnest())
    answered = answered.mutate(servers=answered.servers.cast("int64"))
    stays = answered.kind == _STAYS
    columns = ("window", "servers", "waited", "level", "seconds")
    idle = answered.level < answered.servers
    at_once = answered.filter(idle | ~stays)
    at_once = at_once.select(
        "window",
        "servers",
        waited=ibis.ifelse(at_once.level < at_once.servers, 0, 1),
        level=at_once.level + 1,
        seconds=ibis.ifelse(at_once.kind == _STAYS, at_once.departure - at_once.time, real(0.0)),
    )
    waits = answered.filter(~idle & stays)
    waits = waits.mutate(frees=waits.arrived - waits.servers)
    leaves = rows.filter(rows.kind == _LEAVES)
    leaves = leaves.select(frees=leaves.left, begins=leaves.time, after=leaves.level - 1)
    waits = waits.join(leaves, "frees")
    waits = waits.select(
        "window",
        "servers",
        waited=ibis.literal(1),
        level=waits.after,
        seconds=waits.departure - waits.begins,
    )
    kinds = {**dict.fromkeys(columns[:-1], "int64"), "seconds": "float64"}
    each = at_once.cast(kinds).union(waits.cast(kinds))
    grouped = each.group_by(*columns[:-1]).aggregate(
        n=each.count(),
        sum=each.seconds.sum(),
        sq=(each.seconds * each.seconds).sum(),
        negative=(each.seconds < 0).sum(),
    )
    frame = session.fetch(grouped, "service times")
    negative = [int(frame.loc[frame["servers"] == m, "negative"].sum()) for m in servers]
    place = 2 * np.searchsorted(servers, frame["servers"]) + frame["waited"]
    frame["column"] = LEVELS * place + [level_column(n) for n in frame["level"]]
    sums = frame.groupby(["window", "column"], as_index=False)[["n", "sum", "sq"]].sum()
    return sums.to_numpy(np.float64), negative


def _arrivals(session: Session, events: Any, grid: Grid) -> NDArray[np.float64]:
    """Gaps between arrivals, and arrivals in equal parts of every window."""
    came = events.filter(events.kind != _LEAVES)
    came = came.select("time", "passed", window=_window(came, grid))
    before = came.time.lag().over(ibis.window(group_by="window", order_by="time"))
    came = came.mutate(
        gap=ibis.coalesce(came.time - before, real(0.0)),
        part=(came.passed * SUBSLOTS).floor().cast("int64"),
    )
    frame = session.fetch(
        came.group_by("window", "part").aggregate(
            n=came.count(), gaps=came.gap.sum(), squares=(came.gap * came.gap).sum()
        ),
        "arrivals",
    )
    totals = frame.groupby("window")[["gaps", "squares"]].sum()
    parts = frame.pivot_table("n", "window", "part", "sum", 0).reindex(columns=range(SUBSLOTS))
    return np.column_stack([totals.index, totals, parts.fillna(0)]).astype(np.float64)


def _shortest(session: Session, alone: Any) -> float | None:
    """Return the 0.1 % quantile of response times, by the histogram of the sweep."""
    octave = alone.response.nullif(0).ln() * real(1 / math.log(2)) - FINEST
    fine = ibis.coalesce((octave * FINE).floor().cast("int64"), 0)
    frame = session.fetch(alone.group_by(fine=fine).aggregate(n=alone.count()), "shortest")
    places = frame["fine"].to_numpy(np.int64).clip(0)
    return low_quantile(np.bincount(places, frame["n"]).astype(np.int64))
