"""Looks at a gauge to windows: a queue length, or requests under way, read at a clock's times.

A look is a row with a time, the value it found and something that tells the load. Looks must not
depend on the system, as those of a scraper do not; they then see time averages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.columns import find, moments, without_nan
from stationary.ingest.cut import Cut, lay
from stationary.ingest.engines import Engine
from stationary.ingest.events import Progress, engine_for
from stationary.ingest.literals import real
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Fault, Source, check, open_table, units
from stationary.ingest.tally import Origin, tally

_FAR = 1.5
"""Lengths of a window that its looks may cover; beyond, one of them came after a gap."""


@dataclass(frozen=True)
class Load(ABC):
    """What tells the load at a look.

    Parameters
    ----------
    column : str
        Where it stands.
    """

    column: str

    @abstractmethod
    def per_window(self, looks: Any, window: float) -> Any:
        """Return ``window, load`` of looks with ``window``, ``time`` and ``told``."""


@dataclass(frozen=True)
class Rate(Load):
    """Requests per second, at each look."""

    def per_window(self, looks: Any, window: float) -> Any:
        """Return the mean over the looks of a window."""
        del window
        return looks.group_by("window").aggregate(load=looks.told.mean())


@dataclass(frozen=True)
class Arrived(Load):
    """Requests that arrived since the look before."""

    def per_window(self, looks: Any, window: float) -> Any:
        """Return their sum over the time that the looks of the window cover.

        A window after a gap has no load: what is told there came before it, for the most part.
        """
        import ibis

        gap = looks.time - looks.time.lag().over(ibis.window(order_by="time"))
        known = looks.mutate(gap=gap)
        known = known.filter(known.told.notnull() & known.gap.notnull())
        sums = known.group_by("window").aggregate(told=known.told.sum(), covered=known.gap.sum())
        near = (sums.covered > 0) & (sums.covered < real(_FAR * window))
        return sums.select("window", load=ibis.ifelse(near, sums.told / sums.covered, None))


@dataclass(frozen=True)
class Counter(Load):
    """All requests so far: a counter that only grows, unless its process starts anew."""

    def per_window(self, looks: Any, window: float) -> Any:
        """Return the growth between the last looks of this window and of the one before.

        A window has no load where the counter fell in it, even if it grew beyond again, or where
        nobody looked in the one before.
        """
        import ibis

        del window
        known = looks.filter(looks.told.notnull())
        fell = known.told < known.told.lag().over(ibis.window(order_by="time"))
        known = known.mutate(fell=ibis.ifelse(fell.fill_null(False), 1, 0))
        last = known.group_by("window").aggregate(
            told=known.told.argmax(known.time), time=known.time.max(), fell=known.fell.max()
        )
        before = ibis.window(order_by="window")
        grown = last.mutate(
            more=last.told - last.told.lag().over(before),
            passed=last.time - last.time.lag().over(before),
            since=last.window - last.window.lag().over(before),
        )
        known = (grown.since == 1) & (grown.fell == 0)
        return grown.select("window", load=ibis.ifelse(known, grown.more / grown.passed, None))


def windows_from_gauge(
    source: Source,
    gauge: str,
    load: Load,
    cut: Cut,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Count how often each value of a gauge was met in every window.

    Parameters
    ----------
    source : Source
        Where the looks are; ``source.columns.arrival`` is the column of their times.
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

    if cut.sampling is not Sampling.TIME:
        raise InputError("looks at a gauge are those of a clock: sampling must be 'time'")
    if cut.every is not None or cut.lost_status or cut.propagation:
        raise InputError(
            "a gauge was looked at already: every, lost_status and propagation are of events"
        )
    said = progress or (lambda _: None)
    with engine_for(source, engine).open() as session:
        said("checking the rows")
        raw, where = open_table(session, source), source.name
        name = source.columns.arrival
        time = moments(session, raw, name, units(source)[0], where)
        numbers = []
        for column in (gauge, load.column):
            number = find(raw, column, where)
            if not number.type().is_numeric():
                raise InputError(
                    f"{where}, column {column!r}: the values are {number.type()}, not numbers"
                )
            numbers.append(number.cast("float64"))
        value, told = numbers
        wrong = ~((value >= 0) & (value == value.floor()) & (value < 2**31)).fill_null(False)
        told = without_nan(told)
        faults = (
            Fault(gauge, wrong, "no whole numbers from zero up"),
            Fault(load.column, (told < 0) | told.isinf(), "negative or infinite"),
        )
        facts = check(session, raw, time, name, where, faults)
        grid = lay(cut, facts.rows, facts.first, facts.last, facts.absolute, where)
        at = raw.select(time=time.since(facts.base), value=value.cast("int64"), told=told)
        at = at.mutate(passed=(at.time - real(grid.origin)) / real(cut.window))
        at = at.filter(at.passed < grid.windows)
        at = at.mutate(window=at.passed.floor().cast("int64"))
        at = at.mutate(late=ibis.ifelse(at.passed - at.window >= 0.5, 1, 0))
        said("counting")
        levels = at.group_by("window", "late", level=at.value).aggregate(
            sent=(at.value * 0).sum(), lost=(at.value * 0).sum(), looks=at.count()
        )
        met = session.keep("levels", levels)
        loads = session.keep("loads", load.per_window(at, cut.window))
        origin = Origin(where, facts.rows, facts.absolute)
        return tally(session, met, cut, grid, origin, loads)
