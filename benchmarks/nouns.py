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

Task = Callable[[], object]

ROUNDS = 7
DRAWS, LOADS = 1024, 20
MEASURES = ("loss", "mean_queue", "throughput", "response_time", "utilisation")
"""Those that versions before percentiles have; they always made all of them."""
_TURN = 0.05
"""Seconds of the processor in a turn, at least."""


def _tasks() -> dict[str, Task]:
    """Every part, as the version of this process does it."""
    queue = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    steady = st.models.ErlangService(phases=4, capacity=20)
    rules = st.models.read_model(Path(__file__).parents[1] / "examples" / "tandem.toml")
    few = st.simulate(queue, np.linspace(11.0, 15.0, 50), duration=4.0, seed=0).observing([0, 1])
    small = st.simulate(st.models.MMmK(capacity=15), few.x, duration=4.0, seed=0)
    light = recording().between(None, LIGHT).observing(OBSERVED)
    first = st.models.MMmK(servers=1, capacity=CAPACITY)
    several = st.models.ErlangService(phases=3, capacity=CAPACITY)
    models = [
        first,
        several,
        st.models.Slowing(capacity=CAPACITY),
        st.models.StateDependent(depth=5, capacity=CAPACITY),
        st.models.HyperexponentialService(capacity=CAPACITY),
    ]
    named = {type(model).__name__: model for model in models}
    result, larger = st.fit(first, light), st.fit(several, light)
    result.max_load(loss=0.001)  # from here on, what a plan keeps is there
    page = Path(tempfile.mkdtemp()) / "report.html"
    own = _now() if find_spec("stationary.learning") else _before()

    def gradient(model: Any, windows: Any) -> Task:
        z, likelihood = model.free(model.theta.detach()).numpy(), own["likelihood"](model, windows)
        return lambda: likelihood.value_and_gradient(z)

    z, likelihood = queue.free(queue.theta.detach()).numpy(), own["likelihood"](queue, few)
    minimum = own["minimum"](likelihood, few, queue.theta.detach())
    relaxed = st.models.Relaxed(st.models.MMmK(capacity=15), alpha=1.0)
    return {
        "value and gradient, 50 windows of 21 states": gradient(queue, few),
        "the same, Erlang, 81 states": gradient(steady, few),
        "the same, relaxed, 211 parameters": gradient(relaxed, small),
        "the same, rules, 121 states": gradient(rules, st.simulate(rules, few.x, duration=4.0)),
        "Hessian": lambda: likelihood.hessian(z),
        # A copy, whose slopes are not known yet.
        "scores of the windows": lambda: copy.copy(minimum).scores(),
        "fit of the demo's data, three starts": lambda: st.fit(first, light),
        "fit from one start": lambda: st.fit(first, light, **own["one start"]),
        f"forecast of {DRAWS} draws at {LOADS} loads": own["draws"](result),
        "refits below the cuts, and horizon": own["refits"](result, light),
        "limit, refits and draws included": lambda: own["fresh"](result).max_load(loss=0.001),
        "another limit of the same fit": lambda: own["asked"](result).max_load(loss=0.001),
        "bootstrap of 200, 19 states": own["bootstrap"](result),
        "bootstrap of 200, 55 states": own["bootstrap"](larger),
        f"comparison of {len(models)} models": lambda: st.compare(named, light, jobs=1),
        "report, refits included": lambda: own["fresh"](result).report(page, compare=False),
        "another report of the same fit": lambda: own["asked"](result).report(page, compare=False),
    }


def _draws(result: Any) -> tuple[Any, Any]:
    x = torch.linspace(300.0, 5000.0, LOADS, dtype=torch.float64)[:, None]
    spread = torch.linspace(0.99, 1.01, DRAWS, dtype=torch.float64)[:, None]
    return x, spread * result.model.theta.detach()


def _now() -> dict[str, Any]:
    from stationary.learning.covariances import Minimum
    from stationary.learning.draws import from_refits
    from stationary.learning.fitting import refit_below
    from stationary.learning.likelihood import Likelihood, log_terms
    from stationary.trust.backtest import cuts, held_out, horizon, score

    def refits(result: Any, light: Any) -> Task:
        whole = result.estimate

        def made() -> object:
            places = cuts(light, len(whole.model.param_names))
            scores = []
            for cut in places:
                part, held = refit_below(whole, light, cut), held_out(light, cut)
                scores.append(None if part is None else score(log_terms(part.model, held), held))
            return horizon(whole, scores, places, light)

        return made

    def draws(result: Any) -> Task:
        x, thetas = _draws(result)
        part = from_refits(result.estimate, thetas)
        return lambda: part.drawn(x[None], MEASURES)

    return {
        "likelihood": Likelihood,
        "minimum": Minimum,
        "one start": {"method": st.Newton(starts=1)},
        "draws": draws,
        "refits": refits,
        "bootstrap": lambda result: lambda: result.bootstrap(200, jobs=1),
        # A plan keeps what it computed; these forget all of it, and only the limits.
        "fresh": lambda result: st.Plan(result.windows, result.fitted),
        "asked": lambda result: result.having(seed=result.seed),
    }


def _before() -> dict[str, Any]:
    from stationary.backtest import horizon
    from stationary.covariances import Curved
    from stationary.forecast import values_at
    from stationary.objective import Objective

    def draws(result: Any) -> Task:
        x, thetas = _draws(result)
        return lambda: values_at(result.model, x.expand(len(thetas), -1, -1), thetas)

    return {
        "likelihood": Objective,
        "minimum": Curved,
        "one start": {"starts": 1},
        "draws": draws,
        "refits": lambda result, light: lambda: horizon(result.model, light),
        "bootstrap": lambda result: lambda: st.bootstrap(result, 200, jobs=1),
        "fresh": lambda result: result,
        "asked": lambda result: result,
    }


def serve() -> None:
    """Say which tasks there are, then answer each name on stdin with the seconds it took.

    Seconds of the processor, on one thread: other work on the machine matters less.
    """
    torch.set_num_threads(1)
    tasks = _tasks()
    print("\n".join(tasks), flush=True)
    print(flush=True)
    for line in sys.stdin:
        task = tasks[line.rstrip("\n")]
        began, calls = time.process_time(), 0
        while not calls or time.process_time() - began < _TURN:
            task()
            calls += 1
        print((time.process_time() - began) / calls, flush=True)


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
        """Mean seconds of the processor that a task takes, over one turn."""
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
