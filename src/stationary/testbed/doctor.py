"""What the testbed needs of a machine, what is there, and how to get the rest."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from stationary.errors import ProgramError
from stationary.testbed.buffers import Shim, best_buffer
from stationary.testbed.kernel import may_run_first
from stationary.testbed.processes import find_program

_MODULES = ("pv.so", "sl.so", "cfgutils.so")
_COUNTERS = (Path("/proc/net/udp"), Path("/proc/net/snmp"))


@dataclass(frozen=True)
class Need:
    """One thing that the testbed needs, or works better with.

    Attributes
    ----------
    name : str
        What it is.
    there : bool
        Whether this machine has it.
    required : bool
        Whether nothing can be recorded without it.
    sentence : str
        The state of this machine.
    remedy : str
        How to get it; empty where nothing is to be done.
    """

    name: str
    there: bool
    required: bool
    sentence: str
    remedy: str = ""


def examine() -> list[Need]:
    """Examine this machine, without changing anything."""
    if platform.system() != "Linux":
        state = f"this is {platform.system()}, and only Linux counts lost requests"
        return [Need("Linux", False, True, state, "use a Linux machine, real or virtual")]
    readable = all(os.access(path, os.R_OK) for path in _COUNTERS)
    counters = f"{' and '.join(map(str, _COUNTERS))} are {'' if readable else 'not '}readable"
    first, cores = may_run_first(), len(os.sched_getaffinity(0))
    real_time = "allowed" if first else "not allowed: other programs disturb the recording"
    shared = "" if cores > 1 else ": server and generator share it"
    without_sipp = "not installed: only --generator native works"
    without_gcc = (
        "not installed: without it SIPp's clock is too coarse to be used, and only root can limit "
        "the queue"
    )
    return [
        _need("kernel counters", readable, True, counters, "mount /proc: they count lost requests"),
        _program("kamailio", "kamailio", True, "not installed", r"kamailio (\d[\w.]*)"),
        _modules(),
        _program("sipp", "sip-tester", False, without_sipp, r"SIPp v(\d[\w.]*)"),
        _program("gcc", "gcc libc6-dev", False, without_gcc, r"(\d+\.[\d.]+)"),
        _queue_limit(),
        _need(
            "real-time priority",
            first,
            False,
            real_time,
            "run as root, or raise the limit: ulimit -r 40",
        ),
        _need(
            "cores",
            cores > 1,
            False,
            f"{cores} to run on{shared}",
            "use a machine with two cores or more",
        ),
    ]


def modules_folder() -> Path | None:
    """Return the folder in which the installed Kamailio looks for modules."""
    path = find_program("kamailio")
    line = re.search(r"paths? to modules: *(\S+)", _output(path, "-I")) if path else None
    return Path(line[1].split(":")[0]) if line else None


def _need(name: str, there: bool, required: bool, sentence: str, remedy: str) -> Need:
    return Need(name, there, required, sentence, "" if there else remedy)


def _program(name: str, package: str, required: bool, without: str, version: str) -> Need:
    """Return whether a program is installed, and its version by a pattern of what it prints."""
    path = find_program(name)
    if path is None:
        return Need(name, False, required, without, f"apt-get install {package}")
    found = re.search(version, _output(path, "--version" if name == "gcc" else "-v"))
    return Need(name, True, required, f"{path}, version {found[1] if found else 'unknown'}")


def _modules() -> Need:
    folder = modules_folder()
    missing = [name for name in _MODULES if folder is None or not (folder / name).exists()]
    state = f"{', '.join(_MODULES)} in {folder}"
    if folder is None:
        state = "their folder is not known"
    elif missing:
        state = f"{folder} lacks {', '.join(missing)}"
    return _need("kamailio modules", not missing, True, state, "apt-get install kamailio")


def _queue_limit() -> Need:
    state = "by net.core.rmem_default, changed while the server starts"
    try:
        if isinstance(best_buffer(), Shim):
            state = "by the shim, which leaves the system's settings alone"
    except ProgramError:
        state = "no compiler for the shim, and net.core.rmem_default cannot be written"
        return Need("queue limit", False, True, state, "install gcc, or run as root")
    return Need("queue limit", True, True, state)


def _output(program: str, option: str) -> str:
    """Return what a program prints, whatever its exit code."""
    done = subprocess.run([program, option], capture_output=True, text=True, timeout=20)  # noqa: S603
    return done.stdout + done.stderr
