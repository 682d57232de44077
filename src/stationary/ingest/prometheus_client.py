"""Values of a PromQL expression over time, from the HTTP interface of a Prometheus."""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary.errors import DataWarning, InputError, ProgramError
from stationary.ingest.addresses import Web, parse_web

Array = NDArray[np.float64]

_MOST_POINTS = 10_000
"""Points of one answer; Prometheus refuses more than 11,000."""
_MOST_SAMPLES = 10_000_000
_WAIT = 0.5
"""Seconds before a question is repeated; twice as many before each further repeat."""
_PASSING = (429, 500, 502, 503, 504)
"""HTTP answers that may change after a moment."""


@dataclass(frozen=True)
class Clock:
    """Equally spaced points in time, in milliseconds since 1970, in which Prometheus counts."""

    start: int
    step: int
    points: int

    def positions(self, seconds: Array, where: str) -> NDArray[np.int64]:
        """Return which points some times are; raise an error that names ``where`` for others."""
        passed = 1000 * seconds - self.start
        points = np.rint(passed / self.step).astype(np.int64)
        off = (points < 0) | (points >= self.points) | (np.abs(passed - points * self.step) > 1)
        if off.any():
            raise InputError(
                f"{where} answers for {seconds[off][0]:.3f} s since 1970, which is not one of the "
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
    """One series of an answer: its labels, and its values at the points of a clock (or NaN)."""

    labels: dict[str, str]
    values: Array


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus, or what speaks its language (Thanos, Mimir, VictoriaMetrics), over a time.

    Parameters
    ----------
    url : str
        Where it is, as in ``http://127.0.0.1:9090`` or ``http://user:password@host:9090``; a path
        before ``/api/v1`` may follow. The password is in no message and no file.
    start, end : float
        The time to read, in seconds since 1970.
    step : float
        Seconds between samples: the scrape interval.
    timeout : float
        Seconds to wait for an answer.
    retries : int
        How often a question is repeated, after longer and longer waits, where there is no answer or
        the server is in trouble.
    """

    url: str = field(repr=False)
    start: float
    end: float
    step: float = 15.0
    timeout: float = 30.0
    retries: int = 3

    def __post_init__(self) -> None:
        _ = self.web
        for name in ("start", "end", "step"):
            if not math.isfinite(getattr(self, name)):
                raise InputError(
                    f"{name} must be a finite number of seconds; got {getattr(self, name)!r}"
                )
        pace = 1000 * self.step
        if round(pace) < 1 or not math.isclose(pace, round(pace), rel_tol=1e-9):
            raise InputError(
                f"step must be a whole number of milliseconds; got {self.step!r} seconds"
            )
        if not self.timeout > 0:
            raise InputError(f"timeout must be positive, in seconds; got {self.timeout!r}")
        if not isinstance(self.retries, int) or self.retries < 0:
            raise InputError(f"retries must be a whole number, 0 or more; got {self.retries!r}")

    @property
    def web(self) -> Web:
        """The address, with user and password kept apart."""
        return parse_web(
            self.url,
            "the address of a Prometheus is written http://127.0.0.1:9090, or "
            "http://user:password@127.0.0.1:9090",
        )

    def clock(self, window: float) -> tuple[Clock, int]:
        """Return the ends of all steps in whole windows, and how many there are per window."""
        start, step, length = (round(1000 * value) for value in (self.start, self.step, window))
        if length < step or length % step or not math.isclose(length, 1000 * window, rel_tol=1e-9):
            raise InputError(
                f"window must be a multiple of step, {self.step:g} s; got {window!r} seconds"
            )
        windows = (round(1000 * self.end) - start) // length
        if windows < 1:
            raise InputError(
                f"from start to end it is {self.end - self.start:g} s, less than one window of "
                f"{window:g} s"
            )
        points = windows * (length // step)
        if points > _MOST_SAMPLES:
            raise InputError(
                f"from start to end there are {points} steps of {self.step:g} s, more than "
                f"{_MOST_SAMPLES}; read a shorter time, or take a longer step"
            )
        return Clock(start + step, step, points), length // step

    def values(self, what: str, query: str, clock: Clock) -> list[Series]:
        """Return every series of an expression, at the points of a clock; at least one.

        Parameters
        ----------
        what : str
            What the expression is for, named in errors.
        query : str
            The expression, in PromQL.
        clock : Clock
            The points in time.
        """
        all_series: dict[frozenset[tuple[str, str]], Series] = {}
        for first in range(0, clock.points, _MOST_POINTS):
            count = min(_MOST_POINTS, clock.points - first)
            part = Clock(clock.start + first * clock.step, clock.step, count)
            for entry in self._matrix(what, query, part):
                labels = dict(entry["metric"])
                series = all_series.setdefault(
                    frozenset(labels.items()), Series(labels, np.full(clock.points, np.nan))
                )
                table = np.array(entry["values"], dtype=np.float64).reshape(-1, 2)
                points = part.positions(table[:, 0], self.web.url)
                series.values[first + points] = table[:, 1]
        if not any(np.isfinite(series.values).any() for series in all_series.values()):
            raise InputError(
                f"{what}: {query!r} has no value between {clock.time(0)} and "
                f"{clock.time(clock.points - 1)}; look it up in the Prometheus at {self.web.url}: "
                f"is the name right, was it scraped then?"
            )
        return list(all_series.values())

    def one(self, what: str, query: str, clock: Clock) -> Array:
        """Return the values of an expression that has one series."""
        series = self.values(what, query, clock)
        if len(series) > 1:
            raise InputError(
                f"{what}: {query!r} gives {len(series)} series, such as {series[0].labels} and "
                f"{series[1].labels}; make it one, as in sum({query})"
            )
        return series[0].values

    def _matrix(self, what: str, query: str, clock: Clock) -> list[dict[str, Any]]:
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
        entries: list[dict[str, Any]] = answer["data"]["result"]
        if any("values" not in entry for entry in entries):
            raise InputError(
                f"{what}: {query!r} is a native histogram; only classic ones, with buckets `le`, "
                f"are read: scrape it as one, too"
            )
        return entries

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
                trouble = f"HTTP {error.code}: {_reason(error)}"
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


def _reason(error: urllib.error.HTTPError) -> str:
    """Prometheus's own words, where there are some."""
    try:
        with error:
            return str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return str(error.reason)
