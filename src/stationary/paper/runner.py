"""Run what the tables need, in parallel, and keep every repeat: an interrupted run goes on.

A *task* is a row, a method and a reading of "repeat". Its repeats run side by side in one worker;
each becomes a record, written to a file of its own as soon as it arrives:

    results/runs/<row>/<method>/<reading>-<seed>.json

A record carries the fingerprint of the settings it was made with. One that does not match, or
cannot be read, is made again.
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

from stationary._support.files import replacing
from stationary._support.parallel import as_ready
from stationary._version import __version__
from stationary.errors import RunError, StationaryError
from stationary.paper.columns import METHODS
from stationary.paper.methods import Outcome
from stationary.paper.settings import Problem, Row, draw

Record = dict[str, Any]


class Reading(StrEnum):
    """What the paper's "repeat" may mean."""

    ONE = "one"
    """The same data set every time; repeats differ in the order of windows and in the draws."""
    FRESH = "fresh"
    """A fresh data set every time."""
    LUCK = "luck"
    """Many fresh data sets, kept together: how the exact optimum itself scatters."""


@dataclass(frozen=True)
class Task:
    """A row, a method, and the repeats of it that are wanted.

    Attributes
    ----------
    problem : Problem, optional
        The data set, where it is recorded and not drawn.
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
        """Rough work, to start the longest first."""
        repeats = self.seeds[0] if self.reading is Reading.LUCK else len(self.seeds)
        return METHODS[self.method].cost(self.row) * self.share * (1 + repeats / 20)

    def file(self, folder: Path, seed: int) -> Path:
        """Where the record of a repeat is kept."""
        return folder / "runs" / self.row.name / self.method / f"{self.reading}-{seed}.json"

    def fingerprint(self) -> str:
        """Of all settings and data that the records depend on, but not of the code."""
        kept = {
            "row": self.row.settings(),
            "method": METHODS[self.method].describe(self.row),
            "share": self.share,
            "version": __version__,
        }
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode())
        if self.problem is not None:
            of = self.problem
            for tensor in (of.windows.x, of.windows.counts, of.x, of.target):
                digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()[:16]


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
        Processes; -1 for one a core.
    cluster : str, optional
        Address of a Dask scheduler to run on instead.
    progress : callable, optional
        Called with the number of tasks done and the last one's name.
    again : bool
        Make all records, those that are kept from before too.
    """
    wanted = list(tasks) if again else to_do(tasks, folder)
    failed = []
    longest_first = sorted(wanted, key=lambda t: -t.cost)
    with closing(as_ready(_attempt, longest_first, jobs=jobs, cluster=cluster)) as results:
        for done, (_, (task, records, error)) in enumerate(results, 1):
            if error:
                failed.append(f"{task.row.name}, {task.method}, {task.reading}: {error}")
            for seed, record in records.items():
                file = task.file(folder, seed)
                file.parent.mkdir(parents=True, exist_ok=True)
                with replacing(file) as part:
                    part.write_text(json.dumps(record, allow_nan=False), encoding="utf-8")
            if progress is not None:
                progress(done, f"{task.row.name} {task.method}")
    if failed:
        raise RunError(f"{len(failed)} of {len(wanted)} tasks failed: {'; '.join(failed)}")


def to_do(tasks: Iterable[Task], folder: Path) -> list[Task]:
    """Return the tasks with only those repeats whose records are missing or out of date."""
    left = []
    for task in tasks:
        mark = task.fingerprint()
        seeds = tuple(s for s in task.seeds if not _is_current(task.file(folder, s), mark))
        if seeds:
            left.append(replace(task, seeds=seeds))
    return left


def read(tasks: Iterable[Task], folder: Path) -> list[Record]:
    """Return the records of finished tasks."""
    return [
        json.loads(task.file(folder, seed).read_text(encoding="utf-8"))
        for task in tasks
        for seed in task.seeds
    ]


def _attempt(task: Task) -> tuple[Task, dict[int, Record], str]:
    """Run a task in a worker; return its records or why there are none."""
    try:
        return task, work(task), ""
    except StationaryError as error:
        return task, {}, str(error)


def work(task: Task) -> dict[int, Record]:
    """Run the repeats of a task and return a record for each."""
    method = METHODS[task.method]
    if task.reading is Reading.LUCK:
        (count,) = task.seeds
        problems = [draw(task.row, seed) for seed in range(count)]
        outcomes = method.run(problems, [0] * count, task.share)
        return {count: _luck(task, problems, outcomes)}
    if task.problem is not None:
        problems = [task.problem] * len(task.seeds)
    elif task.reading is Reading.ONE:
        problems = [draw(task.row, 0)] * len(task.seeds)
    else:
        problems = [draw(task.row, seed) for seed in task.seeds]
    outcomes = method.run(problems, task.seeds, task.share)
    return {
        seed: _record(task, seed, problem, outcome)
        for seed, problem, outcome in zip(task.seeds, problems, outcomes, strict=True)
    }


def errors(predicted: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    """MAPE/100, median absolute relative error and MSE of forecasts ``[T]``, or lists of many."""
    relative = (predicted - target).abs() / target
    return {
        "mape": relative.mean(-1).tolist(),
        "median_ape": relative.quantile(0.5, dim=-1).tolist(),
        "mse": (predicted - target).square().mean(-1).tolist(),
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


def _record(task: Task, seed: int, problem: Problem, outcome: Outcome) -> Record:
    curves = errors(outcome.predicted, problem.target)
    steady = {} if outcome.steady is None else errors(outcome.steady, problem.target)
    return {
        "row": task.row.name,
        "method": task.method,
        "reading": str(task.reading),
        "seed": seed,
        "data": seed if task.reading is Reading.FRESH else 0,
        **{name: values[-1] for name, values in curves.items()},
        **{f"{name}_steady": steady.get(name) for name in ("mape", "mse")},
        "nll": outcome.nll[-1] if outcome.nll else None,
        "windows": len(problem.windows),
        "seconds": outcome.seconds,
        "side_by_side": len(task.seeds) if METHODS[task.method].random else 1,
        "converged": outcome.converged,
        "theta": outcome.theta,
        "predicted": outcome.predicted[-1].tolist(),
        "curves": {"mape": curves["mape"], "mse": curves["mse"], "nll": outcome.nll},
        "fingerprint": task.fingerprint(),
        "commit": _commit(),
    }


def _luck(task: Task, problems: list[Problem], outcomes: list[Outcome]) -> Record:
    target = problems[0].target
    scores = errors(torch.stack([o.predicted[-1] for o in outcomes]), target)
    return {
        "row": task.row.name,
        "method": task.method,
        "reading": str(task.reading),
        "seed": task.seeds[0],
        **scores,
        "nll": [outcome.nll[-1] for outcome in outcomes],
        "theta": [outcome.theta for outcome in outcomes],
        "converged": [outcome.converged for outcome in outcomes],
        "fingerprint": task.fingerprint(),
        "commit": _commit(),
    }


def _is_current(file: Path, fingerprint: str) -> bool:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("fingerprint") == fingerprint


@cache
def _commit() -> str:
    """Return the commit of a source checkout, marked if it is changed; empty outside of one."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True)  # noqa: S603, S607
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD") if git("ls-files", "--", "runner.py") else ""
        return commit + ("+changes" if commit and git("status", "--porcelain", "--", "..") else "")
    except OSError:  # no git
        return ""
