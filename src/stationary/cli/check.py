"""``stationary check``: what the method assumes of the data, and what they determine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

import stationary as st
from stationary import words
from stationary.cli._models import ModelText
from stationary.cli._options import Reading, command_of, refuse
from stationary.cli._parse import parse_grid
from stationary.cli._records import as_json, check_record
from stationary.cli._say import prose, say
from stationary.cli._show import stages

if TYPE_CHECKING:
    from stationary.trust.identifiability import Identifiability

_MARKS = {"ok": "ok     ", "warning": "WARNING", "unknown": "unknown"}


@command_of
def check(
    *,
    windows: Path,
    model: str | None = None,
    reading: Reading,
    at: list[str] | None = None,
    json: bool = False,
) -> None:
    """Check the data against what the method assumes, and say what they determine.

    The rows must be in the order in which the windows were recorded.

    stationary check windows.csv --model mmmk:servers=1,capacity=20 --observe 0,1 --duration 10

    stationary check run/

    Exit codes: 0 there is no known reason against a forecast; 1 there is one; 2 bad input.

    Arguments
    ---------
    windows: CSV or Parquet file, one row per window; or the folder of a run.

    Options
    -------
    model: Model and options, as in mmmk:servers=1,capacity=20, or a model file, as in
        tandem.toml:K=20; a run has its own.
    at: Loads to ask about, as in 20,30 or 20:60:10 (name=loads for each of several inputs); by
        default the heaviest and up to twice that.
    """
    named = None if model is None else ModelText(model)
    is_run = windows.is_dir()
    refuse(
        (
            is_run and (named is not None or reading != Reading()),
            f"{windows} is a run, which has its model and its data: leave out --model and the "
            f"options that say how to read a file",
        ),
        (
            not windows.exists(),
            f"{windows}: there is no such run or file; 'stationary fit ... -o' makes a run",
        ),
        (
            named is None and not is_run,
            "name a model, as in --model mmmk:servers=1,capacity=20",
        ),
    )
    if named is not None:
        named.check()
        reading.check(windows, named.columns(reading.x))

    if named is None:
        plan = st.load(windows)
    else:
        chain = named.model()
        plan = st.fit(chain, reading.windows(windows, chain.states))
    with stages() as progress:
        progress("searching for what the data leave open")
        known = plan.identify(parse_grid(at, plan.model.inputs, plan.heaviest) if at else None)
    if json:
        say(as_json(check_record(plan, known)))
    else:
        _show(plan, known)
    warned = any(finding.verdict == "warning" for finding in plan.findings)
    if warned or not known.determined or not plan.converged:
        raise typer.Exit(1)


def _show(plan: st.Plan, known: Identifiability) -> None:
    findings = plan.findings
    prose(f"Checked with {plan.name}: {words.observed(plan.windows)}")
    say()
    say("Are the data what the method assumes?")
    for finding in findings:
        text = f"  {_MARKS[finding.verdict]} {finding.check}: {words.finding(finding)}"
        prose(text, hang=" " * 10)
    prose(words.checked(findings))
    say("\nIs the answer determined?")
    prose(words.identifiability(known))
    say("\nUp to which load can it be trusted?")
    prose(words.sentence(words.horizon(plan.horizon)))
    for note in plan.warnings():
        prose(f"WARNING: {note}")
