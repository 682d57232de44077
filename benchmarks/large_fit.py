"""A whole fit of two queues in a row from lumped counts: three parameters, 20 windows.

Each size runs in a process of its own, so that its peak memory is its own. The windows are
simulated, so that the truth is known; a row says how far from it the estimates are.

    python -m benchmarks large_fit [1e4 1e5 1e6]
"""

from __future__ import annotations

import json
import logging
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import stationary as st
from benchmarks.timing import table
from stationary.planning.forecast import forecast

SIZES = (10_000, 100_000)
LOADS = (5.0, 6.0, 7.0, 8.0, 9.0)
TRUTH = {"mu1": 12.0, "mu2": 9.0, "patience": 0.05}
START = {"mu1": 20.0, "mu2": 6.0, "patience": 0.2}


def model(n: int, params: dict[str, float]) -> st.models.RuleModel:
    """Blocking, impatience in the second queue; both queues counted up to nine and beyond."""
    return st.models.RuleModel(
        variables={"q1": (0, "K"), "q2": (0, "K")},
        rules={
            "arrive": "q1 < K -> q1 += 1 else lost at load",
            "move": "q1 > 0 and q2 < K -> q1 -= 1, q2 += 1 at mu1",
            "leave": "q2 > 0 -> q2 -= 1 at mu2",
            "renege": "q2 > 0 -> q2 -= 1 at patience * q2",
        },
        params=params,
        constants={"K": round(n**0.5) - 1},
        count="10 * min(q1, 9) + min(q2, 9)",
        jobs="q1 + q2",
    )


def one(n: int) -> None:
    """Build, simulate, fit and forecast at one size; print what it took."""
    logging.basicConfig()  # a solver that fails says so
    began = time.perf_counter()
    truth = model(n, TRUTH)
    built = time.perf_counter()
    duration = 20_000.0 / truth([LOADS[-1]]).event_rate().item()
    windows = st.simulate(truth, x=list(LOADS) * 4, duration=duration, seed=1)
    simulated = time.perf_counter()
    fit = st.fit(model(n, START), windows)
    fitted = time.perf_counter()
    forecast(fit.draws, [11.0])
    done = time.perf_counter()
    errors = [
        (z_hat - z) / error
        for z_hat, z, error in zip(
            fit.model.free(fit.model.theta.detach()).tolist(),
            truth.free(truth.theta.detach()).tolist(),
            fit.covariance.stderr,
            strict=True,
        )
    ]
    print(
        json.dumps(
            {
                "states": len(truth.states),
                "build": built - began,
                "simulate": simulated - built,
                "fit": fitted - simulated,
                "gradients": fit.estimate.evaluations,
                "converged": fit.converged,
                "farthest": max(map(abs, errors)),
                "forecast": done - fitted,
                "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
        )
    )


def main() -> None:
    sizes = [int(float(word)) for word in sys.argv[1:] if word[0].isdigit()] or SIZES

    def rows() -> Iterator[list[str]]:
        for n in sizes:
            code = f"from benchmarks.large_fit import one; one({n})"
            done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            yield [
                f"{found['states']:,}",
                *(f"{found[key]:.1f}" for key in ("build", "simulate", "fit")),
                str(found["gradients"]),
                f"{found['fit'] / found['gradients'] / len(LOADS):.2f}",
                "yes" if found["converged"] else "no",
                f"{found['farthest']:.1f}",
                f"{found['forecast']:.1f}",
                f"{found['GiB']:.2f}",
            ]

    table(
        "Three parameters, 20 windows at 5 loads, 100 categories; seconds",
        [
            "states",
            "build",
            "simulate",
            "fit",
            "gradients",
            "a gradient of one load",
            "converged",
            "errors from the truth, at most",
            "forecast of one load",
            "peak GiB",
        ],
        rows(),
    )


if __name__ == "__main__":
    main()
