"""Run what the tables need, in parallel, and keep every record: an interrupted run goes on.

A *task* is a row, a column and a meaning of "repeat". Its repeats run side by side in one worker.
Each becomes a record, and the records of a task are one file, written when the task is done, whose
name ends in the mark of the settings and data that it was made with:

    results/runs/<row>/<method>-<reading>-<mark>.json

Workers return records and this process writes them, so a cluster needs no shared disk.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import torch

import stationary as st
from stationary._support.files import replacing
from stationary._support.parallel import as_ready
from stationary.errors import RunError, StationaryError
from stationary.learning.checkpoints import identity
from stationary.paper.methods import Column, Outcome
from stationary.paper.settings import Problem, Row, draw

Record = dict[str, Any]


class Reading(StrEnum):
    """What the paper's "repeat" may mean."""

    ONE = "one"
    """The same data set every time; repeats differ in the order of windows and in the draws."""
    FRESH = "fresh"
    """A fresh data set every time."""
    LUCK = "luck"
    """Many fresh data sets, which show how much the exact optimum itself varies."""


@dataclass(frozen=True)
class Task:
    """A row, a column, and the repeats that are wanted, with a share of the row's epochs."""

    row: Row
    column: Column
    reading: Reading
    seeds: tuple[int, ...]
    share: float = 1.0
    problem: Problem | None = None
    """The data set, if it was recorded; otherwise one is simulated."""

    def __str__(self) -> str:
        return f"{self.row.name}, {self.column.name}, {self.reading}"

    @property
    def cost(self) -> float:
        """Rough work; the longest tasks start first."""
        small = self.row.simulated and self.column.alpha is None
        each = (500 if self.column.trains else 1) * (1 if small else 10)
        return each * self.share * (1 + len(self.seeds) / 20)

    def file(self, folder: Path) -> Path:
        """Where its records are kept: other settings or data have another file."""
        given = self.problem
        data = given and [given.windows.x, given.windows.counts, given.target]
        settings = [self.row.settings(), self.column.settings(self.row), self.seeds, self.share]
        mark = joblib.hash(identity([*settings, st.__version__, data]))[:16]
        name = f"{self.column.name}-{self.reading}-{mark}.json"
        return folder / "runs" / self.row.name / name

    def kept(self, folder: Path) -> list[Record]:
        """Return its records, if they are there and whole."""
        try:
            records: list[Record] = json.loads(self.file(folder).read_text(encoding="utf-8"))
            return records if [r["seed"] for r in records] == list(self.seeds) else []
        except (OSError, ValueError, TypeError, KeyError):
            return []


def run(
    tasks: Iterable[Task],
    folder: Path,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Callable[[int, str], None] | None = None,
) -> None:
    """Make the records of tasks and keep them in a folder; a failure does not stop the others.

    There are ``jobs`` processes, one per core where that is -1, or those of the Dask scheduler at
    ``cluster``. Progress is the number of finished tasks and the name of the last one.
    """
    wanted, failed = sorted(tasks, key=lambda task: -task.cost), []
    with closing(as_ready(_attempt, wanted, jobs=jobs, cluster=cluster)) as results:
        for done, (place, (records, error)) in enumerate(results, 1):
            task = wanted[place]
            if error:
                failed.append(f"{task}: {error}")
            else:
                file = task.file(folder)
                file.parent.mkdir(parents=True, exist_ok=True)
                with replacing(file) as part:
                    part.write_text(json.dumps(records, allow_nan=False), encoding="utf-8")
            if progress is not None:
                progress(done, str(task))
    if failed:
        raise RunError(f"{len(failed)} of {len(wanted)} tasks failed: {'; '.join(failed)}")


def _attempt(task: Task) -> tuple[list[Record], str]:
    """Run a task in a worker; return its records, or why there are none."""
    try:
        return list(work(task)), ""
    except StationaryError as error:
        return [], str(error)


def work(task: Task) -> Iterator[Record]:
    """Run the repeats of a task and yield a record of each."""
    data = [0 if task.reading is Reading.ONE else seed for seed in task.seeds]
    made = {seed: task.problem or draw(task.row, seed) for seed in sorted(set(data))}
    problems = [made[seed] for seed in data]
    outcomes = task.column.run(problems, task.seeds, task.share)
    for number, seed, problem, outcome in zip(data, task.seeds, problems, outcomes, strict=True):
        yield {
            "row": task.row.name,
            "method": task.column.name,
            "reading": str(task.reading),
            "relaxed": task.column.alpha is not None,
            "side_by_side": len(task.seeds) if task.column.random else 1,
            "commit": _commit(),
            "seed": seed,
            "data": number,
            **_scores(problem, outcome),
        }


def errors(predicted: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    """MAPE/100, median absolute relative error and MSE of forecasts ``[..., T]``."""
    relative = (predicted - target).abs() / target
    return {
        "mape": relative.mean(-1).tolist(),
        "median_ape": relative.quantile(0.5, dim=-1).tolist(),
        "mse": (predicted - target).square().mean(-1).tolist(),
    }


def _scores(problem: Problem, outcome: Outcome) -> Record:
    curves = errors(outcome.predicted, problem.target)
    steady = {} if outcome.steady is None else errors(outcome.steady, problem.target)
    return {
        **{name: values[-1] for name, values in curves.items()},
        **{f"{name}_steady": steady.get(name) for name in ("mape", "mse")},
        "nll": outcome.nll[-1] if outcome.nll else None,
        "windows": len(problem.windows),
        "seconds": outcome.seconds,
        "converged": outcome.converged,
        "theta": outcome.theta,
        "predicted": outcome.predicted[-1].tolist(),
        "curves": {"mape": curves["mape"], "mse": curves["mse"], "nll": outcome.nll},
    }


def provenance() -> dict[str, str]:
    """Return the commit and the versions that made a result."""
    packages = ("stationary", "torch", "numpy", "scipy", "numba", "pandas", "joblib")
    return {
        "commit": _commit(),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        **{name: version(name) for name in packages},
    }


@cache
def _commit() -> str:
    """Return the commit of a source checkout, marked if it is changed; empty outside of one."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return ""
    command = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)  # noqa: S603
    except OSError:  # git is not installed
        return ""
    return done.stdout.strip()
