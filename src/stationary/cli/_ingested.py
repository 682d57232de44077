"""What the commands of ``stationary ingest`` write and say in the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from stationary.ingest.result import Ingested


def finish(made: Ingested, output: Path, capacity: int | None, json: bool) -> None:
    """Write windows; say what is in them, for people or for programs."""
    from stationary.cli._show import as_json

    made.write(output)
    if json:
        typer.echo(as_json({**made.record(), "output": str(output)}))
    else:
        _show(made, output, capacity)


def _show(made: Ingested, output: Path, capacity: int | None) -> None:
    from stationary.cli._show import table
    from stationary.words import sentence

    loads = made.table["load"]
    typer.echo(
        f"wrote {len(made.table)} windows to {output}: load {loads.min():g} to {loads.max():g}, "
        f"of {made.rows} rows; sampling={made.sampling}"
        + ("" if made.duration is None else f", duration={made.duration:g}")
    )
    rows = [[item.why, str(item.windows), str(item.rows)] for item in made.dropped]
    if rows:
        table("left out", ["why", "windows", "rows"], rows)
    for note in made.notes:
        typer.echo(sentence(note))
    typer.echo(f"next: {_next(made, output, capacity)}")


def _next(made: Ingested, output: Path, capacity: int | None) -> str:
    """Return the command that fits these windows; the short queues tell of the long ones."""
    short = [k for k in range(4) if f"Q={k}" in made.table and k != capacity]
    room = "CAPACITY" if capacity is None else str(capacity)
    command = f"stationary fit {shlex.quote(str(output))} --model mmmk:servers=1,capacity={room}"
    return f"{command} --observe 0-{short[-1]}" if len(short) > 1 else command
