"""Run what the tables need, in parallel, and keep every repeat: an interrupted run goes on.

A *task* is a row, a method and a meaning of "repeat". Its repeats run side by side in one worker.
Each becomes a record, and the records of a task are kept in one file, written when it is done:

    results/runs/<row>/<method>-<reading>.json

A record carries the fingerprint of the settings and data it was made with. One that does not match,
or that cannot be read, is made again. Workers return records and this process writes them, so a
cluster needs no shared disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import stationary as st
from stationary._support.files import replacing
from stationary._support.parallel import as_ready
from stationary.errors import RunError, StationaryError
from stationary.learning.checkpoints import identity
from stationary.paper.columns import METHODS
from stationary.paper.methods import Outcome
from stationary.paper.settings import Problem, Row, draw

Record = dict[str, Any]

_MANY_PARAMETERS = 10
"""A model with more is slow to fit."""


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
    """A row, a method, and the repeats of it that are wanted.

    Attributes
    ----------
    problem : Problem, optional
        The data set, if it was recorded; by default one is simulated.
    share : float
        Part of the row's epochs to run.
    """

    row: Row
    method: str
    reading: Reading
    seeds: tuple[int, ...]
    share: float = 1.0
    problem: Problem | None = None

    @property
    def cost(self) -> float:
        """Rough work; the longest tasks start first."""
        column = METHODS[self.method]
        many = len(self.row.family().param_names) > _MANY_PARAMETERS or column.alpha is not None
        return column.effort * (10 if many else 1) * self.share * (1 + len(self.seeds) / 20)

    def file(self, folder: Path) -> Path:
        """Where its records are kept."""
        return folder / "runs" / self.row.name / f"{self.method}-{self.reading}.json"

    def fingerprint(self) -> str:
        """Identify all settings and data that the records depend on, but not the code."""
        data = self.problem and [
            self.problem.windows.x,
            self.problem.windows.counts,
            self.problem.x,
            self.problem.target,
        ]
        settings = [self.row.settings(), METHODS[self.method].settings(self.row), self.share]
        text = json.dumps(identity([self.method, *settings, st.__version__, data]), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run(
    tasks: Iterable[Task],
    folder: Path,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Callable[[int, str], None] | None = None,
    again: bool = False,
) -> None:
    """Make the records that are missing; a task that fails does not stop the others.

    Parameters
    ----------
    tasks : iterable of Task
        What is wanted.
    folder : Path
        Where records are kept.
    jobs : int
        Processes; -1 for one per core.
    cluster : str, optional
        Address of a Dask scheduler to run on instead.
    progress : callable, optional
        Called with the number of finished tasks and the name of the last one.
    again : bool
        Make all records, also those that are kept from an earlier run.
    """
    wanted = list(tasks) if again else to_do(tasks, folder)
    failed = []
    longest_first = sorted(wanted, key=lambda task: -task.cost)
    with closing(as_ready(_attempt, longest_first, jobs=jobs, cluster=cluster)) as results:
        for done, (_, (task, records, error)) in enumerate(results, 1):
            if error:
                failed.append(f"{task.row.name}, {task.method}, {task.reading}: {error}")
            else:
                _keep(task, folder, records)
            if progress is not None:
                progress(done, f"{task.row.name} {task.method}")
    if failed:
        raise RunError(f"{len(failed)} of {len(wanted)} tasks failed: {'; '.join(failed)}")


def to_do(tasks: Iterable[Task], folder: Path) -> list[Task]:
    """Return the tasks with only those repeats whose records are missing or out of date."""
    left = []
    for task in tasks:
        done = kept(task, folder)
        seeds = tuple(seed for seed in task.seeds if seed not in done)
        if seeds:
            left.append(replace(task, seeds=seeds))
    return left


def read(tasks: Iterable[Task], folder: Path) -> list[Record]:
    """Return the records of finished tasks."""
    return [kept(task, folder)[seed] for task in tasks for seed in task.seeds]


def kept(task: Task, folder: Path) -> dict[int, Record]:
    """Return the records of a task that were made with its settings and data, by seed."""
    try:
        records = json.loads(task.file(folder).read_text(encoding="utf-8"))
        mark = task.fingerprint()
        return {record["seed"]: record for record in records if record["fingerprint"] == mark}
    except (OSError, ValueError, TypeError, KeyError):  # there is none, or it is damaged
        return {}


def _keep(task: Task, folder: Path, records: list[Record]) -> None:
    known = kept(task, folder) | {record["seed"]: record for record in records}
    file = task.file(folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as part:
        text = json.dumps([known[seed] for seed in sorted(known)], allow_nan=False)
        part.write_text(text, encoding="utf-8")


def _attempt(task: Task) -> tuple[Task, list[Record], str]:
    """Run a task in a worker; return its records, or why there are none."""
    try:
        return task, work(task), ""
    except StationaryError as error:
        return task, [], str(error)


def work(task: Task) -> list[Record]:
    """Run the repeats of a task and return a record for each."""
    if task.problem is not None:
        problems = [task.problem] * len(task.seeds)
    elif task.reading is Reading.ONE:
        problems = [draw(task.row, 0)] * len(task.seeds)
    else:
        problems = [draw(task.row, seed) for seed in task.seeds]
    outcomes = METHODS[task.method].run(problems, task.seeds, task.share)
    shared = {
        "row": task.row.name,
        "method": task.method,
        "reading": str(task.reading),
        "side_by_side": len(task.seeds) if METHODS[task.method].random else 1,
        "fingerprint": task.fingerprint(),
        "commit": _commit(),
    }
    return [
        {
            **shared,
            "seed": seed,
            "data": 0 if task.reading is Reading.ONE else seed,
            **_scores(problem, outcome),
        }
        for seed, problem, outcome in zip(task.seeds, problems, outcomes, strict=True)
    ]


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

    def git(*words: str) -> str:
        done = subprocess.run(  # noqa: S603
            ["git", *words],  # noqa: S607
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD") if git("ls-files", "--", "runner.py") else ""
        return commit + ("+changes" if commit and git("status", "--porcelain", "--", "..") else "")
    except OSError:  # git is not installed
        return ""
