"""Values of a PromQL expression over time, from the HTTP interface of a Prometheus."""

from __future__ import annotations

import http.client
import json
import math
import threading
import urllib.error
import urllib.parse
import urllib.request
import warnings
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, FiniteFloat, ValidationError

from stationary._support.arguments import explained
from stationary._support.types import Array
from stationary.errors import DataWarning, InputError, ProgramError
from stationary.ingest.addresses import parse_web

Times = NDArray[np.int64]

_MOST_POINTS = 10_000
"""Points of one answer; Prometheus refuses more than 11,000."""
_MOST_SAMPLES = 1_000_000
"""Of one series: half a year at 15 s."""
_MOST_VALUES = 100_000_000
"""Samples of all series together: 800 MB."""
_MOST_BYTES = 128 * 2**20
"""Size of one answer: 10,000 points of some 300 series."""
_CHUNK = 2**16
_SHOWN = 300
"""Characters of a server's own words that are passed on."""
_MOST_WARNINGS = 5
_WAIT = 0.5
"""Seconds before a question is repeated; twice as many before each further repeat."""
_LONGEST_WAIT = 86_400.0
_PASSING = (429, 500, 502, 503, 504)
"""HTTP answers that may change after a moment."""


class _Entry(BaseModel):
    """One series as it comes: pairs of a time in seconds and a value."""

    metric: dict[str, str]
    # Numbers are texts in JSON, because it has no NaN and no infinity.
    values: list[tuple[FiniteFloat, float]] = []
    histograms: list[Any] = []


class _Matrix(BaseModel):
    resultType: Literal["matrix"]  # noqa: N815 - as Prometheus writes it
    result: list[_Entry]


class _Answer(BaseModel):
    status: Literal["success"]
    data: _Matrix
    warnings: list[Any] | None = None


@dataclass(frozen=True, eq=False)
class Series:
    """One series: its labels, and its values, or NaN, at the times that were asked for."""

    labels: dict[str, str]
    values: Array


@explained
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
        Seconds to wait for a complete answer.
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
        _ = self._web
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
        if not 0 < self.timeout <= _LONGEST_WAIT:
            raise InputError(
                f"timeout must be positive, in seconds, and at most a day; got {self.timeout!r}"
            )
        if not isinstance(self.retries, int) or self.retries < 0:
            raise InputError(f"retries must be a whole number, 0 or more; got {self.retries!r}")

    @property
    def address(self) -> str:
        """The address without user and password."""
        return self._web[0]

    @property
    def _web(self) -> tuple[str, dict[str, str]]:
        return parse_web(
            self.url,
            "the address of a Prometheus is written http://127.0.0.1:9090, or "
            "http://user:password@127.0.0.1:9090",
        )

    def times(self, window: float) -> tuple[Times, int]:
        """Return the start and the end of every step in whole windows, and the steps per window.

        Times are in milliseconds since 1970, in which Prometheus counts.
        """
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
        return start + step * np.arange(points + 1), length // step

    def values(self, what: str, query: str, times: Times) -> list[Series]:
        """Return every series of an expression at equally spaced times; errors name ``what``."""
        series: dict[frozenset[tuple[str, str]], Series] = {}
        for first in range(0, len(times), _MOST_POINTS):
            part = times[first : first + _MOST_POINTS]
            answered = self._matrix(what, query, part)
            if len(answered) * len(times) > _MOST_VALUES:
                raise InputError(
                    f"{what}: {query!r} gives {len(answered)} series of {len(times)} samples, too "
                    f"many to hold; ask for fewer series, as in sum({query}), or a shorter time"
                )
            for entry in answered:
                moments, values = np.array(entry.values).reshape(-1, 2).T
                one = series.setdefault(
                    frozenset(entry.metric.items()),
                    Series(entry.metric, np.full(len(times), np.nan)),
                )
                one.values[first + self._positions(moments, part)] = values
        if not any(np.isfinite(one.values).any() for one in series.values()):
            raise InputError(
                f"{what}: {query!r} has no value between {in_utc(times[0])} and "
                f"{in_utc(times[-1])}; look it up in the Prometheus at {self.address}: is the name "
                f"right, was it scraped then?"
            )
        return list(series.values())

    def one(self, what: str, query: str, times: Times) -> Array:
        """Return the values of an expression that has one series."""
        series = self.values(what, query, times)
        if len(series) > 1:
            raise InputError(
                f"{what}: {query!r} gives {len(series)} series, such as {series[0].labels!s:.200} "
                f"and {series[1].labels!s:.200}; make it one, as in sum({query})"
            )
        return series[0].values

    def _positions(self, seconds: Array, times: Times) -> Times:
        """Return which of the times an answer is for; a cache may have moved them."""
        step = round(1000 * self.step)
        nearest = np.rint((1000 * seconds - times[0]) / step)
        inside = (nearest >= 0) & (nearest < len(times))
        off = np.abs(1000 * seconds - times[0] - nearest * step) > 1
        if (off | ~inside).any():
            raise InputError(
                f"{self.address} answers for {seconds[off | ~inside][0]:.3f} s since 1970, which "
                f"is not one of the {len(times)} points asked for, {step} ms apart from "
                f"{in_utc(times[0])}: is there a cache before it that moves them?"
            )
        return nearest.astype(np.int64)

    def _matrix(self, what: str, query: str, times: Times) -> list[_Entry]:
        """Return the series of one answer to ``query_range``."""
        form = {
            "query": query,
            "start": f"{times[0] / 1000:.3f}",
            "end": f"{times[-1] / 1000:.3f}",
            "step": f"{self.step:.3f}",
            "nocache": "1",  # VictoriaMetrics moves the points of what it may cache
        }
        about = f"{what}: {query!r}"
        body = self._ask(about, urllib.parse.urlencode(form).encode())
        answer = parse_answer(body, about, self.address)
        for note in (answer.warnings or [])[:_MOST_WARNINGS]:
            text = f"{what}: Prometheus warns: {note!s:.{_SHOWN}}"
            warnings.warn(text, DataWarning, stacklevel=2)
        return answer.data.result

    def _ask(self, about: str, form: bytes) -> bytes:
        """Send a form to ``query_range``, again where that may help, and return the answer."""
        address = f"{self.address}/api/v1/query_range"
        question = urllib.request.Request(address, form)  # noqa: S310 - http, as was checked
        for name, value in self._web[1].items():
            question.add_unredirected_header(name, value)  # another host must not see it
        for attempt in range(self.retries + 1):
            if attempt:
                sleep(_WAIT * 2 ** (attempt - 1))
            try:
                return _receive(question, self.timeout)
            except urllib.error.HTTPError as error:
                with error:  # the connection, too, ends here
                    trouble = f"HTTP {error.code}: {_explanation(error)}"
                if error.code not in _PASSING:
                    raise InputError(f"{about}: Prometheus says {trouble}") from None
            except InputError:
                raise
            except (OSError, http.client.HTTPException, ValueError) as error:
                trouble = str(getattr(error, "reason", error) or type(error).__name__)
        tries = "once" if not self.retries else f"{self.retries + 1} times"
        raise ProgramError(
            f"no answer from the Prometheus at {self.address}, asked {tries}: {trouble}; is it "
            f"running, and is this its address?"
        )


def _receive(question: urllib.request.Request, seconds: float) -> bytes:
    """Send a question; return the answer if all of it arrives in time.

    The time-out of a socket bounds the wait for the next byte only, and a server that sends its
    head byte by byte would hold us for hours. So a thread asks, and is waited for.
    """
    answer = Future[bytes]()

    def exchange() -> None:
        try:
            answer.set_result(_exchange(question, seconds, monotonic() + seconds))
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            answer.set_exception(error)

    threading.Thread(target=exchange, daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise TimeoutError(
            f"timed out, for the answer was not complete after {seconds:g} s (ask for less time; "
            f"'stationary ingest prometheus' takes a longer --timeout)"
        ) from None


def _exchange(question: urllib.request.Request, seconds: float, end: float) -> bytes:
    body = bytearray()
    with urllib.request.urlopen(question, timeout=seconds) as reply:  # noqa: S310 - as above
        while chunk := reply.read1(_CHUNK):
            body += chunk
            if len(body) > _MOST_BYTES:
                raise InputError(
                    f"{question.full_url} answers with more than {_MOST_BYTES >> 20} MiB; ask for "
                    f"fewer series, as in sum(...), or take a longer step"
                )
            if monotonic() > end:
                raise TimeoutError
        if reply.length:
            raise http.client.IncompleteRead(b"", reply.length)
    return bytes(body)


def _explanation(error: urllib.error.HTTPError) -> str:
    """Return Prometheus's own words about an error, where there are some."""
    try:
        text = str(json.loads(error.read1(_CHUNK))["error"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        text = error.reason
    return f"{text:.{_SHOWN}}"


def parse_answer(body: bytes, about: str, address: str) -> _Answer:
    """Return an answer to ``query_range``; errors name the question (``about``) or the address."""
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError:
        raise InputError(
            f"{address} does not answer as Prometheus does; got {body[:60]!r}: is this its address?"
        ) from None
    if any(entry.histograms and not entry.values for entry in answer.data.result):
        raise InputError(
            f"{about} is a native histogram; only classic ones, with buckets `le`, are read: "
            f"scrape it as one, too"
        )
    return answer


def in_utc(time: int) -> str:
    """Write a time in milliseconds since 1970 for people."""
    return f"{np.datetime_as_string(np.datetime64(int(time), 'ms'))}Z"
