"""What the data model costs: the parts of a plan, as ratios to another version of the package.

    python -m benchmarks nouns [base=path/to/other/src]

Each version runs in a process of its own, and they take turns, so that both meet the same noise.
The other version may be older than observations and plans as objects; `_before` has the names of
its day. Without another version, times are printed without ratios.
"""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import stationary as st
from benchmarks.timing import milliseconds, table
from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
from stationary.learning.covariances import Minimum
from stationary.trust.ladder import ladder

Task = Callable[[], object]

ROUNDS = 7
DRAWS, LOADS = 1024, 20
_TURN = 0.05
"""Seconds a tree keeps the machine, at least."""


def _tasks() -> dict[str, Task]:
    """Every part, as the version of this process does it."""
    queue = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    few = st.simulate(queue, np.linspace(11.0, 15.0, 50), duration=4.0, seed=0).observing([0, 1])
    light = recording().between(None, LIGHT).observing(OBSERVED)
    result = st.fit(st.models.MMmK(servers=1, capacity=CAPACITY), light)
    models = ladder(light, 1, CAPACITY)
    x = torch.linspace(300.0, 5000.0, LOADS, dtype=torch.float64)[:, None]
    spread = torch.linspace(0.99, 1.01, DRAWS, dtype=torch.float64)[:, None]
    thetas = spread * result.model.theta.detach()
    page = Path(tempfile.mkdtemp()) / "report.html"
    own = _now if find_spec("stationary.learning.likelihood") else _before
    likelihood, rest = own(queue, few, light, result, x, thetas)
    z = queue.free(queue.theta.detach()).numpy()
    minimum = Minimum(likelihood, few, queue.theta.detach())
    return {
        "value and gradient, 50 windows of 21 states": lambda: likelihood.value_and_gradient(z),
        "Hessian": lambda: likelihood.hessian(z),
        # A copy, whose slopes are not known yet.
        "scores of the windows": lambda: copy.copy(minimum).scores(),
        "fit of the demo's data": lambda: st.fit(
            st.models.MMmK(servers=1, capacity=CAPACITY), light
        ),
        f"forecast of {DRAWS} draws at {LOADS} loads": rest["draws"],
        "limit": lambda: result.max_load(loss=0.001),
        "refits below the cuts, and horizon": rest["refits"],
        "bootstrap of 200": rest["bootstrap"],
        f"comparison of {len(models)} models": lambda: st.compare(models, light, jobs=1),
        "report": lambda: result.report(page, compare=False),
    }


def _now(
    queue: Any, few: Any, light: Any, result: Any, x: Any, thetas: Any
) -> tuple[Any, dict[str, Task]]:
    from stationary.learning.draws import from_refits
    from stationary.learning.fitting import refit_below
    from stationary.learning.likelihood import Likelihood, log_terms
    from stationary.trust.backtest import cuts, held_out, horizon, score

    whole = result.estimate
    part = from_refits(whole, thetas)

    def refits() -> object:
        places = cuts(light, len(whole.model.param_names))
        scores = []
        for cut in places:
            part, held = refit_below(whole, light, cut), held_out(light, cut)
            scores.append(None if part is None else score(log_terms(part.model, held), held))
        return horizon(whole, scores, places, light)

    return Likelihood(queue, few), {
        "draws": lambda: part.drawn(x[None], whole.model.measures),
        "refits": refits,
        "bootstrap": lambda: result.bootstrap(200, jobs=1),
    }


def _before(
    queue: Any, few: Any, light: Any, result: Any, x: Any, thetas: Any
) -> tuple[Any, dict[str, Task]]:
    from stationary.objective import Objective

    from stationary.planning.forecast import values_at
    from stationary.trust.backtest import horizon

    model, inputs = result.model, x.expand(len(thetas), -1, -1)
    return Objective(queue, few), {
        "draws": lambda: values_at(model, inputs, thetas),
        "refits": lambda: horizon(model, light),
        "bootstrap": lambda: st.bootstrap(result, 200, jobs=1),
    }


def serve() -> None:
    """Say which tasks there are, then answer each name on stdin with the seconds it took."""
    tasks = _tasks()
    print("\n".join(tasks), flush=True)
    print(flush=True)
    for line in sys.stdin:
        task = tasks[line.rstrip("\n")]
        began, calls = time.perf_counter(), 0
        while not calls or time.perf_counter() - began < _TURN:
            task()
            calls += 1
        print((time.perf_counter() - began) / calls, flush=True)


class _Tree:
    """A process that runs the tasks of one version of the package."""

    def __init__(self, source: Path) -> None:
        here = Path(__file__).parents[1]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.nouns"],
            env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{here}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tasks = list(iter(self._line, ""))

    def _line(self) -> str:
        assert self.process.stdout is not None  # noqa: S101
        return self.process.stdout.readline().strip()

    def seconds(self, task: str) -> float:
        """Mean seconds of a task over one turn."""
        assert self.process.stdin is not None  # noqa: S101
        print(task, file=self.process.stdin, flush=True)
        return float(self._line())


def main() -> None:
    """Print a line per part: its time, and its ratio to the other version's."""
    given = dict(word.split("=", 1) for word in sys.argv if "=" in word)
    trees = {"now": _Tree(Path(st.__file__).parents[1])}
    if "base" in given:
        trees["before"] = _Tree(Path(given["base"]).resolve())

    def row(task: str) -> list[str]:
        # The first turn compiles, and fills caches.
        turns = [{name: tree.seconds(task) for name, tree in trees.items()} for _ in range(ROUNDS)]
        times = {name: median(turn[name] for turn in turns[1:]) for name in trees}
        cells = [task, *(milliseconds(value) for value in times.values())]
        return [*cells, f"{times['now'] / times['before']:.2f}"] if "before" in times else cells

    header = ["part", "ms"] if len(trees) == 1 else ["part", "ms", "before, ms", "ratio"]
    table("Parts of a plan", header, map(row, trees["now"].tasks))
    for tree in trees.values():
        tree.process.stdin.close()
        tree.process.wait()


if __name__ == "__main__":
    serve()
