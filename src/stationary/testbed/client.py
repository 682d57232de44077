"""An open-loop HTTP client: requests leave at given times, whatever became of those before.

Each request has a connection of its own, and is given up after a while. All run on one event loop,
which the requests of one window hand on to the next.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from stationary.testbed.kernel import LOOPBACK

_STALL = 5e-3
"""Seconds by which a request that leaves late has been held up; the loop's own timer has 1 ms."""


@dataclass(slots=True)
class Request:
    """A request, and what became of it; times are in seconds."""

    due: float  # since the beginning
    target: float  # requests per second of its step
    service: float  # what it is to take
    path: str  # which tells the server so
    arrival: float = math.nan  # since 1970
    stalled: bool = False  # it left late
    response: float = math.nan  # until the last byte of the answer; NaN without one
    status: str = ""  # that of the answer, or timeout, refused, broken; empty until then
    took: float = math.nan  # what the server says that it took


class Client(AbstractContextManager["Client"]):
    """Sends requests to a port of the loopback address; each has so many seconds of patience."""

    def __init__(self, port: int, patience: float) -> None:
        self._address, self._patience = (LOOPBACK, port), patience
        self._runner = asyncio.Runner()
        self._pending: set[asyncio.Task[None]] = set()

    def __exit__(self, *error: object) -> None:
        self._runner.close()

    def send(self, requests: Sequence[Request], begin: float, until: float) -> None:
        """Send requests when they are due; both times are of the monotonic clock."""
        self._runner.run(self._send(requests, begin, until))

    def finish(self) -> None:
        """Wait until every request has been answered or given up."""
        self._runner.run(self._finish())

    async def _send(self, requests: Sequence[Request], begin: float, until: float) -> None:
        for request in requests:
            await asyncio.sleep(begin + request.due - time.monotonic())
            request.stalled = time.monotonic() > begin + request.due + _STALL
            task = asyncio.create_task(self._ask(request))
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)
        await asyncio.sleep(until - time.monotonic())

    async def _finish(self) -> None:
        await asyncio.gather(*self._pending)

    async def _ask(self, request: Request) -> None:
        request.arrival, began = time.time(), time.perf_counter()
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._exchange(request.path)
        except TimeoutError:
            request.status = "timeout"
        except ConnectionRefusedError:
            request.status = "refused"
        except OSError:
            request.status = "broken"  # the connection, before the answer was complete
        else:
            head, _, body = answer.partition(b"\r\n\r\n")
            request.response = time.perf_counter() - began
            request.status = head.split(b" ", 2)[1].decode()
            if request.status == "200":
                request.took = float(body)

    async def _exchange(self, path: str) -> bytes:
        loop, answer = asyncio.get_running_loop(), b""
        with socket.socket() as wire:
            wire.setblocking(False)
            await loop.sock_connect(wire, self._address)
            await loop.sock_sendall(wire, http_request(path))
            while part := await loop.sock_recv(wire, 4096):
                answer += part
        if not answer:
            raise ConnectionAbortedError
        return answer


def http_request(path: str) -> bytes:
    """Return a request for a path, the only one of its connection."""
    return f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode()
