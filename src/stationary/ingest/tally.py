r"""From numbers in the system to a table of windows: loads, counts, what was left out and why.

A window is *steady* when its halves are alike. With ``n`` samples, ``n1`` and ``n2`` arrivals in
the halves, mean numbers in the system ``m1`` and ``m2``, and standard deviation ``s`` over all of
the window, it is marked as not steady when

    |n1 - n2| > 4 sqrt(n1 + n2)           (chance does that once in 16,000 Poisson windows), or
    |m1 - m2| / (2 s) > max(1/2, 4 / sqrt(n)),

where the left side is the correlation of the number in the system with the half: above 1/2, a
quarter of the variance lies between the halves. Such windows are marked, not left out: a queue near
saturation wanders, and leaving out the windows where it rose would make it look too short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stationary.data.states import Sampling
from stationary.errors import InputError, ProgramError
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.engines import Session, real
from stationary.ingest.result import Dropped, Ingested

if TYPE_CHECKING:
    import pandas as pd

_MOST_STATES = 1000
_MOST_CELLS = 10**8
"""Windows times columns of a table: eight hundred megabytes."""
_DEVIATIONS = 4.0
"""Standard deviations by which the halves of a steady window may differ."""
_CORRELATION = 0.5
_FEW = 100
"""Requests in a window below which their number is a poor measure of its load."""
_NEARLY_FULL = 0.5
"""Share of the capacity below which requests were lost for another reason than a full queue."""


def tally(
    session: Session,
    levels: Any,
    cut: Cut,
    grid: Grid,
    rows: Rows,
    loads: Any = None,
    labels: Sequence[str] | None = None,
    unusable: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Ingested:
    """Make windows of the numbers in the system that were seen.

    Parameters
    ----------
    session, cut, grid, rows
        Where the tables are, how time was cut, and the rows of the source.
    levels : ibis table
        ``window, half, level, sent, lost, samples``, as `stationary.ingest.occupancy.sweep` gives.
    loads : ibis table, optional
        ``window, load``, where the rows are not requests; by default the load is the number of
        arrivals over the length of a window.
    labels : sequence of str, optional
        Categories of states, where a level is the position of one of them.
    unusable : mapping, optional
        Windows that are left out, by reason.
    """
    import ibis

    windows = _windows(levels, grid)
    if loads is None:
        windows = windows.mutate(load=windows.sent / real(cut.window), rows=windows.sent)
        idle = windows.sent == 0, "empty"
    else:
        windows = windows.left_join(loads, "window").drop("window_right")
        windows = windows.mutate(rows=windows.samples)
        idle = ~((windows.load > 0) & (windows.load < real(math.inf))).fill_null(False), "load 0"
    key, rounded = windows.window, ibis.literal(False)
    if cut.bin_load is not None:
        key = (windows.load / real(cut.bin_load) + 0.5).floor().cast("int64")
        rounded = key <= 0
    fate = ibis.cases(
        (windows.window < grid.skipped, "warm-up"),
        *((windows.window.isin(list(which)), why) for why, which in unusable.items() if which),
        (windows.load.isnull(), "load not known"),
        idle,
        (windows.samples == 0, "empty"),
        (rounded, "load rounds to 0"),
        (ibis.literal(cut.steady_only) & (windows.steady == 0), "not steady"),
        else_="kept",
    )
    windows = session.keep("windows", windows.mutate(key=key, fate=fate))
    fates = session.fetch(
        windows.group_by("fate").aggregate(windows=windows.count(), rows=windows.rows.sum())
    ).set_index("fate")
    dropped = _dropped(fates, grid, rows.count)
    kept = windows.filter(windows.fate == "kept")
    frame = session.fetch(
        kept.group_by("key")
        .aggregate(
            load=kept.load.min(),
            windows=kept.count(),
            sent=kept.sent.sum(),
            lost=kept.lost.sum(),
            steady=kept.steady.sum(),
        )
        .order_by("key")
    )
    if not len(frame):
        raise InputError(
            f"{rows.name}: no window is left; left out: "
            + ", ".join(f"{item.windows} ({item.why})" for item in dropped)
        )
    counts = session.fetch(_counts(levels, kept, cut))
    table, notes = _table(frame, counts, cut, rows.name, labels)
    if cut.bin_load is not None:
        table["load"] = frame["key"] * cut.bin_load
    else:
        start = rows.base + grid.origin + frame["key"].to_numpy() * cut.window
        table = table.drop(columns="windows")
        table.insert(0, "start", np.round(start, 6))
        if not table["steady"].all():
            notes.append(f"{int((table['steady'] == 0).sum())} windows are marked as not steady")
    if loads is not None:
        table = table.drop(columns=["sent", "lost"])
    duration = None if cut.bin_load is not None else cut.window
    return Ingested(table, cut.sampling, duration, rows.name, rows.count, dropped, tuple(notes))


def _windows(levels: Any, grid: Grid) -> Any:
    """One row per window: ``sent``, ``lost``, ``samples``, and whether its halves are alike."""
    import ibis

    half, samples, level = levels.half, levels.samples, levels.level
    sums = (
        levels.filter(levels.window < grid.windows)
        .group_by("window")
        .aggregate(
            sent=levels.sent.sum(),
            lost=levels.lost.sum(),
            sent_late=(levels.sent * half).sum(),
            samples=samples.sum(),
            samples_late=(samples * half).sum(),
            total=(samples * level).sum().cast("float64"),
            total_late=(samples * level * half).sum().cast("float64"),
            squares=(samples * level * level).sum().cast("float64"),
        )
    )
    n, n2 = sums.samples.cast("float64"), sums.samples_late.cast("float64")
    n1 = n - n2
    gap = ((sums.total - sums.total_late) / n1.nullif(0) - sums.total_late / n2.nullif(0)).abs()
    # In squares: the square root of a variance that rounding made negative is an error somewhere.
    variance = sums.squares / n.nullif(0) - (sums.total / n.nullif(0)) ** 2
    limit = (_DEVIATIONS**2 / n.nullif(0)).cast("float64")
    wanders = (gap * gap > 4 * variance * _CORRELATION**2) & (gap * gap > 4 * variance * limit)
    drift = (sums.sent - 2 * sums.sent_late).cast("float64")
    grows = drift * drift > _DEVIATIONS**2 * sums.sent
    steady = ~(wanders.fill_null(False) | grows.fill_null(False))
    return sums.select("window", "sent", "lost", "samples", steady=ibis.ifelse(steady, 1, 0))


def _counts(levels: Any, kept: Any, cut: Cut) -> Any:
    """How often each level was seen in the kept windows of a key, and how full losses found it."""
    # An arrival that was lost is counted as finding the system full, whatever it found.
    answered = levels.samples - levels.lost
    joined = levels.join(kept, "window").select(
        key=kept.key,
        level=levels.level,
        seen=answered if cut.sampling is Sampling.ARRIVAL else levels.samples,
        lost=levels.lost,
        full=levels.lost * levels.level,
    )
    # Other rows are only what departures left behind.
    joined = joined.filter((joined.seen > 0) | (joined.lost > 0))
    return joined.group_by("key", "level").aggregate(
        seen=joined.seen.sum(), lost=joined.lost.sum(), full=joined.full.sum()
    )


def _table(
    frame: pd.DataFrame,
    counts: pd.DataFrame,
    cut: Cut,
    name: str,
    labels: Sequence[str] | None,
) -> tuple[pd.DataFrame, list[str]]:
    """Counts side by side, and what there is to say about them."""
    import pandas as pd

    level, seen = counts["level"].to_numpy(np.int64), counts["seen"].to_numpy(np.int64)
    lost = counts["lost"].to_numpy(np.int64)
    if len(level) and level.min() < 0:
        raise ProgramError(
            f"{name}: in a window {-int(level.min())} more requests left than had come; this "
            f"should not be: please report it, with the columns' types and --unit"
        )
    notes = _about_losses(counts, cut)
    if labels is None:
        labels, level, seen = _states(level, seen, cut, name, notes)
    if len(frame) * len(labels) > _MOST_CELLS:
        raise InputError(
            f"{name}: a table of {len(frame)} windows with {len(labels)} columns is too large; "
            f"take longer windows (--window), or let large states share a column (--most)"
        )
    place = np.searchsorted(frame["key"].to_numpy(), counts["key"].to_numpy())
    sums = np.zeros((len(frame), len(labels)), dtype=np.int64)
    np.add.at(sums, (place, level), seen)
    if cut.capacity is not None and cut.sampling is Sampling.ARRIVAL:
        np.add.at(sums, (place, len(labels) - 1), lost)
    mean = frame["sent"].mean()
    if cut.bin_load is None and 0 < mean < _FEW:
        notes.append(
            f"a window holds {mean:.0f} requests, which give its load to {1 / np.sqrt(mean):.0%} "
            f"only: take longer windows"
        )
    columns = pd.DataFrame(sums, columns=[f"Q={label}" for label in labels])
    return pd.concat([frame.drop(columns="key"), columns], axis=1), notes


def _about_losses(counts: pd.DataFrame, cut: Cut) -> list[str]:
    """Return what to say about lost requests."""
    lost, seen = int(counts["lost"].sum()), int(counts["seen"].sum())
    if not lost:
        return []
    at = counts["full"].sum() / lost
    text = f"{lost} requests were lost; they found {at:.1f} in the system"
    if cut.capacity is None:
        if cut.sampling is Sampling.ARRIVAL:
            return [text, "lost requests are in the load but in no count: give the capacity"]
    elif at < _NEARLY_FULL * cut.capacity:
        text += (
            f", and {cut.capacity} fill it: they were not lost to a full queue, and no model of a "
            f"queue foresees such losses. Forecasts of the loss come on top of these "
            f"{lost / (seen + lost):.2%}"
        )
    return [text]


def _states(
    level: NDArray[np.int64], seen: NDArray[np.int64], cut: Cut, name: str, notes: list[str]
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels of the columns, the column of each level, and what counts there."""
    top = int(level.max()) if cut.capacity is None else cut.capacity
    if cut.capacity is not None:
        by_arrivals = cut.sampling is Sampling.ARRIVAL
        last = top - 1 if by_arrivals else top
        beyond = int(seen[level > last].sum())
        if beyond:
            who = "answered requests" if by_arrivals else "samples"
            notes.append(
                f"{beyond} {who} found more than {last} in the system and are counted as {last}: "
                f"is the capacity larger?"
            )
        level = np.minimum(level, last)
    most = min(top if cut.most is None else cut.most, top)
    if most > _MOST_STATES:
        raise InputError(
            f"{name}: up to {most} requests in the system would be as many columns; name the "
            f"largest state with a column of its own with --most, and the --capacity"
        )
    labels = [str(k) for k in range(most + 1)]
    if top > most and cut.capacity is not None:
        labels.append(f"{most + 1}..{top}" if top > most + 1 else str(top))
    elif top > most:
        out = level > most
        notes.append(
            f"{int(seen[out].sum())} samples found more than {most} in the system and are left "
            f"out: give --capacity to count them"
        )
        seen = np.where(out, 0, seen)
    return labels, np.minimum(level, len(labels) - 1), seen


def _dropped(fates: pd.DataFrame, grid: Grid, rows: int) -> tuple[Dropped, ...]:
    """Windows that are left out, by reason; those without a single row never got into a table."""
    sums = {why: (int(row["windows"]), int(row["rows"])) for why, row in fates.iterrows()}
    missing = grid.windows - sum(windows for windows, _ in sums.values())
    outside = rows - sum(counted for _, counted in sums.values())
    sums.pop("kept", None)
    if missing:
        windows, counted = sums.get("empty", (0, 0))
        sums["empty"] = (windows + missing, counted)
    if outside > 0:
        sums["not whole (the last)"] = (1, outside)
    return tuple(Dropped(why, *numbers) for why, numbers in sorted(sums.items()))
