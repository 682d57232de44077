"""Answers for people: tables, and how far the work is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from stationary.cli._say import printable, prose, write
from stationary.words import ends as interval
from stationary.words import number, plain, untrusted_rows, value

if TYPE_CHECKING:
    import pandas as pd

_PATIENCE = 2.0  # seconds of work before a progress bar shows
_NO_EDGE = 10_000  # columns of a table that may be as wide as it is
_NARROW, _MEASURE = 10, 20  # columns of the terminal for an input, and for a measure
_USUAL = ("loss", "response_time", "p99")  # measures of a forecast that planners ask for first


def table(
    title: str,
    columns: list[str],
    rows: list[list[str]],
    left: int = 1,
    wide: bool = False,
    more: Sequence[str] = (),
) -> None:
    """Print a table whose first ``left`` columns are text and the others numbers.

    It fits the terminal, or 80 columns where there is none. The columns that ``more`` names are
    shown only if it may be as ``wide`` as it is.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def as_is(text: str) -> Text:  # not as markup, which a name from a file may look like
        return Text(printable(text))

    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    chosen = [k for k, name in enumerate(columns) if wide or name not in more]
    for k in chosen:
        justify: Literal["left", "right"] = "left" if k < left else "right"
        shown.add_column(as_is(columns[k]), justify=justify, overflow="fold")
    for row in rows:
        shown.add_row(*(as_is(row[k]) for k in chosen))
    console = Console(width=_NO_EDGE if wide else None, highlight=False)
    with console.capture() as text:
        if title:
            console.print(as_is(title), style="bold")
        console.print(shown)
    write(text.get(), nl=False)
    if more and not wide:
        prose(f"--wide shows more: {', '.join(more)}.")


def forecast_table(
    frame: pd.DataFrame, title: str, wide: bool = False, named: bool = False, units: bool = False
) -> None:
    """Print a forecast: inputs, then each measure above its interval.

    Of measures that the user has not ``named``, those that planners ask for first are shown, unless
    the table may be ``wide``. What does not fit beside one another is printed one below the other.
    Values have ``units`` where times are known to be in seconds.
    """
    from rich.console import Console

    # Of a single window only the ends are known; they stand below those of the long run.
    ends = [name.removesuffix("_low") for name in frame if name.endswith("_low")]
    measures = [name for name in ends if not name.endswith("_seen")]
    inputs = list(frame.columns[: frame.columns.get_loc(measures[0])])
    usual = [name for name in _USUAL if name in measures]
    shown = measures if wide or named or not usual else usual

    def between(row: dict[Hashable, Any], name: str, of: str) -> str:
        low, high = row[f"{of}_low"], row[f"{of}_high"]
        return interval(name, low, high) if units else f"{number(low, 3)} to {number(high, 3)}"

    def cell(row: dict[Hashable, Any], name: str) -> str:
        text = value(name, row[name]) if units else number(row[name], 3)
        text += f"\n{between(row, name, name)}"
        if f"{name}_seen" in ends:
            text += f"\none window\n{between(row, name, f'{name}_seen')}"
        return text

    edge = _NO_EDGE if wide else Console().width
    most = max(1, (edge - _NARROW * (len(inputs) + 1)) // _MEASURE)
    for k in range(0, len(shown), most):
        names = shown[k : k + most]
        rows = [
            [
                *(number(row[name]) for name in inputs),
                *(cell(row, name) for name in names),
                "yes" if row["trusted"] else "no",
            ]
            for row in frame.to_dict("records")
        ]
        table("" if k else title, [*inputs, *map(plain, names), "trusted"], rows, 0, wide)
    if len(shown) < len(measures):
        left_out = [plain(name) for name in measures if name not in shown]
        prose(f"--wide shows more: {', '.join(left_out)}.")
    for reason in sorted(set(frame.loc[~frame["trusted"], "reason"])):
        count = int((frame["reason"] == reason).sum())
        prose(untrusted_rows(count, len(frame), reason))


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
    from rich import console, progress

    began = time.monotonic()
    columns = (
        what,
        progress.BarColumn(),
        "{task.completed}/{task.total}",
        "{task.description}",
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    shown = console.Console(stderr=True)
    bar = progress.Progress(*columns, console=shown, transient=True, auto_refresh=not still)
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
    from rich import console, progress

    columns = progress.SpinnerColumn(), "{task.description}", progress.TimeElapsedColumn()
    shown = console.Console(stderr=True)
    with progress.Progress(*columns, console=shown, transient=True) as bar:
        job = bar.add_task("starting", total=None)
        yield lambda text: bar.update(job, description=text)
