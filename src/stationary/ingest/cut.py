"""How events are cut into windows, and what is counted in each."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from stationary.data.numbers import as_duration
from stationary.data.states import Sampling, as_sampling
from stationary.errors import InputError

_MOST_WINDOWS = 10_000_000
_MOST_TOGETHER = 500_000
"""Events that one running sum goes over: what a worker sorts at a time."""


@dataclass(frozen=True)
class Cut:
    """Windows, and the states that are counted in them.

    Parameters
    ----------
    window : float
        Length of a window, in seconds.
    sampling : Sampling or str
        ``ARRIVAL``: how many requests each arriving one found. ``TIME``: how many there were at
        the looks of a clock.
    every : float, optional
        Seconds between the looks of the clock; a thousandth of the window by default. The first is
        half of that after a window begins, so that none falls on its edge.
    capacity : int, optional
        State ``K`` of a full system. Lost requests are counted there; answered ones at most in
        ``K - 1``. Without it, lost requests are in the load but in no count.
    most : int, optional
        Largest state with a column of its own; the others share the column up to ``capacity``, or
        are left out where there is none.
    warm_up : float
        Windows that begin sooner after the first event are left out.
    align : bool
        Begin windows at whole multiples of their length on the clock, not at the first event.
    propagation : float
        Seconds of every response that were spent on the way, not in the system.
    lost_status : tuple of str
        Outcomes of lost requests, ``x`` standing for any digit: ``("5xx", "429")``. Requests
        without an answer are lost, too.
    bin_load : float, optional
        Round loads to multiples of this, and add up windows of equal load.
    steady_only : bool
        Leave out windows whose halves differ, see `stationary.ingest.tally`.
    """

    window: float
    sampling: Sampling = Sampling.ARRIVAL
    every: float | None = None
    capacity: int | None = None
    most: int | None = None
    warm_up: float = 0.0
    align: bool = False
    propagation: float = 0.0
    lost_status: tuple[str, ...] = ()
    bin_load: float | None = None
    steady_only: bool = False

    def __post_init__(self) -> None:
        as_duration(self.window)
        object.__setattr__(self, "sampling", as_sampling(self.sampling))
        if self.every is not None and self.sampling is Sampling.ARRIVAL:
            raise InputError("every= is of a clock: it goes with sampling='time'")
        for name, least in (("capacity", 1), ("most", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < least):
                raise InputError(f"{name} must be a whole number from {least} up; got {value!r}")
        if self.capacity is not None and self.most is not None and self.most > self.capacity:
            raise InputError(f"most={self.most} lies above capacity={self.capacity}; leave it out")
        for name in ("warm_up", "propagation"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} must be zero or more; got {getattr(self, name)!r}")
        if self.bin_load is not None and not 0 < self.bin_load < math.inf:
            raise InputError(f"bin_load must be positive; got {self.bin_load!r}")
        if self.sampling is Sampling.TIME:
            _ = self.looks

    @property
    def looks(self) -> int:
        """Looks of the clock in a window."""
        if self.every is None:
            return 1000
        looks = self.window / self.every if self.every > 0 else math.nan
        if not 1 <= looks <= 1e9 or abs(looks - round(looks)) > 1e-6 * looks:
            raise InputError(
                f"a window must hold a whole number of looks; got windows of {self.window:g} s and "
                f"a look every {self.every:g} s"
            )
        return round(looks)

    @property
    def lost_pattern(self) -> str | None:
        """Regular expression of the outcomes of lost requests."""
        parts = []
        for text in self.lost_status:
            if not text.strip():
                raise InputError(f"lost_status has an empty entry: {self.lost_status!r}")
            code = re.fullmatch("[0-9xX]{3}", text.strip())
            parts.append(re.sub("[xX]", "[0-9]", code[0]) if code else re.escape(text.strip()))
        return f"^({'|'.join(parts)})$" if parts else None


@dataclass(frozen=True)
class Grid:
    """Where the windows of some events lie.

    Attributes
    ----------
    origin : float
        Begin of window 0.
    windows : int
        Number of windows that ended while there were events.
    parts : int
        Equal parts of a window over which running sums go; a power of two, so that the part of an
        instant is found without rounding.
    skipped : int
        Windows at the beginning that are left out.
    """

    origin: float
    windows: int
    parts: int
    skipped: int


def lay(cut: Cut, rows: int, first: float, last: float, base: float, name: str) -> Grid:
    """Lay windows over events between two instants.

    The last event lies in a window that nobody saw the end of, so that one is not counted.
    """
    origin = first
    if cut.align:
        origin = math.floor((base + first) / cut.window) * cut.window - base
    span = (last - origin) / cut.window
    if span > _MOST_WINDOWS:
        raise InputError(
            f"{name}: windows of {cut.window:g} s would be {span:.0f} from the first row to the "
            f"last, more than {_MOST_WINDOWS}; is --unit right? Take longer windows otherwise"
        )
    whole = math.floor(span)
    if whole < 1:
        raise InputError(
            f"{name}: the rows cover {last - first:g} s, less than one window of "
            f"{cut.window:g} s; is --unit right? Take shorter windows otherwise"
        )
    skipped = math.ceil((first - origin + cut.warm_up) / cut.window - 1e-9)
    if skipped >= whole:
        raise InputError(
            f"{name}: after a warm-up of {cut.warm_up:g} s no whole window of {cut.window:g} s is "
            f"left of {last - first:g} s"
        )
    parts = 2
    while rows / span / parts > _MOST_TOGETHER:
        parts *= 2
    return Grid(origin, whole, parts, max(skipped, 0))
