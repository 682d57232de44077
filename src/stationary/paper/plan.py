"""What `stationary reproduce` can make, and the runs each part needs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from stationary.paper.columns import METHODS, OURS, PAPER, RELAXED, TABLE, TEXT, study
from stationary.paper.methods import Column
from stationary.paper.runner import Reading, Task
from stationary.paper.settings import SETTINGS, Problem, Row, rows


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


def rows_of(part: Part, names: Sequence[str] = ()) -> list[Row]:
    """Return the rows a part shows: those that follow the printed numbers, or those named."""
    chosen = [row for row in rows().values() if set(row.studies) & set(_ROWS[part])]
    if names:
        return [row for row in chosen if row.name in names]
    return [row for row in chosen if row.source == "numbers" or part is Part.TEXT]


def columns_of(part: Part, row: Row) -> list[Column]:
    """Return the columns that a part runs on a row."""
    found: list[Column] = []
    if part in (Part.ALPHA, Part.P):
        for column in [PAPER, OURS, *study(row, part).values()]:
            found += [column, METHODS[column.exact]]
    elif part is not Part.TEXT:
        found = TABLE
    else:
        mle = METHODS["mle"]
        if {"text", "methods"} & set(row.studies):
            found += [column for column in TABLE if column.random or column is mle]
        if "methods" in row.studies:
            found += [METHODS["cls"], *TEXT]
        if "relaxed" in row.studies:
            found += [mle, *RELAXED, METHODS[RELAXED[0].exact]]
    return list({column.name: column for column in found}.values())


def tasks(
    part: Part,
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    repeats: int | None = None,
    recorded: dict[str, Problem] | None = None,
) -> list[Task]:
    """Return the runs a part needs, each once; those of the named rows, or of all.

    A ``quick`` plan has few repeats and epochs. Rows that are not simulated are left out unless
    their problems are in ``recorded``.
    """
    settings = {**SETTINGS["defaults"], **(SETTINGS["quick"] if quick else {})}
    seeds = tuple(range(settings["repeats"] if repeats is None else repeats))
    lucky = tuple(range(settings["luck"]))
    wanted: dict[tuple[str, str, Reading], Task] = {}

    def want(row: Row, column: Column, reading: Reading, seeds: tuple[int, ...]) -> None:
        problem = (recorded or {}).get(row.name)
        if row.simulated or problem is not None:
            share = settings["epochs"] if quick and column.trains else 1.0
            task = Task(row, column, reading, seeds, share, problem)
            wanted[row.name, column.name, reading] = task

    for each in parts(part):
        for row in rows_of(each, names):
            for column in columns_of(each, row):
                want(row, column, Reading.ONE, seeds if column.random else (0,))
                # Beside the paper's own tables, one data set shows how methods compare.
                if row.simulated and (each is not Part.TEXT or "text" in row.studies):
                    want(row, column, Reading.FRESH, seeds)
            if row.simulated and each in _WITH_LUCK:
                want(row, METHODS["mle"], Reading.LUCK, lucky)
    return list(wanted.values())
