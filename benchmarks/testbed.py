"""Forecast against truth on a recording of the testbed: fitted below 2000 per second, tested above.

The bundled recording, or one of your own: python -m benchmarks testbed windows.csv.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

from benchmarks.timing import table
from stationary import words
from stationary.data.demo import CAPACITY, LIGHT, OBSERVED, recording
from stationary.data.readers import read_windows
from stationary.errors import ConvergenceWarning
from stationary.planner import Plan, compare
from stationary.trust.ladder import ladder


def main() -> None:
    """Print errors and coverage of every model, of the pool, and of trivial forecasts."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    named = [Path(word) for word in sys.argv if word.endswith(".csv")]
    windows = recording()
    if named:
        windows = read_windows(named[0], counts="T={}", sampling="arrival", duration=1.0)
    light, heavy = windows.between(None, LIGHT), windows.between(LIGHT, None)
    found = compare(ladder(light.observing(OBSERVED), 1, CAPACITY), light.observing(OBSERVED))
    loads, counts = heavy.loads.numpy(), heavy.counts.numpy()
    lost = counts[:, -1] / counts.sum(-1)
    rate = found.fitted["mmmk"].model.estimates["service_rate"]
    near = (loads > 0.9 * rate) & (loads < 1.1 * rate)
    mean = float(light.counts[:, -1].sum() / light.counts.sum())
    lines = []

    def judged(name: str, loss: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        some = lost > 0
        covers = ((low <= lost) & (lost <= high)).mean() if (high > low).any() else np.nan
        ratio = loss[near].mean() / lost[near].mean()
        lines.append(
            [
                name,
                f"{(np.abs(loss - lost)[some] / lost[some]).mean():.2f}",
                f"{((loss - lost) ** 2).mean():.1e}",
                f"{covers:.0%}".replace("nan%", ""),
                f"{ratio:.2f}",
            ]
        )

    for name, each in found.fitted.items():
        ahead = Plan(found.windows, {name: each}, known_studies=found.studies).forecast(loads)
        label = f"{name} (recommended)" if name == found.recommended else name
        judged(label, *(ahead[f"loss{end}"].to_numpy() for end in ("", "_low", "_high")))
    ahead = found.forecast(loads)
    judged("pooled", *(ahead[f"loss{end}"].to_numpy() for end in ("", "_low", "_high")))
    for name, value in (("no loss", 0.0), ("light-load mean", mean)):
        flat = np.full_like(lost, value)
        judged(name, flat, flat, flat)
    table(
        f"{len(heavy)} windows above {LIGHT:g} a second, forecast from {len(light)} below",
        ["forecast", "MAPE", "MSE", "95% interval covers", "forecast / measured, 0.9..1.1 mu"],
        lines,
    )
    print(f"\n{words.choice(found.comparison.choice)}")
