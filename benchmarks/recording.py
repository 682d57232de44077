"""Intervals against the paper's own testbed recording: fitted below load 1000, tested above.

Needs the recording, which is not part of the project: python -m benchmarks recording
path/to/volte-testbed-aaai20.csv. An interval is of the long-run share of overload; what a window of
a second measures scatters around that, so covering it is the harder test.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import table
from stationary.covariances import Information
from stationary.errors import ConvergenceWarning, StationaryError
from stationary.experiments.chains import FULL, candidates
from stationary.experiments.testbed import read_recording
from stationary.fitting import fit
from stationary.measures import probability
from stationary.resampling import bootstrap
from stationary.selection import compare

LEVEL = 0.9
_RECORDING = Path("../shared/data/volte-testbed-aaai20.csv")


def main() -> None:
    """Print the coverage of every single model's intervals, and of the pooled one."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    named = [Path(word) for word in sys.argv if word.endswith(".csv")]
    recording = read_recording((named or [_RECORDING])[0])
    light, heavy = recording.light, recording.heavy
    target = recording.target.numpy()
    models = candidates()
    for model in models.values():
        overload = [group == str(FULL) for group in model.groups]
        model.measures = {"overload": probability(torch.tensor(overload))}
    found = compare(models, light)
    lines = []

    def judged(name: str, frame: object) -> None:
        low, high = frame["overload_low"], frame["overload_high"]
        hits = float(((low <= target) & (target <= high)).mean())
        error = float((np.abs(frame["overload"] - target) / target)[target > 0].mean())
        trusted = float(frame["trusted"].mean())
        width = float(np.median(np.log(high / np.maximum(low, 1e-300))))
        lines.append([name, f"{hits:.0%}", f"{error:.2f}", f"{width:.2f}", f"{trusted:.0%}"])

    for rung in found.rungs:
        ahead = rung.fit.forecast(heavy.loads, LEVEL)
        judged(f"{rung.name}, sandwich", ahead)
        naive = fit(rung.fit.model, light, starts=1, covariance=Information())
        judged(f"{rung.name}, naive", naive.forecast(heavy.loads, LEVEL))
        if rung.name in ("M/M/1/K", found.rungs[0].name):
            try:
                judged(f"{rung.name}, bootstrap", bootstrap(rung.fit).forecast(heavy.loads, LEVEL))
            except StationaryError as error:
                lines.append([f"{rung.name}, bootstrap", str(error), "", "", ""])
    judged("pooled", found.forecast(heavy.loads, LEVEL))
    table(
        f"Nominal {LEVEL:.0%} intervals of the overload share over the {len(target)} test windows",
        ["forecast", "covers", "MAPE", "median width, e-folds", "rows trusted"],
        lines,
    )
    print(f"\n{found.reason}")
    print("weights: " + ", ".join(f"{name} {w:.2f}" for name, w in found.weights.items()))
