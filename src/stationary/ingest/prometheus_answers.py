"""Answers of a Prometheus: received within bounds of time and size, then checked.

Whatever a server sends, the result is a list of series or an error of one sentence.
"""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from stationary._support.types import Array
from stationary.errors import InputError

_MOST_BYTES = 128 * 2**20
"""Size of one answer: 10,000 points of some 300 series."""
_CHUNK = 2**16
_SHOWN = 300
"""Characters of a server's own words that are passed on."""


@dataclass(frozen=True)
class Reply:
    """What came back for one request: its HTTP status, its reason and its body."""

    status: int
    reason: str
    body: bytes

    @property
    def explanation(self) -> str:
        """Prometheus's own words about an error, where there are some."""
        try:
            text = str(json.loads(self.body)["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            text = self.reason
        return f"{text:.{_SHOWN}}"


def receive(request: urllib.request.Request, seconds: float) -> Reply:
    """Send a request; return the reply if all of it arrives in time.

    The time-out of a socket bounds the wait for the next byte only, so a server that sends a byte
    per second would hold us for hours. The exchange therefore runs in a thread that is waited for.

    Raises
    ------
    OSError, http.client.HTTPException, ValueError
        Where there is no reply, or not in time.
    InputError
        Where it is too large.
    """
    reply = Future[Reply]()

    def exchange() -> None:
        try:
            reply.set_result(_exchange(request, seconds, monotonic() + seconds))
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            reply.set_exception(error)

    threading.Thread(target=exchange, daemon=True).start()
    try:
        return reply.result(seconds)
    except TimeoutError:
        raise TimeoutError(
            f"timed out, for the answer was not complete after {seconds:g} s (ask for less time; "
            f"'stationary ingest prometheus' takes a longer --timeout)"
        ) from None


def _exchange(request: urllib.request.Request, seconds: float, end: float) -> Reply:
    try:
        reply = urllib.request.urlopen(request, timeout=seconds)  # noqa: S310 - http, as was checked
    except urllib.error.HTTPError as error:
        reply = error
    with reply:
        body = bytearray()
        # An error without a body has nothing to read from.
        while chunk := reply.read1(_CHUNK) if reply.fp else b"":
            body += chunk
            if len(body) > _MOST_BYTES:
                raise InputError(
                    f"{request.full_url} answers with more than {_MOST_BYTES >> 20} MiB; ask for "
                    f"fewer series, as in sum(...), or take a longer step"
                )
            if monotonic() > end:
                raise TimeoutError
        if getattr(reply, "length", None):
            raise http.client.IncompleteRead(bytes(body[:0]), reply.length)
        return Reply(int(reply.status or 0), str(reply.reason), bytes(body))


@dataclass(frozen=True, eq=False)
class Series:
    """One series: its labels, and its values, or NaN, with their times in seconds."""

    labels: dict[str, str]
    times: Array
    values: Array


def parse_matrix(body: bytes, about: str, address: str) -> tuple[list[Series], list[str]]:
    """Return the series of an answer to ``query_range``, and the warnings in it.

    Errors name the question (``about``) or the address.
    """
    try:
        answer = json.loads(body)
        if answer["status"] != "success" or answer["data"]["resultType"] != "matrix":
            raise ValueError
        entries = list(answer["data"]["result"])
        native = any("histograms" in entry and "values" not in entry for entry in entries)
        series = [] if native else [_series(entry) for entry in entries]
        warnings = answer.get("warnings")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InputError(
            f"{address} does not answer as Prometheus does; got {body[:60]!r}: is this its address?"
        ) from None
    if native:
        raise InputError(
            f"{about} is a native histogram; only classic ones, with buckets `le`, are read: "
            f"scrape it as one, too"
        )
    notes = warnings if isinstance(warnings, list) else []
    return series, [f"{note!s:.{_SHOWN}}" for note in notes]


def _series(entry: Any) -> Series:
    """Return one series; raise a `ValueError` where it is not what Prometheus sends."""
    labels, pairs = dict(entry["metric"]), entry["values"]
    texts = all(isinstance(text, str) for pair in labels.items() for text in pair)
    # Values are texts in JSON, because it has no NaN and no infinity.
    if not texts or not all(
        isinstance(time, int | float) and isinstance(value, str) for time, value in pairs
    ):
        raise ValueError
    numbers = np.array([(float(time), float(value)) for time, value in pairs]).reshape(-1, 2)
    times, values = numbers.T
    if not np.isfinite(times).all() or (np.diff(times) <= 0).any():
        raise ValueError
    return Series(labels, times, values)
