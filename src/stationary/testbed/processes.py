"""Programs that are started for a while, and always stopped again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

from stationary.errors import ProgramError
from stationary.testbed.kernel import precedence

_READY = 15.0  # seconds that a server may take to answer its first request
_PATIENCE = 3.0  # seconds between asking a program to end and ending it

Process = subprocess.Popen[bytes]


def find_program(name: str) -> str | None:
    """Path of a program; servers live in ``sbin``, which is not on everyone's PATH."""
    places = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


def need_program(name: str, package: str) -> str:
    """Path of a program, or an error that says how to get it."""
    path = find_program(name)
    if path is None:
        raise ProgramError(
            f"{name} is not installed; on Debian: apt-get install {package} "
            f"(stationary testbed doctor shows what else is missing)"
        )
    return path


@contextmanager
def running(
    command: Sequence[str | Path],
    environment: Mapping[str, str],
    log: Path,
    files: Sequence[int] = (),
    rank: tuple[int, int | None] | None = None,
    answers: Callable[[], bool] | None = None,
) -> Iterator[Process]:
    """Run a program in the folder of its log; at the end it is gone, however we end.

    It inherits the open ``files`` and gets the ``rank``, a priority and a core. Of a server, this
    waits until it ``answers``. The program has a session of its own, so that Ctrl-C reaches us
    alone and programs end in our order; the kernel ends it if we are killed outright.
    """
    guard = find_program("setpriv")
    with log.open("wb") as output, precedence(*rank) if rank else nullcontext():
        process = subprocess.Popen(  # noqa: S603 - programs of our choice, no shell
            [*((guard, "--pdeathsig", "TERM") if guard else ()), *map(str, command)],
            cwd=log.parent,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=files,
        )
    try:
        if answers is not None:
            _wait_until_ready(process, log, answers)
        yield process
    finally:
        with undisturbed():
            _stop(process)


def _wait_until_ready(process: Process, log: Path, answers: Callable[[], bool]) -> None:
    """Ask a server until it answers; raise if it stops or takes too long."""
    end = time.monotonic() + _READY
    while process.poll() is None and time.monotonic() < end:
        if answers():
            return
        time.sleep(0.05)
    what = "stopped at once" if process.poll() is not None else f"gave no answer in {_READY:g} s"
    raise ProgramError(f"{log.stem} {what}; {last_words(log)}")


def last_words(log: Path) -> str:
    """Return the end of what a program wrote, for a message."""
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines()]
    errors = dict.fromkeys(line for line in lines if "error" in line.lower())  # some repeat them
    said = list(errors or lines)[-6:]
    return f"its last words: {' | '.join(said) or 'none'}"


def _stop(process: Process) -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # Workers that outlived their parent are still in the session that was made for it.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal to end into KeyboardInterrupt; ignore others until all is clean."""
    came = []

    def interrupt(*signal: object) -> None:
        came.append(signal)
        if len(came) == 1:
            raise KeyboardInterrupt

    with _handling(interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold signals to end back until what is written or cleaned up here is done."""
    came: list[object] = []
    with _handling(lambda *signal: came.append(signal)):
        yield
    if came:
        raise KeyboardInterrupt


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle every signal to end in one way for a while; only a main thread gets any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in ends}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
