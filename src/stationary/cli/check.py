"""``stationary check``: is this data steady, is the answer identified, before you believe it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stationary.cli._options import Json, Reading, grouped
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.facade import Plan
    from stationary.terms.findings import Finding
    from stationary.trust.identifiability import Identifiability

_MARKS = {"ok": "ok     ", "warning": "WARNING", "unknown": "unknown"}


@grouped
def check(
    *,
    windows: Annotated[
        Path,
        typer.Argument(help="CSV or Parquet file, one row a window; or the folder of a run."),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Model and options, as in mmmk:servers=1,capacity=20, or a model file, as in "
            "tandem.toml:K=20; a run has its own."
        ),
    ] = None,
    reading: Reading,
    at: Annotated[
        list[str] | None,
        typer.Option(
            help="Loads to ask about, as in 20,30 or 20:60:10 (name=loads for each of several "
            "inputs); by default the heaviest and up to twice that."
        ),
    ] = None,
    nats: Annotated[
        float,
        typer.Option(help="How much worse than the best a fit may be that still counts."),
    ] = 2.0,
    json: Json = False,
) -> None:
    """Check the data against what the method assumes, and say what it determines.

    Windows must stand in the order in which they were recorded.

    stationary check windows.csv --model mmmk:servers=1,capacity=20 --observe 0,1 --duration 10

    stationary check run/

    Exit codes: 0 nothing speaks against a forecast; 1 something does; 2 bad input.
    """
    from stationary.cli._parse import parse_grid, parse_model
    from stationary.cli._show import as_json
    from stationary.planner import fit as run_fit
    from stationary.planner import load

    if windows.is_dir():
        if model is not None or reading != Reading():
            raise InputError(
                f"{windows} is a run, which has its model and its data: leave out --model and what "
                f"says how to read a file"
            )
        plan = load(windows)
    else:
        if not windows.exists():
            raise InputError(
                f"{windows}: there is no such run or file; 'stationary fit ... -o' makes a run"
            )
        if model is None:
            raise InputError("name a model, as in --model mmmk:servers=1,capacity=20")
        chain = parse_model(model)
        data = reading.windows(windows, chain.states)
        plan = run_fit(chain, data)
    findings = plan.findings
    known = plan.identify(parse_grid(at, plan.model.inputs) if at else None, nats)
    if json:
        typer.echo(as_json(_record(plan, findings, known)))
    else:
        _show(plan, findings, known)
    bad = [finding for finding in findings if finding.verdict == "warning"]
    if bad or not known.determined or not plan.converged:
        raise typer.Exit(1)


def _record(plan: Plan, findings: list[Finding], known: Identifiability) -> dict[str, Any]:
    from dataclasses import asdict

    from stationary import words

    horizon = plan.horizon
    return {
        "model": plan.name,
        "checks": [{**asdict(found), "sentence": words.finding(found)} for found in findings],
        "determined": known.determined,
        "parameters": known.parameters,
        "rank": known.rank,
        "condition": known.condition,
        "directions": [
            {**asdict(found), "sentence": words.direction(found)} for found in known.directions
        ],
        "ranges": known.ranges.to_dict("records"),
        "nats": known.nats,
        "dispersion": known.dispersion,
        "horizon": {**asdict(horizon), "sentence": words.sentence(words.horizon(horizon))},
        "converged": plan.converged,
        "warnings": plan.warnings(),
    }


def _show(plan: Plan, findings: list[Finding], known: Identifiability) -> None:
    from textwrap import fill

    from stationary import words

    typer.echo(f"Checked with {plan.name}: {words.observed(plan.windows)}\n")
    typer.echo("Is the data what the method assumes?")
    for finding in findings:
        text = f"  {_MARKS[finding.verdict]} {finding.check}: {words.finding(finding)}"
        typer.echo(fill(text, 100, subsequent_indent=" " * 10))
    blind = sum(finding.verdict == "unknown" for finding in findings)
    if blind:
        typer.echo(f"{blind} of {len(findings)} could not be checked on this data.")
    typer.echo("\nIs the answer determined?")
    typer.echo(words.identifiability(known))
    typer.echo("\nHow far may it be believed?")
    typer.echo(fill(words.sentence(words.horizon(plan.horizon)), 100))
    for note in plan.warnings():
        typer.echo(f"WARNING: {note}")
