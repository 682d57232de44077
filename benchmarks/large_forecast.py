"""What a forecast of a large chain costs, beside the delta method.

Two queues in a row, of which one, two or three parameters are known to two per cent. The first
column of times is one solve with the gradient of the loss. The others are forecasts of all default
measures, with intervals, and their cost as a multiple of the delta method's, which takes one solve
per load with the slopes of all measures.

    python -m benchmarks large_forecast [3600 1e4 1e5]
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

import stationary as st
from benchmarks.timing import table
from stationary.learning.derivatives import by_input
from stationary.learning.draws import Draws, from_estimate
from stationary.learning.estimate import End, Ended, Estimate
from stationary.learning.inference import Covariance, Link
from stationary.models import Point
from stationary.planning.forecast import forecast

SIZES = (3_600, 10_000)
LOADS: dict[str, list[float]] = {"one load": [9.0], "four loads": [5.0, 7.0, 9.0, 11.0]}
SPREAD = 0.02
RATES = (("mu1", 12.0), ("mu2", 13.0), ("patience", 0.05))


def model(n: int, parameters: int) -> st.models.RuleModel:
    """Two queues in a row; the first so many rates are parameters, the others constants."""
    return st.models.RuleModel(
        variables={"q1": (0, "K"), "q2": (0, "K")},
        rules={
            "arrive": "q1 < K -> q1 += 1 else lost at load",
            "move": "q1 > 0 and q2 < K -> q1 -= 1, q2 += 1 at mu1",
            "leave": "q2 > 0 -> q2 -= 1 at mu2",
            "renege": "q2 > 0 -> q2 -= 1 at patience * q2",
        },
        params=dict(RATES[:parameters]),
        constants={"K": round(n**0.5) - 1} | dict(RATES[parameters:]),
        jobs="q1 + q2",
    )


def draws(chain: st.models.RuleModel) -> Draws:
    """Draws as of a fit that knows every parameter to `SPREAD`."""
    size = len(chain.theta)
    matrix = SPREAD**2 * (0.7 * np.eye(size) + 0.3)
    known = Covariance(matrix, 0, "given", np.zeros((size, 0)), chain.scale())
    estimate = Estimate(chain, known, 0.0, Ended(End.CONVERGED, True), 0.0, 0)
    return Draws((from_estimate(estimate),))


def solve(chain: st.models.RuleModel, load: float) -> None:
    """One steady state, and the gradient of the loss."""
    point = chain.at([load])
    torch.autograd.grad(chain.measure("loss")(point).sum(), chain.theta)


def delta(chain: st.models.RuleModel, loads: list[float]) -> None:
    """Values and slopes of all measures at every load, as the delta method needs them."""
    scale = chain.scale()
    names = [chain.measure(name) for name in chain.measures]
    links = [Link(measure) for measure in names]

    def levels(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        point = Point(chain, x, scale.natural(z))
        return torch.stack([link.level(m(point)) for m, link in zip(names, links, strict=True)], -1)

    x = torch.tensor(loads, dtype=torch.float64)[:, None]
    by_input(levels, scale.free(chain.theta.detach()).numpy(), x, chain.edges)


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Shortest time of a few."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Print a row for each size and number of parameters."""
    sizes = [int(float(word)) for word in sys.argv[1:] if word[0].isdigit()] or SIZES
    rows = []
    for n in sizes:
        for parameters in range(1, 1 + len(RATES)):
            chain = model(n, parameters)
            repeats = 3 if n < 100_000 else 1
            solve(chain, 9.0)  # orders the states, compiles
            one = seconds(lambda: solve(chain, 9.0), repeats)  # noqa: B023
            row = [f"{len(chain.states):,}", str(parameters), f"{one:.2f}"]
            for loads in LOADS.values():
                # Another copy of the model each time: curves are kept for the next question.
                fresh = iter([draws(copy.deepcopy(chain)) for _ in range(repeats)])
                took = seconds(lambda: forecast(next(fresh), loads), repeats)  # noqa: B023
                old = seconds(lambda: delta(chain, loads), repeats)  # noqa: B023
                row.append(f"{took:.2f} ({took / old:.1f})")
            rows.append(row)
    table(
        "Forecasts of a large chain; seconds (times the delta method)",
        ["states", "parameters", "a solve with gradient", *LOADS],
        rows,
    )


if __name__ == "__main__":
    main()
