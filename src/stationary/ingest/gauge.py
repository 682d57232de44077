"""Samples of a gauge to windows: the number of requests in the system, read at regular times.

A sample is a row with a time, the value of the gauge and a number that gives the load. The times
must not depend on the state of the system, as those of a scraper do not; samples then see time
averages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.columns import Rows, check, find, guess_unit, read_times, without_nan
from stationary.ingest.cut import Cut, Grid, lay
from stationary.ingest.engines import Engine, Session, real
from stationary.ingest.events import Progress, engine_for
from stationary.ingest.occupancy import fetch_levels, windows_until
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Source, open_table
from stationary.ingest.sweep import Swept
from stationary.ingest.tally import tally

_LONGEST = 1.5
"""Lengths of a window that its samples may cover; beyond, one of them came after a gap."""
_ENOUGH = 0.75
"""Share of a window's samples that must have a rate: a server that starts inside it has fewer."""


@dataclass(frozen=True)
class Load(ABC):
    """How samples give the load.

    Parameters
    ----------
    column : str
        The column that holds it.
    """

    column: str

    @abstractmethod
    def per_window(self, samples: Any, window: float) -> Any:
        """Return ``window, load`` of samples with ``window``, ``time`` and ``signal``."""


@dataclass(frozen=True)
class Rate(Load):
    """Requests per second, at each sample."""

    def per_window(self, samples: Any, window: float) -> Any:
        """Return the mean over the samples of a window, where enough of them have a rate."""
        import ibis

        del window
        sums = samples.group_by("window").aggregate(
            mean=samples.signal.mean(), known=samples.signal.count(), count=samples.count()
        )
        enough = sums.known >= sums["count"] * real(_ENOUGH)
        return sums.select("window", load=ibis.ifelse(enough, sums["mean"], None))


@dataclass(frozen=True)
class Arrived(Load):
    """Requests that arrived since the previous sample."""

    def per_window(self, samples: Any, window: float) -> Any:
        """Return their sum over the time that the samples of the window cover.

        A window after a gap has no load: most of its requests arrived before it.
        """
        import ibis

        gap = samples.time - samples.time.lag().over(ibis.window(order_by="time"))
        known = samples.mutate(gap=gap)
        known = known.filter(known.signal.notnull() & known.gap.notnull())
        sums = known.group_by("window").aggregate(sent=known.signal.sum(), covered=known.gap.sum())
        near = (sums.covered > 0) & (sums.covered < real(_LONGEST * window))
        return sums.select("window", load=ibis.ifelse(near, sums.sent / sums.covered, None))


@dataclass(frozen=True)
class Counter(Load):
    """All requests so far: a counter that only grows, unless its process restarts."""

    def per_window(self, samples: Any, window: float) -> Any:
        """Return the growth between the last samples of this window and of the previous one.

        A window has no load where the counter fell in it, even if it grew beyond again, or where
        the previous window has no sample.
        """
        import ibis

        del window
        known = samples.filter(samples.signal.notnull())
        fell = known.signal < known.signal.lag().over(ibis.window(order_by="time"))
        known = known.mutate(fell=ibis.ifelse(fell.fill_null(False), 1, 0))
        last = known.group_by("window").aggregate(
            total=known.signal.argmax(known.time), time=known.time.max(), fell=known.fell.max()
        )
        before = ibis.window(order_by="window")
        growth = (last.total - last.total.lag().over(before)) / (
            last.time - last.time.lag().over(before)
        )
        adjacent = last.window - last.window.lag().over(before) == 1
        return last.mutate(growth=growth, known=adjacent & (last.fell == 0)).select(
            "window", load=ibis.ifelse(ibis._.known, ibis._.growth, None)
        )


def windows_from_gauge(
    source: Source,
    gauge: str,
    load: Load,
    cut: Cut,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Count how often each value of a gauge was seen in every window.

    Parameters
    ----------
    source : Source
        Where the samples are; ``source.columns.arrival`` is the column of their times.
    gauge : str
        Column of the number of requests in the system.
    load : Load
        `Rate`, `Arrived` or `Counter`.
    cut : Cut
        Which windows, which states; its sampling must be ``TIME``.
    engine, progress
        As for `windows_from_events`.
    """
    import ibis

    check_samples(cut, Sampling.TIME)
    report = progress or (lambda _: None)
    with engine_for(source, engine).open() as session:
        report("checking the rows")
        raw, where, name = open_table(session, source), source.name, source.columns.arrival
        unit = source.units()[0] or guess_unit(session, raw, name, where)
        time = read_times(session, raw, name, unit, where)
        value, signal = (_number(raw, column, where) for column in (gauge, load.column))
        whole = (value >= 0) & (value == value.floor()) & (value < 2**31)
        signal = without_nan(signal)
        wrong = {
            gauge: (~whole.fill_null(False), "not whole numbers from zero up"),
            load.column: ((signal < 0) | signal.isinf(), "negative or infinite"),
        }
        rows, base, good = check(session, raw, (name, time), where, wrong)
        grid = lay(cut, rows)
        samples = raw.select(time=time.since(base), value=value, signal=signal, good=good)
        samples = samples.filter(samples.good).drop("good")
        samples = samples.mutate(passed=windows_until(samples.time, cut, grid))
        samples = samples.filter(samples.passed < grid.windows)
        samples = samples.mutate(window=samples.passed.floor().cast("int64"))
        samples = samples.mutate(half=ibis.ifelse(samples.passed - samples.window >= 0.5, 1, 0))
        report("counting")
        made = count_samples(session, samples, rows, load, cut, grid)
    return replace(made, notes=(*made.notes, *session.notes))


def check_samples(cut: Cut, sampling: Sampling) -> None:
    """Raise an error where a cut asks of samples what only requests can give."""
    if cut.sampling is not sampling:
        raise InputError(f"a gauge is read at regular times: sampling must be {sampling.value!r}")
    if cut.every is not None or cut.lost_status or cut.propagation:
        raise InputError(
            "every, lost_status and propagation go with requests; the samples of a gauge are taken "
            "already: leave them out"
        )


def _number(raw: Any, name: str, where: str) -> Any:
    column = find(raw, name, where)
    if not column.type().is_numeric():
        raise InputError(f"{where}, column {name!r}: the values are {column.type()}, not numbers")
    return column.cast("float64")


def count_samples(
    session: Session, samples: Any, rows: Rows, load: Load, cut: Cut, grid: Grid
) -> Ingested:
    """Make windows of samples: ``window``, ``half``, ``time``, ``value`` (or null), ``signal``."""
    seen = samples.filter(samples.value.notnull())
    zero = (seen.window * 0).sum()
    levels = seen.group_by("window", "half", level=seen.value.cast("int64")).aggregate(
        sent=zero, lost=zero, samples=seen.count()
    )
    found = Swept(fetch_levels(session, levels))
    loads = session.fetch(load.per_window(samples, cut.length), rows.name)
    return tally(found, cut, grid, rows, loads)
