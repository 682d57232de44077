"""What tests of real recordings leave behind: nothing, or the test fails."""

import contextlib
import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

import stationary as st
from stationary.testbed.system import MEMORY

MARK = str(uuid.uuid4())
"""In the environment of everything that a test starts."""


def running():
    """Processes that tests started: they have our mark in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if MARK.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return set(found) - {os.getpid()}


def folders():
    """Folders of recordings, ours or somebody else's, by name."""
    places = {MEMORY, Path(tempfile.gettempdir())}
    return {folder for place in places for folder in place.glob("stationary-testbed-*")}


def in_use(folder):
    """Whether a server of somebody else has its files there."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if folder.name.encode() in entry.read_bytes():
                return True
    return False


def system():
    """Settings of the machine, and how this process is scheduled."""
    network = {file.name: file.read_text() for file in Path("/proc/sys/net/core").glob("[rw]mem_*")}
    return network, os.sched_getaffinity(0), os.sched_getscheduler(0)


@contextlib.contextmanager
def leaving_nothing():
    """Fail unless no process, no file and no setting is other than before."""
    before, old = system(), folders()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESTBED_TEST", MARK)
        yield
    assert not running()
    assert not [folder for folder in folders() - old if not in_use(folder)]
    assert system() == before


def check_interruption(how, file, *options, **reading):
    """Interrupt a recording after ten windows, which it must write before it ends."""
    code = "from stationary.cli import main; main()"
    command = ["testbed", "record", "-o", file, "--windows", "500", "--seconds", "0.1", *options]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline() == "10 of 500 windows\n"
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted after" in err
    windows = st.read_windows(file, **reading)
    assert f"wrote {len(windows)} windows" in out
    assert 0 < len(windows) < 500
    assert not running()
