"""Samples of a gauge to windows: the number of requests in the system, read at regular times.

A sample is a row with a time, the value of the gauge and a number that gives the load. The times
must not depend on the state of the system, and those of a scraper do not: then samples show time
averages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from stationary._support.arguments import explained
from stationary.data.states import Sampling
from stationary.errors import InputError
from stationary.ingest.columns import Rows, check, find, read_times, unit_of, without_nan
from stationary.ingest.cut import Cut, Grid, lay
from stationary.ingest.engines import Engine
from stationary.ingest.events import Progress, engine_for
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Source, open_table
from stationary.ingest.sweep import Swept
from stationary.ingest.tally import tally

_LONGEST = 1.5
"""Window lengths that the samples of a window may span; where they span more, there was a gap."""
_ENOUGH = 0.75
"""Share of a window's samples that must have a rate: a server that starts inside it has fewer."""


@dataclass(frozen=True)
class Load(ABC):
    """How samples give the load."""

    column: str  # that holds it

    @abstractmethod
    def per_window(self, samples: pd.DataFrame, window: float) -> pd.Series:
        """Return the load by window, NaN where it is not known; samples are in order of time."""


@dataclass(frozen=True)
class Rate(Load):
    """Requests per second, at each sample."""

    def per_window(self, samples: pd.DataFrame, window: float) -> pd.Series:
        """Return the mean over the samples of a window, where enough of them have a rate."""
        del window
        signal = samples.groupby("window")["signal"]
        return signal.mean().where(signal.count() >= _ENOUGH * signal.size())


@dataclass(frozen=True)
class Arrived(Load):
    """Requests that arrived since the previous sample."""

    def per_window(self, samples: pd.DataFrame, window: float) -> pd.Series:
        """Return their sum over the time that the samples cover; none is known after a gap."""
        known = samples.assign(gap=samples["time"].diff()).dropna(subset=["signal", "gap"])
        sums = known.groupby("window")[["signal", "gap"]].sum()
        near = (sums["gap"] > 0) & (sums["gap"] < _LONGEST * window)
        return (sums["signal"] / sums["gap"]).where(near)


@dataclass(frozen=True)
class Counter(Load):
    """All requests so far: a counter that only grows, unless its process restarts."""

    def per_window(self, samples: pd.DataFrame, window: float) -> pd.Series:
        """Return the growth between the last samples of windows; none where the counter fell."""
        del window
        known = samples.dropna(subset="signal")
        fell = (known["signal"].diff() < 0).groupby(known["window"]).any()
        last = known.groupby("window")[["signal", "time"]].last().diff()
        adjacent = last.index.to_series().diff() == 1
        return (last["signal"] / last["time"]).where(adjacent & ~fell)


@explained
def windows_from_gauge(
    source: Source,
    gauge: str,
    load: Load,
    cut: Cut,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Ingested:
    """Count how often each value of a gauge was seen in every window.

    ``gauge`` is the column of the number of requests in the system, ``source.columns.arrival`` that
    of the times; the sampling of the cut must be ``TIME``.
    """
    check_samples(cut, Sampling.TIME)
    report = progress or (lambda _: None)
    with engine_for(source, engine).open() as session:
        report("checking the rows")
        raw, where, name = open_table(session, source), source.name, source.columns.arrival
        unit = unit_of(session, raw, name, source.units()[0], where)
        time = read_times(session, raw, name, unit, where)
        value, signal = (_number(raw, column, where) for column in (gauge, load.column))
        whole = (value >= 0) & (value == value.floor()) & (value < 2**31)
        signal = without_nan(signal)
        wrong = [
            (gauge, "not whole numbers from zero up", ~whole.fill_null(False)),
            (load.column, "negative or infinite", (signal < 0) | signal.isinf()),
        ]
        rows, base = check(session, raw, time, where, wrong)
        samples = rows.table.select(time=time.since(base), value=value, signal=signal)
        samples = session.fetch(samples, where)
    report("counting")
    grid, samples = lay(cut, rows), samples.sort_values("time", kind="stable")
    passed = (samples["time"] - grid.origin) / cut.length
    samples = samples[passed < grid.windows].astype(float)
    samples["window"] = np.floor(passed).astype(np.int64)
    samples["half"] = (passed - samples["window"] >= 0.5).astype(np.int64)
    made = count_samples(samples, rows, load, cut, grid)
    return replace(made, notes=(*made.notes, *session.notes))


def check_samples(cut: Cut, sampling: Sampling) -> None:
    """Raise an error where a cut asks of samples what only requests can give."""
    if cut.sampling is not sampling:
        raise InputError(f"a gauge is read at regular times: sampling must be {sampling.value!r}")
    if cut.every is not None or cut.lost_status:
        raise InputError(
            "every and lost_status go with requests; the samples of a gauge are taken already: "
            "leave them out"
        )


def _number(raw: Any, name: str, where: str) -> Any:
    column = find(raw, name, where)
    if not column.type().is_numeric():
        raise InputError(f"{where}, column {name!r}: the values are {column.type()}, not numbers")
    return column.cast("float64")


def count_samples(samples: pd.DataFrame, rows: Rows, load: Load, cut: Cut, grid: Grid) -> Ingested:
    """Make windows of samples: ``window``, ``half``, ``time``, ``value`` (or NaN), ``signal``."""
    seen = samples.dropna(subset="value").astype({"value": np.int64})
    counts = seen.groupby(["window", "half", "value"]).size().reset_index().to_numpy(np.int64)
    none = np.zeros((len(counts), 2), dtype=np.int64)
    found = Swept(np.hstack([counts[:, :3], none, counts[:, 3:]]))
    return tally(found, cut, grid, rows, load.per_window(samples, cut.length))
