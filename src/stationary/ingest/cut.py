"""How time is cut into windows, and what is counted in each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from stationary._support.arguments import explained
from stationary.data.numbers import as_duration
from stationary.data.states import Sampling, as_sampling
from stationary.errors import InputError
from stationary.ingest.columns import Rows

_MOST_WINDOWS = 10_000_000
_MOST_EVENTS = 500_000
"""Events of one part of a window: what a worker sorts at a time."""


@explained
@dataclass(frozen=True)
class Cut:
    """Windows, and the states that are counted in them.

    Parameters
    ----------
    window : float, optional
        Length of a window, in seconds; of requests one is chosen by default, see
        `stationary.ingest.lengths`.
    sampling : Sampling or str
        ``ARRIVAL``: how many requests each arriving one found. ``TIME``: how many there were at
        regular times.
    every : float, optional
        Seconds between regular times; a thousandth of the window by default. The first is half of
        that after a window begins, so that none falls on its edge.
    capacity : int, optional
        State ``K`` of a full system. Lost requests are counted there; answered ones at most in
        ``K - 1``. Without it, lost requests are in the load but in no count.
    most : int, optional
        Largest state with a column of its own; the others share the column up to ``capacity``, or
        are left out where there is none.
    warm_up : float
        Windows that begin sooner after the first event are left out.
    align : bool
        Begin windows at whole multiples of their length since 1970, not at the first event.
    lost_status : tuple of str
        Outcomes of lost requests, ``x`` standing for any digit: ``("5xx", "429")``. Requests
        without an answer are lost, too.
    steady_only : bool
        Leave out windows whose halves differ, see `stationary.ingest.tally`.
    servers : tuple of int
        Numbers of servers for which service times are written; by default some from 1 to 16.
    """

    window: float | None = None
    sampling: Sampling = Sampling.ARRIVAL
    every: float | None = None
    capacity: int | None = None
    most: int | None = None
    warm_up: float = 0.0
    align: bool = False
    lost_status: tuple[str, ...] = ()
    steady_only: bool = False
    servers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.window is not None:
            as_duration(self.window)
        object.__setattr__(self, "sampling", as_sampling(self.sampling))
        if self.every is not None and self.sampling is Sampling.ARRIVAL:
            raise InputError("every= goes with sampling='time', not with samples by arrivals")
        for name, least in (("capacity", 1), ("most", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise InputError(f"{name} must be a whole number from {least} up; got {value!r}")
        if self.capacity is not None and self.most is not None and self.most > self.capacity:
            raise InputError(f"most={self.most} lies above capacity={self.capacity}; leave it out")
        if not 0 <= self.warm_up < math.inf:
            raise InputError(f"warm_up must be zero or more; got {self.warm_up!r}")
        for number in self.servers:
            if not isinstance(number, int) or not 0 < number < 2**31:
                raise InputError(f"servers must be whole numbers from 1 up; got {number!r}")
        _ = self.samples

    @property
    def length(self) -> float:
        """Length of a window, where it is known."""
        if self.window is None:
            raise InputError("say how long a window is: window=, or --window 10s")
        return self.window

    @property
    def samples(self) -> int:
        """Regular samples in a window."""
        if self.every is None or self.window is None:
            return 1000
        samples = self.window / self.every if self.every > 0 else math.nan
        if not 1 <= samples <= 1e9 or abs(samples - round(samples)) > 1e-6 * samples:
            raise InputError(
                f"a window must hold a whole number of samples; got windows of {self.window:g} s "
                f"and a sample every {self.every:g} s"
            )
        return round(samples)

    @property
    def lost_pattern(self) -> str | None:
        """Regular expression of the outcomes of lost requests."""
        parts = []
        for text in map(str.strip, self.lost_status):
            if not text:
                raise InputError(f"lost_status has an empty entry: {self.lost_status!r}")
            is_code = re.fullmatch("[0-9xX]{3}", text)
            parts.append(re.sub("[xX]", "[0-9]", text) if is_code else re.escape(text))
        return f"^({'|'.join(parts)})$" if parts else None


@dataclass(frozen=True)
class Grid:
    """Where the windows of some rows lie."""

    origin: float  # start of window 0
    windows: int  # those that ended while there were rows
    skipped: int = 0  # those at the beginning that are left out
    # Equal parts of a window over which running sums go: a power of two, so that the part of an
    # instant is found without rounding.
    parts: int = 2


def lay(cut: Cut, rows: Rows) -> Grid:
    """Lay windows over rows.

    The last row lies in a window whose end the rows do not show, so that window is not counted.
    """
    origin = rows.first
    if cut.align:
        origin = math.floor((rows.base + rows.first) / cut.length) * cut.length - rows.base
    span, covered = (rows.last - origin) / cut.length, rows.last - rows.first
    if span > _MOST_WINDOWS:
        raise InputError(
            f"{rows.name}: windows of {cut.length:g} s would be {span:.0f} from the first row to "
            f"the last, more than {_MOST_WINDOWS}; is --unit right? Take longer windows otherwise"
        )
    whole = math.floor(span)
    if whole < 1:
        raise InputError(
            f"{rows.name}: the rows cover {covered:g} s, less than one window of "
            f"{cut.length:g} s; is --unit right? Take shorter windows otherwise"
        )
    skipped = math.ceil((rows.first - origin + cut.warm_up) / cut.length - 1e-9)
    if skipped >= whole:
        raise InputError(
            f"{rows.name}: after a warm-up of {cut.warm_up:g} s no whole window of "
            f"{cut.length:g} s is left of {covered:g} s"
        )
    parts = 2
    while rows.count / span / parts > _MOST_EVENTS:
        parts *= 2
    return Grid(origin, whole, max(skipped, 0), parts)
