r"""From what a sweep found to a table of windows: loads, counts, what was left out and why.

A window is *steady* when its halves are alike. With ``n`` samples, ``n1`` and ``n2`` arrivals in
the halves, mean numbers in the system ``m1`` and ``m2``, and standard deviation ``s`` over all of
the window, it is marked as not steady when

    |n1 - n2| > 4 sqrt(n1 + n2)           (chance does that once in 16,000 Poisson windows), or
    |m1 - m2| / (2 s) > max(1/2, 4 / sqrt(n)),

where the left side is the correlation of the number in the system with the half: above 1/2, a
quarter of the variance lies between the halves. The first test is also made where the parts differ
most (`stationary.ingest.lengths`). Such windows are marked, not left out:
a queue near saturation wanders, and leaving out the windows where it rose would make it look too
short.

Arrivals are *bunched* when gaps between them vary more than those of a Poisson process: the squared
coefficient of variation of ``n`` exponential gaps is 1, give or take ``2 / sqrt(n)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stationary.data.latency import bucket_names
from stationary.data.service_times import SUMS, Cell
from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.columns import Rows
from stationary.ingest.cut import Cut, Grid
from stationary.ingest.lengths import gaps_touch, load_changes
from stationary.ingest.result import Dropped, Ingested
from stationary.ingest.sweep import EDGES, LEVELS, Reals, Swept, Whole, lowest_level
from stationary.words import listed, seconds

_MOST_STATES = 1000
_MOST_CELLS = 10**8
"""Windows times columns of a table: eight hundred megabytes."""
_DEVIATIONS = 4.0
"""Standard deviations by which the halves of a steady window may differ."""
_CORRELATION = 0.5
_FEW = 100
"""Requests in a window below which their number is a poor measure of its load."""
_LONG = 60.0
"""Seconds that a window must last for times in whole seconds to show that its load changes."""
_SOME = 20
"""Lost requests that are needed to tell how many fill the system."""
_FULL = 0.8
"""They must have found this share of the most requests that were ever in the system at once."""
_NEARLY_FULL = 0.5
"""Share of the capacity below which requests were lost for another reason than a full queue."""


def tally(
    swept: Swept,
    cut: Cut,
    grid: Grid,
    rows: Rows,
    loads: pd.Series | None = None,
    labels: Sequence[str] | None = None,
    unusable: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> Ingested:
    """Make windows of what was found.

    ``loads`` are those by window, where the rows are not requests; by default the load is the
    number of arrivals over the length of a window. ``labels`` are categories of states, where a
    level is the position of one. ``unusable`` are windows that are left out, by reason.
    """
    windows = _windows(swept, grid)
    coarse = rows.coarse and loads is None
    if coarse:
        # Queues and gaps between arrivals are not known, nor is the load of parts of a second.
        told = (windows["marked"] == "load changes") & (cut.length >= _LONG)
        windows["marked"] = windows["marked"].where(told, "")
        windows["steady"] = (~told).astype(np.int64)
    if loads is None:
        windows["load"] = windows["sent"] / cut.length
        windows["rows"] = windows["sent"]
    else:
        windows = windows.join(loads.rename("load"))
        windows["rows"] = windows["samples"]
    no_load = ~((windows["load"] > 0) & (windows["load"] < math.inf))
    fates = {
        "warm-up": windows.index < grid.skipped,
        **{why: windows.index.isin(list(which)) for why, which in unusable.items()},
        "a gap in the log": windows["gap"],
        "load not known": windows["load"].isna(),
        "load 0": no_load & (loads is not None),
        "empty": no_load | (windows["samples"] == 0),
        "not steady": cut.steady_only & (windows["steady"] == 0),
    }
    windows["fate"] = np.select(list(fates.values()), list(fates), "kept")
    dropped = _dropped(windows, grid, rows.count)
    frame = windows.loc[windows["fate"] == "kept", ["load", "sent", "lost", "steady", "marked"]]
    if not len(frame):
        raise InputError(
            f"{rows.name}: no window is left; left out: "
            + ", ".join(f"{item.windows} ({item.why})" for item in dropped)
            + "; take longer windows (--window)"
        )
    notes = list[str]()
    parts = _tables(frame, swept, cut, rows, labels, notes, coarse)
    frame.insert(0, "start", np.round(rows.base + grid.origin + frame.index * cut.length, 6))
    if loads is not None:
        frame = frame.drop(columns=["sent", "lost", "marked"])
    table = pd.concat([frame.reset_index(drop=True), *parts], axis=1)
    if loads is None:
        for mark, starts in table[table["marked"] != ""].groupby("marked")["start"]:
            shown = listed([f"{start:.15g}" for start in starts], 10)
            notes.append(f"windows marked as {mark!r}: {len(starts)}, which start at {shown}")
    sharing = {f"sharing{m}": share for m, share in swept.sharing.items()}
    facts = {"shortest": swept.shortest, **sharing, "full": _full(swept)}
    return Ingested(
        table,
        cut.sampling,
        cut.length,
        rows.name,
        rows.count,
        dropped,
        tuple(notes),
        {key: value for key, value in facts.items() if value is not None and not coarse},
    )


def _full(swept: Swept) -> float | None:
    """How many lost requests found, where that is nearly the most there ever were."""
    level, lost = swept.levels[:, 2], swept.levels[:, 4]
    if lost.sum() < _SOME:
        return None
    found = float((level * lost).sum() / lost.sum())
    return found if found >= _FULL * swept.highest else None


def _windows(swept: Swept, grid: Grid) -> pd.DataFrame:
    """One row per window: ``sent``, ``lost``, ``samples``, whether it is steady, and its mark."""
    levels = swept.levels[swept.levels[:, 0] < grid.windows]
    numbers, place = np.unique(levels[:, 0], return_inverse=True)
    _, half, level, sent, lost, samples = levels.T

    def total(values: Whole) -> Reals:
        # Whole numbers up to 2**53 are exact as floats.
        return np.bincount(place, values, len(numbers)).astype(np.float64)

    n, n2 = total(samples), total(samples * half)
    mass, late = total(samples * level), total(samples * level * half)
    squares = total(samples * level * level)
    all_sent = total(sent)
    drift = all_sent - 2 * total(sent * half)
    with np.errstate(divide="ignore", invalid="ignore"):  # halves without samples
        gap = np.abs((mass - late) / (n - n2) - late / n2)
        variance = squares / n - (mass / n) ** 2
        wanders = gap * gap > 4 * variance * np.maximum(_CORRELATION**2, _DEVIATIONS**2 / n)
    changes = drift * drift > _DEVIATIONS**2 * all_sent
    frame = pd.DataFrame(
        {"sent": all_sent, "lost": total(lost), "samples": n}, numbers, dtype=np.int64
    )
    bunched, cut_off = np.zeros((2, len(numbers)), dtype=bool)
    if len(swept.windows):
        # Windows into which only departures fall have no row in the levels.
        rows = swept.windows[np.isin(swept.windows[:, 0], numbers)]
        found, within = np.searchsorted(numbers, rows[:, 0]), rows[:, 3:]
        changes[found] |= load_changes(within)
        bunched[found] = _bunched(within.sum(1), *rows[:, 1:3].T)
        came = within.any(1)
        cut_off[found[came]] = gaps_touch(rows[came, 0].astype(np.int64), within[came])
    frame["steady"] = (~(changes | wanders)).astype(np.int64)
    marks = ["load changes", "queue drifts", "bunched arrivals"]
    frame["gap"] = cut_off
    frame["marked"] = np.select([changes, wanders, bunched], marks, "")
    return frame


def _bunched(sent: Reals, gaps: Reals, squares: Reals) -> NDArray[np.bool_]:
    """Whether gaps vary more than those of a Poisson process."""
    with np.errstate(divide="ignore", invalid="ignore"):  # windows with one arrival
        n = sent - 1
        variation = squares * n / (gaps * gaps) - 1
        return (variation - 1) * np.sqrt(n) / 2 > _DEVIATIONS


def _tables(
    frame: pd.DataFrame,
    swept: Swept,
    cut: Cut,
    rows: Rows,
    labels: Sequence[str] | None,
    notes: list[str],
    coarse: bool,
) -> list[pd.DataFrame]:
    """Counts of states, latencies and service times; ``notes`` gets what there is to say.

    Where times are coarse, latencies alone.
    """
    # Row of each window; -1 of those that are left out.
    row_of = np.full(1 + max(int(swept.levels[:, 0].max()), frame.index.max()), -1)
    row_of[frame.index] = np.arange(len(frame))
    mean = frame["sent"].mean()
    if 0 < mean < _FEW:
        notes.append(
            f"a window holds {mean:.0f} requests, which give its load to {1 / np.sqrt(mean):.0%} "
            f"only: take longer windows, or record longer"
        )
    latencies = (
        [_latencies(len(frame), row_of, swept.latency, rows.step)] if len(swept.latency) else []
    )
    if coarse:
        if not latencies:
            raise InputError(
                f"{rows.name}: no request has a response time, and times in whole seconds tell "
                f"nothing else: record response times"
            )
        return latencies
    place = row_of[swept.levels[:, 0]]
    inside = place >= 0
    place = place[inside]
    _, _, level, _, lost, samples = swept.levels[inside].T
    # An arrival that was lost is counted as finding the system full, whatever it found.
    seen = samples - lost if cut.sampling is Sampling.ARRIVAL else samples
    some = (seen > 0) | (lost > 0)  # other rows are only what departures left behind
    place, level, seen, lost = place[some], level[some], seen[some], lost[some]
    notes += _about_losses(level, seen, lost, cut)
    if labels is None:
        labels, level, seen = _states(level, seen, cut, rows, notes)
    if len(frame) * len(labels) > _MOST_CELLS:
        raise InputError(
            f"{rows.name}: a table of {len(frame)} windows with {len(labels)} columns is too "
            f"large; take longer windows (--window), or let large states share a column (--most)"
        )
    shape = len(frame), len(labels)
    sums = _sums(place, level, seen, shape)
    if cut.capacity is not None and cut.sampling is Sampling.ARRIVAL:
        sums += _sums(place, np.full(len(place), len(labels) - 1), lost, shape)
    states = pd.DataFrame(sums.astype(np.int64), columns=[f"Q={label}" for label in labels])
    parts = [states, *latencies]
    if len(swept.services):
        parts += _services(len(frame), row_of, swept, cut)
    return parts


def _latencies(rows: int, row_of: Whole, latency: Whole, step: float) -> pd.DataFrame:
    """Latency buckets that are used; the edge before the first tells that none is shorter.

    Of responses that are rounded to multiples of a step, those up to an edge in truth took up to
    half a step more than the last multiple before it; edges between the same multiples are one.
    """
    window, bucket, count = latency.T
    edges = EDGES
    if step:
        rounded = (np.floor(EDGES / step * (1 + 1e-12)) + 0.5) * step
        edges, merged = np.unique(rounded, return_inverse=True)
        bucket = np.append(merged, len(edges))[bucket]
    first, last = max(int(bucket.min()) - 1, 0), min(int(bucket.max()), len(edges) - 1)
    sums = _sums(row_of[window], bucket, count, (rows, len(edges) + 1)).astype(np.int64)
    chosen = [*range(first, last + 1), len(edges)]
    return pd.DataFrame(sums[:, chosen], columns=bucket_names([*edges[chosen[:-1]], np.inf]))


def _services(rows: int, row_of: Whole, swept: Swept, cut: Cut) -> list[pd.DataFrame]:
    """Service times: count, sum, sum of squares, by servers, idle or waited, and level."""
    window, code = swept.services[:, :2].T.astype(np.int64)
    used = np.bincount(code, minlength=2 * LEVELS * len(swept.servers)) > 0
    # A number of servers that were never all busy is as good as any larger one.
    servers, most = np.array(swept.servers), max(swept.highest, 1)
    useful = np.isin(servers, cut.servers) if cut.servers else servers <= most
    used &= np.repeat(useful, 2 * LEVELS)
    names, parts = [], list[pd.DataFrame]()
    for column in np.flatnonzero(used).tolist():
        m, of_level = divmod(column, 2 * LEVELS)
        waited, level = divmod(of_level, LEVELS)
        names.append(str(Cell(int(servers[m]), not waited, lowest_level(level))))
    at = np.where(used, np.cumsum(used) - 1, len(names))[code]
    for values, what in zip(swept.services[:, 2:].T, SUMS, strict=True):
        sums = _sums(row_of[window], at, values, (rows, len(names) + 1))[:, :-1]
        sums = sums.astype(np.int64 if what == "n" else np.float64)
        parts.append(pd.DataFrame(sums, columns=[f"{name}.{what}" for name in names], copy=False))
    return parts


def _sums(rows: Whole, columns: Whole, values: Any, shape: tuple[int, int]) -> Any:
    """Add values to rows and columns of a table; rows below zero are left out."""
    inside = rows >= 0
    place = rows[inside] * shape[1] + columns[inside]
    return np.bincount(place, values[inside], shape[0] * shape[1]).reshape(shape)


def _about_losses(level: Whole, seen: Whole, losses: Whole, cut: Cut) -> list[str]:
    """Return what to say about lost requests."""
    lost = int(losses.sum())
    if not lost:
        return []
    at = (losses * level).sum() / lost
    text = f"{lost} requests were lost; they found {at:.1f} in the system"
    if cut.capacity is None:
        if cut.sampling is Sampling.ARRIVAL:
            return [text, "lost requests are in the load but in no count: give the capacity"]
    elif at < _NEARLY_FULL * cut.capacity:
        text += (
            f", and {cut.capacity} fill it: they were not lost to a full queue, and no model of a "
            f"queue foresees such losses. Forecasts of the loss come on top of these "
            f"{lost / (int(seen.sum()) + lost):.2%}"
        )
    return [text]


def _states(
    level: Whole, seen: Whole, cut: Cut, rows: Rows, notes: list[str]
) -> tuple[list[str], Whole, Whole]:
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
    # A backlog of thousands that was never nearly full needs no column for each of its states.
    usual = top if top <= _MOST_STATES else int(level.max())
    most = min(usual if cut.most is None else cut.most, top)
    if most > _MOST_STATES:
        took = f" (they took {seconds(rows.mean)} on average)" if rows.mean else ""
        raise InputError(
            f"{rows.name}: up to {most} requests in the system would be as many columns; is the "
            f"unit of response times right{took}? Otherwise name the largest state with a column "
            f"of its own with --most, and the --capacity"
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


def _dropped(windows: pd.DataFrame, grid: Grid, rows: int) -> tuple[Dropped, ...]:
    """Windows that are left out, by reason; those without a single row are not among these."""
    fates = windows.groupby("fate")["rows"].agg(["size", "sum"])
    sums = {str(why): (int(row["size"]), int(row["sum"])) for why, row in fates.iterrows()}
    missing = grid.windows - sum(windows for windows, _ in sums.values())
    outside = rows - sum(counted for _, counted in sums.values())
    sums.pop("kept", None)
    if missing:
        empty, counted = sums.get("empty", (0, 0))
        sums["empty"] = (empty + missing, counted)
    if outside > 0:
        sums["the last, which is incomplete"] = (1, outside)
    return tuple(Dropped(why, *numbers) for why, numbers in sorted(sums.items()))
