"""Programs of others that tests run for real."""

import os
import shutil
import socket

import pytest


def required(name):
    """Path of a program; without it the test is skipped, or fails where all engines must be."""
    found = shutil.which(name)
    if found is None:
        reason = f"{name} is not installed (Debian: apt-get install prometheus)"
        if os.environ.get("CI_REQUIRES_ENGINES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
