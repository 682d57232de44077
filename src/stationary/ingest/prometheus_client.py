"""Values of a PromQL expression over time, from the HTTP interface of a Prometheus.

Prometheus tells time in milliseconds and answers at most 11,000 points a series at once; a `Clock`
is a number of such points, and `Prometheus.values` asks for as many at a time as it may.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary.errors import DataWarning, InputError, ProgramError
from stationary.ingest.addresses import Web, parse_web

Array = NDArray[np.float64]

MOST_POINTS = 10_000
"""Points of one answer; Prometheus refuses more than 11,000."""

_WAIT = 0.5
"""Seconds before the first repeat of a question; twice as many before each further one."""

_PASSING = (429, 500, 502, 503, 504)
"""HTTP answers that may be others a moment later."""


@dataclass(frozen=True)
class Clock:
    """Equally spaced points in time.

    Attributes
    ----------
    start, step : int
        The first point, in milliseconds since 1970, and how far apart they are.
    points : int
        How many there are.
    """

    start: int
    step: int
    points: int

    def chunks(self) -> Iterator[tuple[int, Clock]]:
        """Parts that Prometheus answers at once, each with the position of its first point."""
        for first in range(0, self.points, MOST_POINTS):
            count = min(MOST_POINTS, self.points - first)
            yield first, Clock(self.start + first * self.step, self.step, count)

    def places(self, moments: Array, where: str) -> NDArray[np.int64]:
        """Which points of the clock moments are, in seconds; an error that names ``where``."""
        passed = 1000 * moments - self.start
        points = np.rint(passed / self.step).astype(np.int64)
        off = (points < 0) | (points >= self.points) | (np.abs(passed - points * self.step) > 1)
        if off.any():
            raise InputError(
                f"{where} answers for {moments[off][0]:.3f} s since 1970, which is none of the "
                f"{self.points} points asked for, {self.step} ms apart from {self.time(0)}: is "
                f"there a cache before it that moves them?"
            )
        return points

    def time(self, point: int) -> str:
        """Write a point in time for people, in UTC."""
        moment = np.datetime64(self.start + point * self.step, "ms")
        return f"{np.datetime_as_string(moment)}Z"


@dataclass(frozen=True, eq=False)
class Series:
    """One series of an answer.

    Attributes
    ----------
    labels : dict
        What tells it from the others, its name included.
    values : array [points]
        Its values at the points of the clock; NaN where there is none.
    """

    labels: dict[str, str]
    values: Array


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus, or what speaks its language (Thanos, Mimir, VictoriaMetrics).

    Parameters
    ----------
    url : str
        Where it is, as in ``http://127.0.0.1:9090``; a path before ``/api/v1`` may follow, and
        ``user:password@`` may stand before the host, which no message shows.
    timeout : float
        Seconds to wait for an answer.
    retries : int
        How often a question is repeated, after longer and longer waits, where nobody answers or
        the server is in trouble.
    """

    url: str = field(repr=False)
    timeout: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        _ = self.web
        if not self.timeout > 0:
            raise InputError(f"timeout must be positive, in seconds; got {self.timeout!r}")
        if not isinstance(self.retries, int) or self.retries < 0:
            raise InputError(f"retries must be a whole number, 0 or more; got {self.retries!r}")

    @property
    def web(self) -> Web:
        """The address, and apart from it who asks."""
        return parse_web(
            self.url,
            "the address of a Prometheus is written http://127.0.0.1:9090, or "
            "http://user:password@127.0.0.1:9090",
        )

    def values(self, what: str, query: str, clock: Clock) -> list[Series]:
        """Every series of an expression, at the points of a clock; at least one.

        Parameters
        ----------
        what : str
            What the expression is for, named in errors.
        query : str
            The expression, in PromQL.
        clock : Clock
            When to look.
        """
        found: dict[frozenset[tuple[str, str]], Series] = {}
        for first, part in clock.chunks():
            for entry in self._matrix(what, query, part):
                labels = dict(entry["metric"])
                series = found.setdefault(
                    frozenset(labels.items()), Series(labels, np.full(clock.points, np.nan))
                )
                moments, values = (
                    zip(*entry["values"], strict=True) if entry["values"] else ((), ())
                )
                points = part.places(np.array(moments, dtype=np.float64), self.web.url)
                series.values[first + points] = np.array(values, dtype=np.float64)
        if not any(np.isfinite(series.values).any() for series in found.values()):
            raise InputError(
                f"{what}: {query!r} has no value between {clock.time(0)} and "
                f"{clock.time(clock.points - 1)}; look it up in the Prometheus at {self.web.url}: "
                f"is the name right, was it scraped then?"
            )
        return list(found.values())

    def _matrix(self, what: str, query: str, clock: Clock) -> list[Mapping[str, Any]]:
        """One answer to ``query_range``: for each series its labels and its points."""
        end = clock.start + (clock.points - 1) * clock.step
        form = {
            "query": query,
            "start": f"{clock.start / 1000:.3f}",
            "end": f"{end / 1000:.3f}",
            "step": f"{clock.step / 1000:.3f}",
            "nocache": "1",  # VictoriaMetrics moves the points of what it may cache
        }
        answer = self._ask(f"{what}: {query!r}", urllib.parse.urlencode(form).encode())
        for note in answer.get("warnings") or ():
            warnings.warn(f"{what}: Prometheus warns: {note}", DataWarning, stacklevel=2)
        entries = answer["data"]["result"]
        if any("values" not in entry for entry in entries):
            raise InputError(
                f"{what}: {query!r} is a native histogram; only classic ones, with buckets `le`, "
                f"are read: scrape it as one, too"
            )
        return list(entries)

    def _ask(self, about: str, form: bytes) -> dict[str, Any]:
        """Send a form to ``query_range``, again where that may help, and return the answer."""
        address = f"{self.web.url}/api/v1/query_range"
        question = urllib.request.Request(address, form)  # noqa: S310 - http, as was checked
        for name, value in self.web.headers.items():
            question.add_unredirected_header(name, value)  # another host must not see it
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(_WAIT * 2 ** (attempt - 1))
            try:
                with urllib.request.urlopen(question, timeout=self.timeout) as reply:  # noqa: S310
                    return _answer(reply.read(), address)
            except urllib.error.HTTPError as error:
                trouble = f"HTTP {error.code}: {_complaint(error)}"
                if error.code not in _PASSING:
                    raise InputError(f"{about}: Prometheus says {trouble}") from None
            except (OSError, http.client.HTTPException) as error:
                trouble = str(getattr(error, "reason", error) or type(error).__name__)
        tries = "once" if not self.retries else f"{self.retries + 1} times"
        raise ProgramError(
            f"no answer from the Prometheus at {self.web.url}, asked {tries}: {trouble}; is it "
            f"running, and is this its address?"
        )


def _answer(body: bytes, address: str) -> dict[str, Any]:
    """Return the answer in a body, once it is what Prometheus sends."""
    try:
        answer = json.loads(body)
        if answer["status"] == "success" and answer["data"]["resultType"] == "matrix":
            return dict(answer)
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(
        f"{address} does not answer as Prometheus does; got {body[:60]!r}: is this its address?"
    )


def _complaint(error: urllib.error.HTTPError) -> str:
    """Prometheus's own words, where there are some."""
    try:
        with error:
            return str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return str(error.reason)
