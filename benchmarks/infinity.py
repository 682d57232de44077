"""Randomly stopped gradients: time per window, error against work, epochs to the optimum.

``python -m benchmarks.infinity PLOT.png`` also draws the second.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

import stationary as st
from benchmarks.timing import compare, milliseconds, table
from benchmarks.whole_fit import paper_windows
from stationary.data.losses import ObservationMap, conditional_nll
from stationary.learning.likelihood import Likelihood
from stationary.learning.stochastic import Step, Trainer

DRAWS = 2000


def time_per_window() -> None:
    model = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    rows = []
    for count in (1, 50):
        x = torch.linspace(11, 15, count, dtype=torch.float64)[:, None]
        data = st.simulate(model, x, seed=0, scheme=st.simulation.PoissonCounts(), duration=4.0)
        observation = data.observing([0, 1]).observation(model)
        counts = data.observing([0, 1]).counts

        def step(
            gradient: st.gradients.Gradient,
            x: Tensor = x,
            counts: Tensor = counts,
            o: ObservationMap = observation,
        ) -> Tensor:
            theta = model.theta.detach().clone().requires_grad_()
            pi = st.steady_state(model.generator(x, theta), gradient=gradient).pi
            return torch.autograd.grad(conditional_nll(pi, counts, o).sum(), theta)[0]

        strategies = {
            "Infinity(p=0.1)": st.Infinity(p=0.1, seed=0),
            "Infinity(p=0.1, series=Doubling())": st.Infinity(
                p=0.1, seed=0, series=st.gradients.Doubling()
            ),
            "DivideAndConquerBPTT(128)": st.DivideAndConquerBPTT(128),
            "Exact()": st.Exact(),
        }
        seconds = compare({name: lambda s=s, f=step: f(s) for name, s in strategies.items()})
        for name, value in seconds.items():
            rows.append(
                [
                    str(count),
                    f"`{name}`",
                    milliseconds(value / count),
                    f"{value / seconds['Exact()']:.1f}",
                ]
            )
    table(
        "One step, forward and backward, M/M/1/K of 21 states",
        ["windows per step", "gradient", "ms per window", "times the exact one"],
        rows,
    )


def error_against_work() -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Relative error of ``v`` against mat-vecs, after a move of theta by one per cent."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name, load, rate in (("fast-mixing", 13.0, 25.0), ("slow-mixing", 25.0, 24.0)):
        model = st.models.MMmK(servers=1, capacity=19)
        x = model.as_inputs([load])
        before = model.generator(x, torch.tensor([rate], dtype=torch.float64))
        after = model.generator(x, torch.tensor([1.01 * rate], dtype=torch.float64))
        found[name] = _curves(before, after)
    rows = [
        [name, method, *(f"{work:.0f}: {error:.1e}" for work, error in points)]
        for name, curves in found.items()
        for method, points in curves.items()
    ]
    table(
        "Relative error of the adjoint against mean mat-vecs (or solves), theta moved by 1 %",
        ["chain", "method", *[""] * 5],
        rows,
    )
    for name, curves in found.items():
        plain, *others = (
            (method, dict(points)[10.0])
            for method, points in curves.items()
            if "biased" not in method
        )
        ratios = ", ".join(f"{method} {plain[1] / error:.0f}x" for method, error in others)
        print(f"\n{name}: at 10 products or solves on average, smaller error than plain: {ratios}.")
    return found


def _curves(before: st.Generator, after: st.Generator) -> dict[str, list[tuple[float, float]]]:
    n = after.n
    old, new = st.solvers.GTH().factor(before), st.solvers.GTH().factor(after)
    # The gradient of a conditional likelihood of states 0 and 1.
    g = torch.zeros(1, n, dtype=torch.float64)
    g[0, 0], g[0, 1] = 1 / new.pi[0, 0], -1 / new.pi[0, 1]
    h_old = g - (old.pi * g).sum(-1, keepdim=True)
    v_old, v = old.solve(h_old), new.solve(g - (new.pi * g).sum(-1, keepdim=True))
    many = st.Generator(after.edges, after.rates.expand(DRAWS, -1))
    factor = st.solvers.GTH().factor(st.Generator(before.edges, before.rates.expand(DRAWS, -1)))

    def error(estimate: Tensor) -> float:
        off = estimate - estimate.mean(-1, keepdim=True) - (v - v.mean())
        return float(off.square().sum(-1).mean().sqrt() / (v - v.mean()).norm())

    def spread(**options: object) -> Callable[[float], tuple[float, float]]:
        def at(p: float) -> tuple[float, float]:
            strategy = st.Infinity(p=p, seed=0, **options)
            if strategy.control:
                strategy.state.guesses = dict(enumerate(v_old.expand(DRAWS, -1)))
            found = strategy.estimate(many, new.pi.expand(DRAWS, n), g.expand(DRAWS, n))
            return 1 / p, error(found)

        return at

    def truncated(series: st.gradients.Series) -> Iterator[tuple[float, float]]:
        total = torch.zeros_like(v)
        h = g - (new.pi * g).sum(-1, keepdim=True)
        for k, term in zip(range(1, 401), series.terms(after, h), strict=False):
            total = total + term
            if k in (10, 40, 100, 200, 400):
                yield float(k), error(total)

    stops = (0.1, 0.025, 0.01, 0.005, 0.0025)
    plain, control = spread(), spread(control=True)
    preconditioned = spread(series=st.gradients.Preconditioned(factor))
    warm = spread(series=st.gradients.Preconditioned(factor), control=True)
    return {
        "truncated, biased": list(truncated(st.gradients.Powers())),
        "plain": [plain(p) for p in stops],
        "control variate": [control(p) for p in stops],
        "preconditioned (solves)": [preconditioned(p) for p in (0.9, 0.5, 0.25, 0.1)],
        "preconditioned, control variate (solves)": [warm(p) for p in (0.9, 0.5, 0.25, 0.1)],
    }


def epochs_to_the_optimum() -> None:
    queue = st.models.MMmK(servers=1, capacity=19, service_rate=25.0)
    five = st.models.MMmK(servers=5, capacity=19, service_rate=5.0)
    three = st.models.MultiDiagonal(depth=3, capacity=19, rate_1=16.0, rate_2=8.0, rate_3=4.0)
    slow = np.repeat(np.arange(21.0, 31.0), 5)
    rows = []
    for name, model, extra, observe, loads, lr in (
        ("M/M/1/K fast-mix", queue, 40.0, [0, 1], None, 0.1),
        ("M/M/1/K slow-mix", queue, 55.0, [0, 1], slow, 0.1),
        ("M/M/m/m+r", five, 100.0, [0, 1], None, 0.1),
        ("M/M/Multiple/K", three, 43.0, [0, 1, 2, 3], None, 0.01),
    ):
        windows = paper_windows(model, extra, observe, loads)
        likelihood = Likelihood(model, windows)
        best = st.fit(model, windows).nll
        for method, gradient in (
            ("Infinity(p=0.1)", st.Infinity(p=0.1, seed=0)),
            ("Infinity(p='auto', control=True)", st.Infinity(p="auto", seed=0, control=True)),
            (
                "Infinity(p='auto', Doubling)",
                st.Infinity(p="auto", seed=0, series=st.gradients.Doubling()),
            ),
            ("Exact()", st.Exact()),
            ("DivideAndConquerBPTT(128)", st.DivideAndConquerBPTT(128)),
        ):
            rows.append(
                [name, f"`{method}`", *_race(model, windows, gradient, likelihood, best, lr)]
            )
    table(
        "Adam, one window per step, 50 epochs: until within 1e-3 nats of the optimum",
        ["row", "gradient", "epochs", "seconds", "nats above the optimum after 50"],
        rows,
    )


def _race(
    model: st.models.Model,
    windows: st.Windows,
    gradient: st.gradients.Gradient,
    likelihood: Likelihood,
    best: float,
    lr: float,
) -> list[str]:
    reached: list[str] = []
    watched = 0.0
    began = time.perf_counter()

    def gap(theta: Tensor) -> float:
        return likelihood.value_and_gradient(model.free(theta).numpy())[0] - best

    def callback(step: Step) -> None:
        nonlocal watched
        if (step.step + 1) % len(windows) == 0 and not reached:
            paused = time.perf_counter()
            if gap(torch.tensor(step.theta, dtype=torch.float64)) < 1e-3:
                reached.extend([str(step.epoch + 1), f"{paused - began - watched:.2f}"])
            watched += time.perf_counter() - paused

    rule = st.optimisers.Adam(lr=lr)
    trainer = Trainer(model, windows, st.Stochastic(gradient, 50, rule, callback=callback))
    trainer.run()
    return [*(reached or ["-", "-"]), f"{gap(trainer.estimate):.1e}"]


def plot(found: dict[str, dict[str, list[tuple[float, float]]]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    for axes, (name, curves) in zip(figure.subplots(1, 2, sharey=True), found.items(), strict=True):
        for method, points in curves.items():
            axes.loglog(*zip(*points, strict=True), "o-", label=method)
        axes.set_title(f"{name} M/M/1/K, 20 states")
        axes.set_xlabel("mean mat-vecs (solves, where preconditioned)")
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("relative error of the adjoint")
    figure.axes[0].legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    warnings.simplefilter("ignore", st.errors.DataWarning)
    time_per_window()
    found = error_against_work()
    if sys.argv[0].endswith("infinity.py") and len(sys.argv) > 1:
        plot(found, sys.argv[1])
    epochs_to_the_optimum()


if __name__ == "__main__":
    main()
