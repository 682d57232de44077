"""Intervals against the paper's own testbed recording: fitted below load 1000, tested above.

Needs the recording, which is not part of the project: python -m benchmarks recording
path/to/volte-testbed-aaai20.csv. An interval is meant for the long-run share of overload. What a
window of a second measures scatters around that share, so covering it is the harder test.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.timing import table
from stationary import words
from stationary.errors import ConvergenceWarning, StationaryError
from stationary.learning.covariances import Information
from stationary.learning.newton import Newton
from stationary.paper.chains import FULL, candidates
from stationary.paper.testbed import read_recording
from stationary.planner import Plan, compare, fit

LEVEL = 0.9
_OVERLOAD = f"p_{FULL}"
_RECORDING = Path("../shared/data/volte-testbed-aaai20.csv")


def main() -> None:
    """Print the coverage of every single model's intervals, and of the pooled one."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    named = [Path(word) for word in sys.argv if word.endswith(".csv")]
    recording = read_recording((named or [_RECORDING])[0])
    light, heavy = recording.light, recording.heavy
    target = recording.target.numpy()
    found = compare(candidates(), light)
    best = found.ranking()["model"][0]
    lines = []

    def judged(name: str, plan: Plan) -> None:
        frame: pd.DataFrame = plan.forecast(heavy.loads, LEVEL, [_OVERLOAD])
        value, low, high = (frame[f"{_OVERLOAD}{end}"] for end in ("", "_low", "_high"))
        hits = float(((low <= target) & (target <= high)).mean())
        error = float((np.abs(value - target) / target)[target > 0].mean())
        trusted = float(frame["trusted"].mean())
        width = float(np.median(np.log(high / np.maximum(low, 1e-300))))
        lines.append([name, f"{hits:.0%}", f"{error:.2f}", f"{width:.2f}", f"{trusted:.0%}"])

    for name, each in found.fitted.items():
        alone = Plan(light, {name: each}, known_studies=found.studies)
        judged(f"{name}, sandwich", alone)
        naive = fit(each.model, light, method=Newton(starts=1), covariance=Information())
        judged(f"{name}, naive", naive)
        if name in ("M/M/1/K", best):
            try:
                judged(f"{name}, bootstrap", alone.bootstrap())
            except StationaryError as error:
                lines.append([f"{name}, bootstrap", str(error), "", "", ""])
    judged("pooled", found)
    table(
        f"Nominal {LEVEL:.0%} intervals of the overload share over the {len(target)} test windows",
        ["forecast", "covers", "MAPE", "median width, e-folds", "rows trusted"],
        lines,
    )
    print(f"\n{words.choice(found.comparison.choice)}")
    print("weights: " + ", ".join(f"{name} {w:.2f}" for name, w in found.weights.items()))
