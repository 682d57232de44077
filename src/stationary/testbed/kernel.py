"""What the kernel knows and allows: lost datagrams, receive buffers, priorities, cores."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stationary.errors import ProgramError

LOOPBACK = "127.0.0.1"

COUNTERS = _UDP, _SNMP = Path("/proc/net/udp"), Path("/proc/net/snmp")
"""Where the kernel counts datagrams that it had no buffer for."""

_TIMER_SLACK = Path("/proc/self/timerslack_ns")


def socket_drops(port: int) -> int:
    """Datagrams that the socket on this port of the loopback address had no buffer for."""
    address = int.from_bytes(socket.inet_aton(LOOPBACK), sys.byteorder)
    local = f"{address:08X}:{port:04X}"
    for line in _UDP.read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1] == local:
            return int(fields[-1])
    raise ProgramError(f"nothing listens on UDP port {port} any more: the server has stopped")


def receive_errors() -> int:
    """Datagrams that any socket of this machine had no buffer for."""
    names, values = (
        line.split() for line in _SNMP.read_text().splitlines() if line.startswith("Udp:")
    )
    return int(values[names.index("RcvbufErrors")])


def free_port() -> int:
    """Return a free UDP port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def precedence(priority: int, core: int | None) -> Iterator[bool]:
    """Run before all others, as do programs started meanwhile, on one core if it is given.

    Yields whether that is allowed. Without the right to a real-time priority the timers are at
    least made sharp.
    """
    cores = os.sched_getaffinity(0)
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    slack = _TIMER_SLACK.read_text() if _TIMER_SLACK.exists() else None
    allowed = False
    try:
        ordered = sorted(cores)
        if core is not None and len(ordered) > 1:
            os.sched_setaffinity(0, {ordered[core % len(ordered)]})
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            allowed = True
        if not allowed:
            _set_timer_slack("1")
        yield allowed
    finally:
        if allowed:
            os.sched_setscheduler(0, policy, parameters)
        elif slack is not None:
            _set_timer_slack(slack.strip())
        os.sched_setaffinity(0, cores)


def may_run_first() -> bool:
    """Whether this process may take a real-time priority."""
    with precedence(1, 0) as allowed:
        return allowed


def _set_timer_slack(nanoseconds: str) -> None:
    with suppress(OSError):
        _TIMER_SLACK.write_text(nanoseconds)
