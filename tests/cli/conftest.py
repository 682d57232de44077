"""How the tests of the command line run it."""

import sys
import warnings

import pytest

from stationary import cli


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
