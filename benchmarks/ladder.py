"""Is the true model found, and what does a wrong choice cost? Fresh data of each model every time.

One server with room for 20, observed as 0..3 in windows of 20 s at loads 6 to 20. The error is that
of the loss at load 30, in e-folds of its odds; the oracle fits the model that the data came from.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.timing import table
from stationary._support.parallel import in_parallel
from stationary.errors import ConvergenceWarning, DataWarning
from stationary.models import (
    BatchArrivals,
    ErlangService,
    HyperexponentialService,
    MMmK,
    Model,
    OnOffArrivals,
    Slowing,
    StateDependent,
)
from stationary.planner import compare
from stationary.simulation.simulate import simulate
from stationary.trust.ladder import ladder

SETS = 30
AHEAD = 30.0
LOADS = np.tile(np.arange(6.0, 21.0, 2.0), 8)

FAMILIES: dict[str, Model] = {
    "mmmk": MMmK(servers=1, capacity=20, service_rate=25.0),
    "slowing": Slowing(servers=1, capacity=20, service_rate=30.0, slowdown=0.15),
    "statedependent:depth=3": StateDependent(
        depth=3, capacity=20, service_1=15.0, service_2=22.0, service_3=27.0
    ),
    "erlang:phases=4": ErlangService(phases=4, capacity=20, service_rate=25.0),
    "hyperexponential": HyperexponentialService(
        capacity=20, service_rate=25.0, extra_variation=2.0
    ),
    "batch": BatchArrivals(servers=1, capacity=20, service_rate=30.0, extra=0.6),
    "onoff": OnOffArrivals(servers=1, capacity=20, service_rate=30.0, burst=0.8, switching=4.0),
}


@dataclass(frozen=True)
class Trial:
    """What is chosen for one data set, and how well it forecasts."""

    family: str

    def __call__(self, seed: int) -> dict[str, object]:
        """Choose, and forecast by the choice, by the oracle, by the pool, and by M/M/1/K."""
        truth = FAMILIES[self.family]
        # The order of the loads is mixed, from another stream than the simulation's.
        loads = np.random.default_rng([seed, 1]).permutation(LOADS)
        windows = simulate(truth, loads, duration=20.0, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", DataWarning)  # a window in which the queue stayed long
            windows = windows.observing([0, 1, 2, 3], drop_empty=True)
            found = compare(ladder(windows, 1, 20), windows, starts=1, jobs=1)
        with torch.no_grad():
            real = float(truth.measure("loss")(truth.at([AHEAD])))
        pooled = found.forecast([AHEAD], 0.9).iloc[0]

        def error(name: str) -> float:
            model = found.fitted[name].model
            with torch.no_grad():
                loss = float(model.measure("loss")(model.at([AHEAD])))
            return abs(_odds(loss) - _odds(real))

        return {
            "chosen": found.recommended,
            "chosen error": error(found.recommended) if found.recommended else np.nan,
            "oracle error": error(self.family),
            "pooled error": abs(_odds(float(pooled["loss"])) - _odds(real)),
            "covered": bool(pooled["loss_low"] <= real <= pooled["loss_high"]),
            "mmmk error": error("mmmk"),
        }


def main() -> None:
    """Print how often the true model is chosen, and how much worse than the oracle a choice is."""
    lines = []
    for name in FAMILIES:
        trials = in_parallel(Trial(name), range(SETS))
        chosen = [trial["chosen"] for trial in trials]
        others = sorted(set(filter(None, chosen)) - {name}, key=lambda n: -chosen.count(n))
        medians = [
            f"{np.nanmedian([trial[f'{who} error'] for trial in trials]):.2f}"
            for who in ("oracle", "chosen", "pooled", "mmmk")
        ]
        lines.append(
            [
                name,
                f"{chosen.count(name) / SETS:.0%}",
                f"{chosen.count(None) / SETS:.0%}",
                f"{others[0]} {chosen.count(others[0]) / SETS:.0%}" if others else "",
                *medians,
                f"{np.mean([trial['covered'] for trial in trials]):.0%}",
            ]
        )
    table(
        f"The ladder on data of each family, {SETS} data sets each; errors of the loss at load "
        f"{AHEAD:g}, median, e-folds",
        [
            *("true family", "chosen", "none trusted", "next most chosen", "error of the oracle"),
            *("of the chosen", "pooled", "of M/M/1/K always", "pooled 90% interval covers"),
        ],
        lines,
    )


def _odds(share: float) -> float:
    share = min(max(share, 1e-300), 1 - 1e-16)
    return float(np.log(share / (1 - share)))
