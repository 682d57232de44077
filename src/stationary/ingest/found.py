"""What a plan is made from: windows out of any source, and what to know of how they were made."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from stationary.data.readers import read_windows
from stationary.data.windows import Windows
from stationary.errors import InputError, hide_passwords
from stationary.ingest.contents import holds_windows
from stationary.ingest.cut import Cut
from stationary.ingest.result import Ingested
from stationary.ingest.sources import Source
from stationary.words import windows_left_out


@dataclass(frozen=True)
class Found:
    """Windows, with what to know of them.

    Attributes
    ----------
    windows : Windows
        The data.
    source : str
        Where they are from; empty for windows that were made in Python.
    notes : tuple of str
        What to know of how they were made.
    full : int, optional
        The capacity that lost requests show.
    of_requests : bool
        Whether they were cut from requests or metrics, whose times are in seconds.
    """

    windows: Windows
    source: str = ""
    notes: tuple[str, ...] = ()
    full: int | None = None
    of_requests: bool = False

    @classmethod
    def of(cls, made: Ingested, source: str) -> Self:
        """Return what an ingestion made."""
        left = (windows_left_out(item.windows, item.why) for item in made.dropped)
        return cls(made.windows(), source, (*made.notes, *left), made.likely_capacity(), True)

    @property
    def recipe(self) -> dict[str, str]:
        """What a plan keeps of its source."""
        unit = "req/s" if self.of_requests else ""
        kept = {"source": hide_passwords(self.source), "unit": unit, "notes": "\n".join(self.notes)}
        return {name: text for name, text in kept.items() if text}


def find(data: object, servers: Sequence[int] = (), capacity: int | None = None) -> Found:
    """Return the windows of data of any kind: a path, a `Source`, what an ingestion made, windows.

    ``servers`` and ``capacity`` are what is known of the system.
    """
    if isinstance(data, Found):
        return data
    if isinstance(data, Windows):
        return Found(data)
    if isinstance(data, Ingested):
        return Found.of(data, data.source)
    if isinstance(data, str | os.PathLike):
        if str(data).startswith(("http://", "https://")):
            raise InputError(
                "of a Prometheus, say what the load is and what was observed: pass what "
                "st.ingest.windows_from_prometheus(...) returns"
            )
        if holds_windows(data):
            return Found(read_windows(data), str(data))
        data = Source(str(data))
    if isinstance(data, Source):
        return Found.of(cut_requests(data, Cut(capacity=capacity), servers), data.location)
    raise InputError(
        f"the data must be Windows, as from st.read_windows('windows.csv'), or the path of a log "
        f"or a table; got {data!r:.80}"
    )


def cut_requests(
    source: Source,
    cut: Cut,
    servers: Sequence[int],
    progress: Callable[[str], None] | None = None,
) -> Ingested:
    """Cut requests into windows, for these numbers of servers and for others.

    The others tell whether those that were given are right.
    """
    from stationary.ingest.events import windows_from_events  # loads Ibis and DuckDB
    from stationary.ingest.sweep import SERVERS

    source.check()
    cut = replace(cut, servers=tuple(sorted({*servers, *SERVERS})))
    return windows_from_events(source, cut, None, progress)
