"""What `stationary reproduce` can make, and the runs each part needs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from stationary.paper.columns import METHODS, OURS, PAPER, RELAXED, TABLE, TEXT, study
from stationary.paper.methods import Column
from stationary.paper.runner import Reading, Task
from stationary.paper.settings import Problem, Row, defaults, rows, section


class Part(StrEnum):
    """A part of the paper."""

    MAPE = "mape"
    MSE = "mse"
    GAP = "gap"
    ALPHA = "alpha"
    P = "p"
    CURVES = "curves"
    TESTBED = "testbed"
    TEXT = "text"
    EXAMPLES = "examples"
    ALL = "all"


_ROWS = {
    Part.MAPE: ("tables",),
    Part.MSE: ("tables",),
    Part.GAP: ("gap",),
    Part.ALPHA: ("alpha",),
    Part.P: ("p",),
    Part.CURVES: ("tables", "gap"),
    Part.TESTBED: ("testbed",),
    Part.TEXT: ("text", "methods", "relaxed"),
    Part.EXAMPLES: (),
}
"""Studies whose rows a part needs."""

_WITH_LUCK = (Part.MAPE, Part.MSE, Part.GAP)


def parts(part: Part) -> list[Part]:
    """Return the part itself, or every one that the paper prints."""
    return [p for p in Part if p not in (Part.ALL, Part.TEXT)] if part is Part.ALL else [part]


def recorded_rows(part: Part, names: Sequence[str] = ()) -> list[str]:
    """Names of the rows of a part that need the testbed recording."""
    shown = [row for each in parts(part) for row in rows_of(each, names)]
    return list(dict.fromkeys(row.name for row in shown if not row.simulated))


def rows_of(part: Part, names: Sequence[str] = ()) -> list[Row]:
    """Return the rows a part shows: those that follow the printed numbers, or those named."""
    chosen = [row for row in rows().values() if set(row.studies) & set(_ROWS[part])]
    if names:
        return [row for row in chosen if row.name in names]
    return [row for row in chosen if row.source == "numbers" or part is Part.TEXT]


def methods_of(part: Part, row: Row) -> list[str]:
    """Names of the methods a part runs on a row."""
    if part is Part.TEXT:
        return _of_the_text(row)
    if part not in (Part.ALPHA, Part.P):
        return [column.name for column in TABLE]
    columns = [PAPER, OURS, *study(row, part).values()]
    return list(dict.fromkeys([name for each in columns for name in (each.name, each.exact)]))


def _of_the_text(row: Row) -> list[str]:
    """Names of the methods by which what the text says is shown on a row."""
    columns: list[Column] = []
    if {"text", "methods"} & set(row.studies):
        columns += [column for column in TABLE if column.random or column.name == "mle"]
    if "methods" in row.studies:
        columns += [METHODS["cls"], *TEXT]
    if "relaxed" in row.studies:
        columns += [METHODS["mle"], *RELAXED, METHODS[RELAXED[0].exact]]
    return list(dict.fromkeys(column.name for column in columns))


def tasks(
    part: Part,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    repeats: int | None = None,
    recorded: dict[str, Problem] | None = None,
) -> list[Task]:
    """Return the runs a part needs, each once.

    Parameters
    ----------
    part : Part
        What is wanted.
    names : sequence of str
        Names of rows; all rows by default.
    quick : bool
        Few repeats and epochs.
    repeats : int, optional
        How many repeats; those of the settings by default.
    recorded : dict, optional
        Problems of the rows that are not simulated; without it those rows are left out.
    """
    settings = {**defaults(), **(section("quick") if quick else {})}
    seeds = tuple(range(settings["repeats"] if repeats is None else repeats))
    share = settings["epochs"] if quick else 1.0
    wanted: dict[tuple[str, str, str], Task] = {}

    def want(row: Row, method: str, reading: Reading, seeds: tuple[int, ...]) -> None:
        problem = (recorded or {}).get(row.name)
        if row.simulated or problem is not None:
            part_of = share if METHODS[method].trains else 1.0
            wanted[row.name, method, reading] = Task(row, method, reading, seeds, part_of, problem)

    for each in parts(part):
        for row in rows_of(each, names):
            for method in methods_of(each, row):
                want(row, method, Reading.ONE, seeds if METHODS[method].random else (0,))
                # Beside the paper's own tables, one data set shows how methods compare.
                if row.simulated and (each is not Part.TEXT or "text" in row.studies):
                    want(row, method, Reading.FRESH, seeds)
            if row.simulated and each in _WITH_LUCK:
                want(row, "mle", Reading.LUCK, tuple(range(settings["luck"])))
    return list(wanted.values())
