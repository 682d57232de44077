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
    """One thing the testbed needs or likes to have.

    Attributes
    ----------
    name : str
        What it is.
    there : bool
        Whether this machine has it.
    required : bool
        Whether nothing can be recorded without.
    sentence : str
        What was found.
    remedy : str
        How to get it; empty where nothing is to be done.
    """

    name: str
    there: bool
    required: bool
    sentence: str
    remedy: str = ""


def examine() -> list[Need]:
    """Look at this machine, without changing anything."""
    if platform.system() != "Linux":
        found = f"this is {platform.system()}, and lost requests are counted by Linux only"
        return [Need("Linux", False, True, found, "use a Linux machine, real or virtual")]
    return [
        _counters(),
        _kamailio(),
        _modules(),
        _sipp(),
        _gcc(),
        _queue_limit(),
        _real_time(),
        _cores(),
    ]


def _counters() -> Need:
    there = all(os.access(path, os.R_OK) for path in _COUNTERS)
    found = "readable" if there else "not readable"
    return Need(
        "kernel counters",
        there,
        True,
        f"{' and '.join(map(str, _COUNTERS))} are {found}",
        "" if there else "mount /proc: they count the lost requests",
    )


def _kamailio() -> Need:
    path = find_program("kamailio")
    if path is None:
        return Need("kamailio", False, True, "not installed", "apt-get install kamailio")
    version = re.search(r"kamailio (\d[\w.]*)", _says([path, "-v"]))
    return Need("kamailio", True, True, f"{path}, version {version[1] if version else 'unknown'}")


def _modules() -> Need:
    folder = modules_folder()
    if folder is None:
        return Need(
            "kamailio modules", False, True, "their folder is not known", "apt-get install kamailio"
        )
    missing = [name for name in _MODULES if not (folder / name).exists()]
    if missing:
        found = f"{folder} lacks {', '.join(missing)}"
        return Need("kamailio modules", False, True, found, "apt-get install kamailio")
    return Need("kamailio modules", True, True, f"{', '.join(_MODULES)} in {folder}")


def modules_folder() -> Path | None:
    """Folder in which the installed Kamailio looks for modules."""
    path = find_program("kamailio")
    if path is None:
        return None
    found = re.search(r"paths? to modules: *(\S+)", _says([path, "-I"]))
    return Path(found[1].split(":")[0]) if found else None


def _sipp() -> Need:
    path = find_program("sipp")
    if path is None:
        return Need(
            "sipp",
            False,
            False,
            "not installed: only --generator native works",
            "apt-get install sip-tester",
        )
    version = re.search(r"SIPp v(\d[\w.]*)", _says([path, "-v"]))
    return Need("sipp", True, False, f"{path}, version {version[1] if version else 'unknown'}")


def _gcc() -> Need:
    path = find_program("gcc")
    if path is None:
        return Need(
            "gcc",
            False,
            False,
            "not installed: without it SIPp's clock is too coarse to be used, and only root can "
            "limit the queue",
            "apt-get install gcc libc6-dev",
        )
    return Need("gcc", True, False, f"{path} compiles the shims")


def _queue_limit() -> Need:
    try:
        shim = isinstance(best_buffer(), Shim)
    except ProgramError:
        return Need(
            "queue limit",
            False,
            True,
            "no compiler for the shim, and net.core.rmem_default cannot be written",
            "install gcc, or run as root",
        )
    how = "by the shim, which leaves the system's settings alone"
    if not shim:
        how = "by net.core.rmem_default, changed while the server starts"
    return Need("queue limit", True, True, how)


def _real_time() -> Need:
    there = may_run_first()
    return Need(
        "real-time priority",
        there,
        False,
        "allowed" if there else "not allowed: other programs disturb the recording",
        "" if there else "run as root, or raise the limit: ulimit -r 40",
    )


def _cores() -> Need:
    cores = len(os.sched_getaffinity(0))
    return Need(
        "cores",
        cores > 1,
        False,
        f"{cores} to run on" + ("" if cores > 1 else ": server and generator share it"),
        "" if cores > 1 else "use a machine with two cores or more",
    )


def _says(command: list[str]) -> str:
    """What a program prints, whatever its exit code."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)  # noqa: S603
    return done.stdout + done.stderr
