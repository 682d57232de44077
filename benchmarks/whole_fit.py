"""A whole fit: time, gradient evaluations and distance from a tight-tolerance reference optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

import stationary as st
from benchmarks.timing import compare, milliseconds, table
from stationary.data.losses import conditional_nll

ONE = st.Newton(starts=1)
LOADS = np.repeat(np.arange(11.0, 16.0), 10)


def paper_windows(
    model: st.models.Model, extra: float, observe: list[int], loads: Any = None
) -> st.Windows:
    """Fifty one-second windows of one of the paper's rows (Algorithm 1), at light load."""
    loads = LOADS if loads is None else loads
    gamma = model(loads).exit_rates().amax(-1).detach() + extra
    return st.simulate(
        model, loads, duration=1.0, seed=0, scheme=st.simulation.Events(gamma=gamma.tolist())
    ).observing(observe, drop_empty=True)


def reference(model: st.models.MMmK, windows: st.Windows) -> float:
    """The optimum by another road: the closed form and Brent's method to the last digit."""
    observation = windows.observation(model)
    other = st.models.MMmK(model.servers, model.capacity)

    def nll(log_rate: float) -> float:
        other.set_theta([np.exp(log_rate)])
        pi = other.closed_form(windows.x)
        return float(conditional_nll(pi, windows.counts, observation).sum())

    start = np.log(model.theta.item())
    options = {"xtol": 1e-12}
    return float(minimize_scalar(nll, (start - 1, start, start + 1), options=options).fun)


def main() -> None:
    queue = st.models.MMmK(servers=1, capacity=19, service_rate=25.0)
    five = st.models.MMmK(servers=5, capacity=19, service_rate=5.0)
    three = st.models.MultiDiagonal(depth=3, capacity=19, rate_1=16.0, rate_2=8.0, rate_3=4.0)
    rows = []
    for name, model, extra, observe in (
        ("M/M/1/K fast-mix", queue, 40.0, [0, 1]),
        ("M/M/m/m+r", five, 100.0, [0, 1]),
        ("M/M/Multiple/K", three, 43.0, [0, 1, 2, 3]),
    ):
        windows = paper_windows(model, extra, observe)
        result = st.fit(model, windows)
        pi_only = model.generator(windows.pooled().x, model.theta.detach())
        seconds = compare(
            {
                "three starts": lambda m=model, w=windows: st.fit(m, w),
                "one start": lambda m=model, w=windows: st.fit(m, w, method=ONE),
                "one steady state": lambda g=pi_only: st.steady_state(g),
            }
        )
        gap = "-"
        if isinstance(model, st.models.MMmK):
            best = reference(model, windows)
            gap = f"{abs(result.nll - best) / best:.1e}"
        rows.append(
            [
                name,
                milliseconds(seconds["three starts"]),
                milliseconds(seconds["one start"]),
                f"{seconds['one start'] / seconds['one steady state']:.0f}",
                str(result.estimate.evaluations),
                str(st.fit(model, windows, method=ONE).estimate.evaluations),
                gap,
                ", ".join(f"{value:.3f}" for value in result.estimates.values()),
            ]
        )
    table(
        "Whole fits with covariance, 50 windows of 20 states (the paper's light-load rows)",
        [
            "row",
            "ms, 3 starts",
            "ms, 1 start",
            "1 start / one steady state",
            "gradients, 3 starts",
            "gradients, 1 start",
            "NLL above reference, relative",
            "estimates",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
