"""The command line: one file per command, and the one place that turns errors into exit codes.

Exit codes: 0 fine; 1 an SLO is missed, the fit did not converge, or the answer is not to be
trusted; 2 bad input or usage; 70 an error of ours; 130 interrupted, with the work so far kept; 141
the reader of a pipe went away.
Commands import what they need when they run, so that ``--help`` does not wait for torch.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import typer

from stationary._support.plain import our_mistake
from stationary.cli._say import say
from stationary.cli.check import check
from stationary.cli.compare import compare
from stationary.cli.demo import demo
from stationary.cli.explain import explain
from stationary.cli.fit import fit
from stationary.cli.forecast import forecast
from stationary.cli.ingest import ingest
from stationary.cli.ingest_prometheus import prometheus
from stationary.cli.models import models
from stationary.cli.plan import plan
from stationary.cli.report import report
from stationary.cli.reproduce import reproduce
from stationary.cli.rules import rules
from stationary.cli.simulate import simulate
from stationary.cli.studio import studio
from stationary.cli.testbed import testbed
from stationary.errors import ConvergenceWarning, DataWarning, StationaryError, hide_passwords

app = typer.Typer(
    name="stationary",
    help="How much load can a service take? Answers from what it showed at light load.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
_FOR_PLANNERS = demo, plan, studio, explain, forecast, report, rules
_STEP_BY_STEP = fit, check, compare, simulate, models, reproduce
for command in _FOR_PLANNERS + _STEP_BY_STEP:  # in the order of the help
    app.command()(command)
ingest.command()(prometheus)
app.add_typer(ingest, name="ingest")
app.add_typer(testbed, name="testbed")


def _version(show: bool) -> None:
    if show:
        from stationary import __version__

        say(f"stationary {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    del version


def main() -> None:
    """Run the command line.

    An error that a user can mend is one message and exit code 2; any other is ours: exit code 70.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    warnings.simplefilter("ignore", ConvergenceWarning)  # the commands say it themselves
    warnings.showwarning = _show_warning
    gc.set_threshold(20_000)  # a sixth of the time to load libraries goes into looking for cycles
    waiting = threading.Timer(1.0, _say_loading)
    waiting.daemon = True
    waiting.start()
    try:
        sys.exit(app(prog_name="stationary", standalone_mode=False))
    except _UsageError as error:
        if sys.argv[1:] and error.format_message():  # otherwise the help is printed already
            _complain(_usage(error))
        sys.exit(2)
    except StationaryError as error:
        _complain(f"error: {error}")
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"error: {where}{error.strerror or error}")
        sys.exit(2)
    except Exception as error:  # noqa: BLE001  # the one place where all else ends
        _complain(f"error: {our_mistake(error, ' '.join(map(hide_passwords, sys.argv)))}")
        sys.exit(70)


_UsageError: Any = typer.BadParameter.__base__
"""What is raised for words that are no command or option; typer has no public name for it."""


def _usage(error: Any) -> str:
    """Return what is wrong with the words of a command, in one line."""
    said = error.format_message().rstrip(".").replace("Value error, ", "")
    command = error.ctx.command_path if error.ctx else "stationary"
    see = " See" if said.endswith("?") else "; see"
    return f"error: {said}{see} '{command} --help'"


def _say_loading() -> None:
    """Say on a terminal that libraries are being loaded, which takes seconds the first time."""
    loading = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    if sys.stderr.isatty() and any(getattr(spec, "_initializing", False) for spec in loading):
        say("loading ...", err=True)


def _show_warning(
    message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> None:
    del where, more
    text = str(message) if issubclass(category, DataWarning) else f"{category.__name__}: {message}"
    _complain(f"warning: {text}")


def _complain(text: str) -> None:
    """Print to the error stream: no password, and nothing from a file that steers the terminal."""
    say(hide_passwords(text), err=True)
