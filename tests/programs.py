"""Programs of others that tests run for real."""

import os
import shutil
import socket
import time

import pytest


def absent(what):
    """Skip the test, or fail where all engines must be there."""
    if os.environ.get("CI_REQUIRES_ENGINES") == "1":
        pytest.fail(what)
    pytest.skip(what)


def required(name):
    """Path of a program; without it the test is skipped, or fails where all engines must be."""
    found = shutil.which(name)
    if found is None:
        absent(f"{name} is not installed (Debian: apt-get install prometheus haproxy caddy)")
    return found


def wait_until(ready, what, seconds=20.0):
    """Wait until something is so; fail where that takes too long."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"{what} took too long"
        time.sleep(0.05)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
