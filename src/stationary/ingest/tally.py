r"""From numbers met to a table of windows: loads, counts, and what was left out and why.

A window is *steady* when its halves look alike. With ``n`` looks, ``n1`` and ``n2`` arrivals in the
halves, and the number in the system that was met on average ``m1`` and ``m2``, with standard
deviation ``s`` over the whole window, it is marked as not steady when

    |n1 - n2| > 4 sqrt(n1 + n2)           (chance does that once in 16,000 Poisson windows), or
    |m1 - m2| / (2 s) > max(1/2, 4 / sqrt(n)),

where the left side is the correlation of the number met with the half: above 1/2, a quarter of the
variance lies between the halves. Such windows are marked, not left out: a queue near saturation
wanders, and to leave out the windows where it rose would make it look shorter than it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stationary.data.states import Sampling
from stationary.errors import InputError, ProgramError
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.engines import Session
from stationary.ingest.literals import real
from stationary.ingest.result import Dropped, Ingested

if TYPE_CHECKING:
    import pandas as pd

_MOST_STATES = 1000
_MOST_CELLS = 10**8
"""Windows times columns of a table: eight hundred megabytes."""
_ALIKE = 4.0
"""Standard deviations within which halves are alike."""
_CORRELATED = 0.5
_FEW = 100
"""Requests in a window below which its load is told badly by their number."""


@dataclass(frozen=True)
class Origin:
    """What is said about the rows that windows were made of.

    Attributes
    ----------
    name : str
        Where they are from.
    rows : int
        How many.
    base : float
        Seconds since the epoch from which their times count.
    """

    name: str
    rows: int
    base: float


def tally(
    session: Session, levels: Any, cut: Cut, grid: Grid, origin: Origin, loads: Any = None
) -> Ingested:
    """Make windows of the numbers met.

    Parameters
    ----------
    session : Session
        Where the tables are.
    levels : ibis table
        ``window, late, level, sent, lost, looks``.
    cut, grid
        How they were cut.
    origin : Origin
        Of the rows.
    loads : ibis table, optional
        ``window, load``; the number of arrivals over the length of a window by default.
    """
    import ibis

    windows = _windows(levels, grid, counted=loads is None)
    if loads is None:
        windows = windows.mutate(load=windows.sent / real(cut.window))
        outside = windows.sent == 0
    else:
        windows = windows.left_join(loads, "window").drop("window_right")
        outside = ~((windows.load > 0) & (windows.load < real(math.inf))).fill_null(False)
    key = windows.window
    if cut.bin_load is not None:
        key = (windows.load / real(cut.bin_load) + 0.5).floor().cast("int64")
    windows = windows.mutate(key=key)
    rounded = (windows.key <= 0) if cut.bin_load is not None else ibis.literal(False)
    fate = ibis.cases(
        (windows.window < grid.skipped, "warm-up"),
        (windows.load.isnull(), "load not known"),
        (outside, "empty"),
        (rounded, "load rounds to 0"),
        (ibis.literal(cut.steady_only) & (windows.steady == 0), "not steady"),
        else_="kept",
    )
    windows = session.keep("windows", windows.mutate(fate=fate))
    fates = session.fetch(
        windows.group_by("fate").aggregate(windows=windows.count(), rows=windows.rows.sum())
    ).set_index("fate")
    if "kept" not in fates.index:
        raise InputError(
            f"{origin.name}: no window is left; left out: "
            + ", ".join(f"{int(row.windows)} ({why})" for why, row in fates.iterrows())
        )
    kept = windows.filter(windows.fate == "kept")
    met = levels.join(kept, "window").select(
        key=kept.key,
        level=levels.level,
        met=(levels.sent - levels.lost) if cut.sampling is Sampling.ARRIVAL else levels.looks,
        lost=levels.lost,
        full=levels.lost * levels.level,
    )
    met = met.filter((met.met > 0) | (met.lost > 0))  # others are only what departures left behind
    counts = session.fetch(
        met.group_by("key", "level").aggregate(
            met=met.met.sum(), lost=met.lost.sum(), full=met.full.sum()
        )
    )
    frame = session.fetch(_rows(kept, cut))
    if cut.bin_load is not None:
        frame["load"] = frame["key"] * cut.bin_load
    table, notes = _table(frame, counts, cut, grid, origin)
    return Ingested(
        table,
        cut.sampling,
        None if cut.bin_load is not None else cut.window,
        origin.name,
        origin.rows,
        _dropped(fates, grid, origin.rows),
        tuple(notes),
    )


def _windows(levels: Any, grid: Grid, counted: bool) -> Any:
    """One row a window: who came, and whether its halves are alike.

    ``counted`` where rows of the source are requests; otherwise they are looks.
    """
    import ibis

    late, looks, level = levels.late, levels.looks, levels.level
    sums = (
        levels.filter(levels.window < grid.windows)
        .group_by("window")
        .aggregate(
            sent=levels.sent.sum(),
            lost=levels.lost.sum(),
            sent_late=(levels.sent * late).sum(),
            looks=looks.sum(),
            looks_late=(looks * late).sum(),
            met=(looks * level).sum().cast("float64"),
            met_late=(looks * level * late).sum().cast("float64"),
            squares=(looks * level * level).sum().cast("float64"),
        )
    )
    n, n2 = sums.looks.cast("float64"), sums.looks_late.cast("float64")
    n1 = n - n2
    gap = ((sums.met - sums.met_late) / n1.nullif(0) - sums.met_late / n2.nullif(0)).abs()
    # In squares: the square root of a variance that rounding made negative is an error somewhere.
    variance = sums.squares / n.nullif(0) - (sums.met / n.nullif(0)) ** 2
    limit = (_ALIKE**2 / n.nullif(0)).cast("float64")
    wanders = (gap * gap > 4 * variance * _CORRELATED**2) & (gap * gap > 4 * variance * limit)
    drift = (sums.sent - 2 * sums.sent_late).cast("float64")
    grows = drift * drift > _ALIKE**2 * sums.sent
    steady = ~(wanders.fill_null(False) | grows.fill_null(False))
    rows = sums.sent if counted else sums.looks
    return sums.select("window", "sent", "lost", rows=rows, steady=ibis.ifelse(steady, 1, 0))


def _rows(kept: Any, cut: Cut) -> Any:
    if cut.bin_load is None:
        return kept.select("key", "load", "sent", "lost", "steady").order_by("key")
    grouped = kept.group_by("key").aggregate(
        windows=kept.count(),
        sent=kept.sent.sum(),
        lost=kept.lost.sum(),
        steady=kept.steady.sum(),
    )
    return grouped.order_by("key")


def _table(
    frame: pd.DataFrame, counts: pd.DataFrame, cut: Cut, grid: Grid, origin: Origin
) -> tuple[pd.DataFrame, list[str]]:
    """Counts side by side, and what there is to say about them."""
    import pandas as pd

    notes = []
    level, met = counts["level"].to_numpy(np.int64), counts["met"].to_numpy(np.int64)
    lost = counts["lost"].to_numpy(np.int64)
    longest = int(level.max())
    if level.min() < 0:
        raise ProgramError(
            f"{origin.name}: in a window {-int(level.min())} more requests left than had come; "
            f"this should not be: please report it, with the columns' types and --unit"
        )
    by_arrivals = cut.sampling is Sampling.ARRIVAL
    if lost.sum():
        at = counts["full"].sum() / lost.sum()
        said = f"{lost.sum()} requests were lost; they found {at:.1f} in the system"
        if cut.capacity is not None and at < _NEARLY_FULL * cut.capacity:
            said += (
                f", and {cut.capacity} fill it: they were not lost to a full queue, and no model "
                f"of a queue foresees such losses. Forecasts of the loss come on top of these "
                f"{lost.sum() / (met.sum() + lost.sum()):.2%}"
            )
        notes.append(said)
    top = longest if cut.capacity is None else cut.capacity
    if cut.capacity is None:
        if lost.sum() and by_arrivals:
            notes.append("lost requests are in the load but in no count: give the capacity")
    else:
        last = cut.capacity - 1 if by_arrivals else cut.capacity
        beyond = int(met[level > last].sum())
        if beyond:
            who = "answered requests found" if by_arrivals else "looks found"
            notes.append(f"{beyond} {who} more than {last} and are counted there: more capacity?")
        level = np.minimum(level, last)
    most = min(top if cut.most is None else cut.most, top)
    if most > _MOST_STATES:
        raise InputError(
            f"{origin.name}: up to {most} requests in the system would be as many columns; name "
            f"the largest state of its own with --most, and the --capacity"
        )
    check_cells(len(frame), most + 1, origin.name)
    labels = [str(k) for k in range(most + 1)]
    if cut.capacity is not None and top > most:
        labels.append(f"{most + 1}..{top}" if top > most + 1 else str(top))
    column = np.minimum(level, len(labels) - 1)
    if cut.capacity is None and top > most:
        out = level > most
        notes.append(f"{int(met[out].sum())} looks found more than {most} and are left out")
        met = np.where(out, 0, met)
    place = np.searchsorted(frame["key"].to_numpy(), counts["key"].to_numpy())
    sums = np.zeros((len(frame), len(labels)), dtype=np.int64)
    np.add.at(sums, (place, column), met)
    if cut.capacity is not None and by_arrivals:
        np.add.at(sums, (place, np.full(len(place), len(labels) - 1)), lost)
    table = pd.DataFrame(sums, columns=[f"Q={label}" for label in labels])
    names = ["load", "windows", "sent", "lost", "steady"]
    for position, name in enumerate(name for name in names if name in frame):
        table.insert(position, name, frame[name].to_numpy())
    mean = frame["sent"].mean()
    if cut.bin_load is None and 0 < mean < _FEW:
        notes.append(
            f"a window holds {mean:.0f} requests, whose number tells its load to "
            f"{1 / np.sqrt(mean):.0%} only: take longer windows"
        )
    if cut.bin_load is None:
        start = origin.base + grid.origin + frame["key"].to_numpy() * cut.window
        table.insert(0, "start", np.round(start, 6))
        if not table["steady"].all():
            notes.append(f"{int((table['steady'] == 0).sum())} windows are marked as not steady")
    return table, notes


def check_cells(windows: int, columns: int, name: str) -> None:
    """Raise where a table of windows would not fit into memory."""
    if windows * columns > _MOST_CELLS:
        raise InputError(
            f"{name}: a table of {windows} windows with {columns} columns is too large; take "
            f"longer windows (--window), or let large states share a column (--most)"
        )


def _dropped(fates: pd.DataFrame, grid: Grid, rows: int) -> tuple[Dropped, ...]:
    """Windows that are left out, by reason; those without a single row never got into a table."""
    whole = fates["rows"].sum()
    missing = grid.windows - int(fates["windows"].sum())
    found = {why: (int(row["windows"]), int(row["rows"])) for why, row in fates.iterrows()}
    del found["kept"]
    if missing:
        windows, counted = found.get("empty", (0, 0))
        found["empty"] = (windows + missing, counted)
    found["not whole (the last)"] = (1, max(rows - int(whole), 0))
    return tuple(Dropped(why, *numbers) for why, numbers in sorted(found.items()))


_NEARLY_FULL = 0.5
"""Share of the capacity below which requests were lost for another reason than a full queue."""
