"""Files that a recording of the testbed is written to, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stationary.cli._options import check_new
from stationary.errors import InputError

if TYPE_CHECKING:
    from stationary.ingest.logs import LogWindows
    from stationary.testbed.record import Trace


def check_output(output: Path, raw: Path | None, overwrite: bool) -> None:
    """Find out before the recording whether its files can be written."""
    from stationary.testbed.traces import check_trace_path

    if output.suffix.lower() != ".csv":
        raise InputError(f"{output}: windows are written as CSV; give the file the ending .csv")
    if raw is not None:
        check_trace_path(raw)
    for path in filter(None, (output, raw)):
        check_new(path, overwrite)
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
    if output == raw:
        raise InputError(f"--output and --raw are both {output}; name two files")


def write(
    traces: Sequence[Trace],
    output: Path,
    raw: Path | None,
    queue: int,
    late: float,
    service: float | None = None,
) -> None:
    """Write windows, and the raw traces if asked; say what is in them."""
    from stationary._support.files import replacing
    from stationary.testbed.record import tabulate
    from stationary.testbed.traces import write_traces

    if raw is not None:  # first, because it can be analysed again if anything goes wrong
        write_traces(traces, raw)
    made = tabulate(traces, queue, late, service)
    with replacing(output) as part:
        made.table.to_csv(part, index=False)
    typer.echo(_summary(made, output))


def _summary(made: LogWindows, output: Path) -> str:
    table = made.table
    sent, lost = int(table["sent"].sum()), int(table["unanswered"].sum())
    lines = [
        f"wrote {len(table)} windows to {output}: load {table['load'].min():g} to "
        f"{table['load'].max():g} per second",
        f"{sent} requests, {lost} lost ({lost / max(sent, 1):.1%}; the kernel dropped "
        f"{int(table['drops_socket'].sum())} at the server), {int(table['late'].sum())} late",
        f"service time {made.calibration.service * 1e6:.0f} us, propagation "
        f"{made.calibration.propagation * 1e6:.0f} us",
    ]
    if lost:
        full = float((table["full_at"] * table["unanswered"]).sum() / lost)
        lines.append(f"a lost request found {full:.1f} in the system: capacity={full:.0f}")
    return "\n".join(lines)
