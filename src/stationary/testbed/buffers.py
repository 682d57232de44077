"""Ways to give Kamailio a small receive buffer, which is its queue.

Kamailio's own option can only enlarge the buffer it is given. Each way limits the buffer of a
server that is started while its context is open, and gives the environment of that server.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from stationary.errors import ProgramError
from stationary.testbed.processes import find_program, need_program, undisturbed

RECEIVE_DEFAULT = Path("/proc/sys/net/core/rmem_default")
PROGRAMS = Path(__file__).with_name("programs")
"""Sources and templates that are part of the package."""

Buffer = Callable[[int, Path], AbstractContextManager[Mapping[str, str]]]
"""Of a size in bytes, and of a folder for files."""


@contextmanager
def shim(size: int, folder: Path) -> Iterator[Mapping[str, str]]:
    """Load a small library into the server; needs gcc, no privilege, and changes no setting."""
    yield {"LD_PRELOAD": str(compiled("smallbuf", folder)), "RCVBUF": str(size)}


@contextmanager
def system_default(size: int, folder: Path) -> Iterator[Mapping[str, str]]:
    """Change the kernel's default for new sockets while the server starts; needs root."""
    del folder
    if not may_change_default():
        raise ProgramError(
            f"{RECEIVE_DEFAULT} cannot be written: run as root, or install gcc for the shim"
        )
    before = RECEIVE_DEFAULT.read_text()
    try:
        RECEIVE_DEFAULT.write_text(str(size))
        yield {}
    finally:
        with undisturbed():
            RECEIVE_DEFAULT.write_text(before)


def best_buffer() -> Buffer:
    """Return the shim where there is a compiler, for it leaves the system alone."""
    if find_program("gcc") is not None:
        return shim
    if may_change_default():
        return system_default
    raise ProgramError(
        "the server's receive buffer cannot be limited: install gcc (on Debian: apt-get install "
        "gcc libc6-dev), or run as root"
    )


def may_change_default() -> bool:
    """Whether this user may change the default buffer of new sockets."""
    return os.access(RECEIVE_DEFAULT, os.W_OK)


def compiled(name: str, folder: Path) -> Path:
    """Compile one of our shims into a folder."""
    gcc = need_program("gcc", "gcc libc6-dev")
    library = folder / f"{name}.so"
    command = [gcc, "-shared", "-fPIC", "-O2", "-o", str(library), str(PROGRAMS / f"{name}.c")]
    done = subprocess.run([*command, "-ldl"], capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise ProgramError(f"gcc cannot compile {name}.c: {done.stderr.strip()[-300:]}")
    return library
