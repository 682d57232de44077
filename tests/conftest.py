"""Test settings, and how tests run the command line."""

import os
import sys
import warnings
from pathlib import Path

import hypothesis
import pytest
import torch

from stationary import cli
from stationary.testbed import Kamailio

# Reproducible runs; compiled kernels make the first example slow, so no deadline.
hypothesis.settings.register_profile("stationary", deadline=None, derandomize=True)
hypothesis.settings.load_profile("stationary")

# On tensors of this size torch's threads cost more than they give, most of all on a busy machine.
# Tests of our own threads ask for more.
torch.set_num_threads(1)


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command line in this process; return exit code, stdout and stderr."""
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["stationary", *map(str, args)])
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as for a user; pytest makes warnings errors
            with pytest.raises(SystemExit) as done:
                cli.main()
        out, err = capsys.readouterr()
        return done.value.code or 0, out, err

    return run


@pytest.fixture(scope="session")
def recording_file():
    """Path of the paper's testbed recording, which lies beside the project, not in it."""
    file = Path(__file__).parents[2] / "shared" / "data" / "volte-testbed-aaai20.csv"
    if not file.exists():
        pytest.skip("the paper's testbed recording is not beside the project")
    return file


@pytest.fixture(scope="session")
def machine():
    """A machine on which the testbed runs, or the reason why this is none."""
    needed = [
        need for need in Kamailio().needs() if need.name not in ("real-time priority", "cores")
    ]
    missing = [f"{need.name} ({need.remedy})" for need in needed if not need.there]
    if missing:
        reason = f"the testbed lacks {', '.join(missing)}"
        if os.environ.get("CI_REQUIRES_TESTBED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
