"""Answers for people: tables, and how far the work is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stationary.cli._say import printable, say

if TYPE_CHECKING:
    import pandas as pd

_PATIENCE = 2.0
"""Seconds of work before a progress bar shows."""


def table(title: str, columns: list[str], rows: list[list[str]], left: int = 1) -> None:
    """Print a table whose first ``left`` columns are text and the others numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def as_is(text: str) -> Text:  # not as markup, which a name from a file may look like
        return Text(printable(text))

    shown = Table(title=as_is(title), title_justify="left", title_style="bold")
    for k, name in enumerate(columns):
        shown.add_column(as_is(name), justify="left" if k < left else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(as_is, row))
    # When the output goes to a file there is no edge to fold at.
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(shown)


def forecast_table(frame: pd.DataFrame, title: str) -> None:
    """Print a forecast: inputs, then each measure with its interval."""
    from stationary.words import number, plain, untrusted_rows

    # Of a single window only the ends are known; they stand behind those of the long run.
    ends = [name.removesuffix("_low") for name in frame if name.endswith("_low")]
    measures = [name for name in ends if not name.endswith("_seen")]
    inputs = list(frame.columns[: frame.columns.get_loc(measures[0])])
    rows = []
    for row in frame.to_dict("records"):
        cells = [number(row[name]) for name in inputs]
        for name in measures:
            low, high = number(row[f"{name}_low"]), number(row[f"{name}_high"])
            cells.append(f"{number(row[name])} [{low}, {high}]")
            if f"{name}_seen" in ends:
                low, high = number(row[f"{name}_seen_low"]), number(row[f"{name}_seen_high"])
                cells[-1] += f"; one window {low} to {high}"
        rows.append([*cells, "yes" if row["trusted"] else "no"])
    table(title, [*inputs, *map(plain, measures), "trusted"], rows, 0)
    for reason in sorted(set(frame.loc[~frame["trusted"], "reason"])):
        count = int((frame["reason"] == reason).sum())
        say(untrusted_rows(count, len(frame), reason))


@contextmanager
def progress_bar(
    what: str, total: int, at_once: bool = False, still: bool = False
) -> Iterator[Callable[[int, str], None] | None]:
    """Yield a function of what is done and a text; on a terminal, after two seconds, a bar.

    ``at_once`` shows the bar from the start, for work whose first report may take minutes. A
    ``still`` bar is drawn only by these calls, for work that a drawing thread would disturb.
    """
    if not sys.stderr.isatty():
        yield None
        return
    import time

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    began = time.monotonic()
    columns = (
        TextColumn(what),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, auto_refresh=not still)
    job = bar.add_task("", total=total)

    if at_once:
        bar.start()

    def update(done: int, text: str) -> None:
        if time.monotonic() - began > _PATIENCE:
            bar.start()
            bar.update(job, completed=done, description=printable(text), refresh=still)

    try:
        yield update
    finally:
        bar.stop()


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """Yield a function of what is being done; on a terminal it shows, with the time it took."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        job = bar.add_task("starting", total=None)
        yield lambda text: bar.update(job, description=text)
