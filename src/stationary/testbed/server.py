"""Kamailio with one worker and a short queue, on a free port of the loopback address."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from stationary.errors import ProgramError
from stationary.testbed.buffers import PROGRAMS, Buffer
from stationary.testbed.kernel import LOOPBACK, free_port, precedence
from stationary.testbed.messages import register
from stationary.testbed.processes import need_program, running
from stationary.testbed.settings import Settings

_PRIORITY, _CORE = 40, 1
_READY = 15.0
"""Seconds that Kamailio may take to answer its first request."""


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Attributes
    ----------
    port : int
        UDP port of the loopback address on which it listens.
    pid : int
        Its main process.
    """

    port: int
    pid: int


@contextmanager
def kamailio(settings: Settings, buffer: Buffer, folder: Path) -> Iterator[Server]:
    """Run Kamailio while the context is open; its files are in ``folder``.

    Parameters
    ----------
    settings : Settings
        Service times and queue.
    buffer : Buffer
        How its receive buffer is limited.
    folder : Path
        For its configuration, its log and its sockets.
    """
    program = need_program("kamailio", "kamailio")
    port, size = free_port(), settings.buffer_bytes
    configuration, log = folder / "kamailio.cfg", folder / "kamailio.log"
    template = Template((PROGRAMS / "kamailio.cfg").read_text(encoding="utf-8"))
    # Kamailio's own $ signs are not ours, and `safe_substitute` leaves them.
    configuration.write_text(
        template.safe_substitute(port=port, service=settings.service.statements()), encoding="utf-8"
    )
    command: list[str | Path] = [program, "-DD", "-E", "-f", configuration, "-Y", folder]
    command += ["-b", str(size), "-m", "32", "-M", "8", "-P", folder / "kamailio.pid"]
    with ExitStack() as stack:
        with buffer.limit(size, folder) as environment:
            with precedence(_PRIORITY, _CORE):
                process = stack.enter_context(running(command, environment, folder, log))
            _wait_until_ready(process, port, log)
        yield Server(port, process.pid)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Ask until it answers."""
    end = time.monotonic() + _READY
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((LOOPBACK, 0))
        probe.settimeout(0.1)
        request = register(0, probe.getsockname()[1], port, "ready")
        while process.poll() is None and time.monotonic() < end:
            try:
                probe.sendto(request, (LOOPBACK, port))
                if probe.recv(2048).startswith(b"SIP/2.0 200"):
                    return
            except ConnectionError:
                time.sleep(0.05)
            except TimeoutError:
                pass
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
    what = "stopped at once" if process.poll() is not None else f"gave no answer in {_READY:g} s"
    raise ProgramError(f"Kamailio {what}; its last words: {' | '.join(said) or 'none'}")
