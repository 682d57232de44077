"""The exact gradient of the full-batch likelihood, forward and backward to theta.

The rival is what one would write without this library: build Q, replace an equation by the
normalisation, ``torch.linalg.solve``, and let autograd go back through it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import stationary as st
from benchmarks.timing import compare, milliseconds, table
from stationary.data.losses import conditional_nll
from stationary.learning.likelihood import Likelihood
from stationary.models import Model
from stationary.solvers import Solver


def windows_for(model: Model, count: int) -> st.Windows:
    """Distinct loads, so that no two windows can be added up."""
    x = torch.linspace(11.0, 15.0, count, dtype=torch.float64)
    return st.simulate(
        model, x, duration=4.0, seed=0, scheme=st.simulation.PoissonCounts()
    ).observing([0, 1])


def rival(model: Model, likelihood: Likelihood) -> Tensor:
    """Gradient by autograd through a dense solve."""
    theta = model.theta.detach().clone().requires_grad_()
    x, edges, n = likelihood.x, model.edges, model.edges.n
    flat = torch.zeros(len(x), n * n, dtype=torch.float64)
    Q = flat.index_add(-1, edges.src * n + edges.dst, model.edge_rates(x, theta)).unflatten(
        -1, (n, n)
    )
    A = (Q - torch.diag_embed(Q.sum(-1))).mT.clone()
    A[:, 0, :] = 1.0
    unit = torch.zeros(len(x), n, dtype=torch.float64)
    unit[:, 0] = 1.0
    p = likelihood.observations[0].map.of(torch.linalg.solve(A, unit))
    loss = -(likelihood.data * (p / p.sum(-1, keepdim=True)).log()).sum()
    return torch.autograd.grad(loss, theta)[0]


def layer(model: Model, likelihood: Likelihood, solver: Solver) -> Tensor:
    """The same through `steady_state` as a differentiable layer."""
    theta = model.theta.detach().clone().requires_grad_()
    pi = st.steady_state(model.generator(likelihood.x, theta), solver=solver).pi
    loss = conditional_nll(pi, likelihood.data, likelihood.observations[0].map).sum()
    return torch.autograd.grad(loss, theta)[0]


def times(model: Model, count: int, seconds: float = 2.0) -> dict[str, float]:
    """Seconds per full-batch gradient, every way, after a check that they agree."""
    windows = windows_for(model, count)
    gth, auto = Likelihood(model, windows, st.solvers.GTH()), Likelihood(model, windows)
    z = model.free(model.theta.detach()).numpy()
    ours = gth.value_and_gradient(z)[1] / model.theta.detach().numpy()
    np.testing.assert_allclose(ours, rival(model, gth), rtol=1e-6, atol=1e-6 * abs(ours).max())
    return compare(
        {
            "fit, Auto": lambda: auto.value_and_gradient(z),
            "fit, GTH": lambda: gth.value_and_gradient(z),
            "layer, Auto": lambda: layer(model, auto, st.solvers.Auto()),
            "layer, GTH": lambda: layer(model, gth, st.solvers.GTH()),
            "rival": lambda: rival(model, gth),
        },
        seconds,
    )


def row(first: list[str], measured: dict[str, float]) -> list[str]:
    """Times of every way and, for ours, how many times faster than the rival."""
    other = measured["rival"]
    cells = [
        f"{milliseconds(value)} ({other / value:.1f}x)"
        for name, value in measured.items()
        if name != "rival"
    ]
    return [*first, *cells, milliseconds(other)]


HEADER = ["fit, Auto", "fit, GTH", "layer, Auto", "layer, GTH", "autograd through solve"]


def main() -> None:
    queue = st.models.MMmK(servers=1, capacity=20, service_rate=25.0)
    table(
        "Full-batch exact gradient to theta, M/M/1/K of 21 states, ms (times faster)",
        ["windows", *HEADER],
        [row([f"{count:,}"], times(queue, count)) for count in (10, 50, 100, 1_000, 10_000)],
    )
    three = st.models.MultiDiagonal(depth=3, capacity=20, rate_1=16.0, rate_2=8.0, rate_3=4.0)
    table(
        "The same for M/M/Multiple/K of 21 states, which has no closed form",
        ["windows", *HEADER],
        [row([f"{count:,}"], times(three, count)) for count in (50, 1_000)],
    )
    rows = []
    for n in (20, 50, 100, 200, 500):
        full = st.models.UpperTriangular(states=n)
        full.set_theta(
            torch.rand(len(full.theta), generator=torch.Generator().manual_seed(n)) + 0.5
        )
        rows.append(row([str(n), f"{len(full.theta):,}"], times(full, 10)))
    table(
        "Cost as the chain grows: upper-triangular model, 10 windows, every rate a parameter",
        ["states", "parameters", *HEADER],
        rows,
    )


if __name__ == "__main__":
    main()
