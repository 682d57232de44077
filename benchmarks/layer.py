"""The layer against what people do without it: value and gradient of dense chains, and digits.

Chains are birth-death chains handed over as dense matrices, the loss is the logarithm of the
probability of the last state: the value and all derivatives are known in closed form, so that the
digits of each way can be counted beside its time, which is the processor's: other programs on the
machine matter less. JAX takes part where it is installed. Writes docs/images/layer.png.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import stationary as st
from benchmarks.timing import compare, milliseconds, table

SIZES = (5, 21, 100, 500, 2000)
BATCHES = (1, 50, 1_000, 10_000)
MOST_ENTRIES = 1.3e7
"""Of all matrices together, so that every way has the memory it needs."""
PATIENCE = 2.0
"""Seconds for one call from which a way is left out."""
RATIO = 0.8
"""Of birth to death rates: of 100 states the last has a probability of 5e-11."""


def chains(n: int, batch: int) -> Tensor:
    """Matrices of birth-death chains whose rates differ from chain to chain."""
    speed = torch.linspace(1.0, 2.0, batch, dtype=torch.float64)[:, None]
    up = torch.diag_embed((RATIO * speed).expand(-1, n - 1), 1)
    return up + torch.diag_embed(speed.expand(-1, n - 1), -1)


def closed_form(n: int) -> tuple[np.ndarray, np.ndarray]:
    """``pi`` and the elasticities of its last entry by the birth rates."""
    logs = np.arange(n) * np.log(RATIO)
    pi = np.exp(logs) / np.exp(logs).sum()
    return pi, 1 - pi[::-1].cumsum()[::-1][1:]


def generator(Q: Tensor) -> Tensor:
    off = Q * (1 - torch.eye(Q.shape[-1], dtype=Q.dtype))
    return off - torch.diag_embed(off.sum(-1))


def ours(Q: Tensor) -> Tensor:
    return st.steady_state(Q).pi


def on_edges(Q: Tensor) -> Tensor:
    """The same where the possible moves of the chain are known, as in models."""
    n = Q.shape[-1]
    if n not in EDGES:
        step = torch.arange(n - 1)
        EDGES[n] = st.Edges(torch.cat([step, step + 1]), torch.cat([step + 1, step]), n)
    rates = torch.cat([Q.diagonal(1, -2, -1), Q.diagonal(-1, -2, -1)], -1)
    return st.steady_state(st.Generator(EDGES[n], rates)).pi


EDGES: dict[int, st.Edges] = {}


def solve(Q: Tensor) -> Tensor:
    A = torch.cat([torch.ones_like(Q[..., :1]), generator(Q)[..., 1:]], -1)
    unit = torch.zeros_like(Q[..., 0])
    unit[..., 0] = 1.0
    return torch.linalg.solve(A.mT, unit)


def lstsq(Q: Tensor) -> Tensor:
    """Least squares without a graph, then one step of implicit differentiation."""
    G = generator(Q)
    with torch.no_grad():
        A = torch.cat([G.mT, torch.ones_like(G[..., :1, :])], -2)
        unit = torch.zeros_like(A[..., :1])
        unit[..., -1, :] = 1.0
        pi = torch.linalg.lstsq(A, unit).solution[..., 0]
        inverse = torch.linalg.pinv(G)
    moved = -(pi[..., None, :] @ G) @ inverse  # zero in value, and dpi = -pi dQ Q^+ in its slope
    moved = moved[..., 0, :]
    return pi + moved - moved.sum(-1, keepdim=True) * pi


def eigenvector(Q: Tensor) -> Tensor:
    G = generator(Q)
    values, vectors = torch.linalg.eig(G.mT)
    which = values.real.argmax(-1)
    vector = vectors.gather(-1, which[..., None, None].expand(*vectors.shape[:-1], 1))[..., 0].real
    return vector / vector.sum(-1, keepdim=True)


def powers(Q: Tensor) -> Tensor:
    """Power iteration to 1e-12 with autograd through every step."""
    G = generator(Q)
    P = (
        torch.eye(Q.shape[-1], dtype=Q.dtype)
        + G / (1.01 * -G.diagonal(dim1=-2, dim2=-1)).amax(-1, keepdim=True)[..., None]
    )
    pi = torch.full_like(Q[..., 0], 1 / Q.shape[-1])[..., None, :]
    for _ in range(20_000):
        after = pi @ P
        if float((after - pi).detach().abs().max()) < 1e-14:
            break
        pi = after
    return after[..., 0, :]


def squarings(Q: Tensor) -> Tensor:
    """DC-BPTT with so many steps that these chains have mixed."""
    steps = 2 ** int(np.ceil(np.log2(400 * Q.shape[-1])))
    return st.steady_state(Q, gradient=st.DivideAndConquerBPTT(steps)).pi


Slope = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From matrices to ``pi`` and the gradient of the sum of the logarithms of its last entries."""


def by_torch(way: Callable[[Tensor], Tensor], Q: Tensor) -> tuple[Tensor, Tensor]:
    leaf = Q.detach().requires_grad_()
    pi = way(leaf)
    return pi.detach(), torch.autograd.grad(pi[:, -1].log().sum(), leaf)[0]


@cache
def compiled_by_jax() -> Callable[[Any], Any]:
    """JAX's implicit differentiation of the balance equations, compiled for batches."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def steady(Q: Any) -> Any:
        n = Q.shape[-1]

        def balance(pi: Any) -> Any:
            off = Q * (1 - jnp.eye(n))
            return (pi @ off - pi * off.sum(-1)).at[0].set(pi.sum() - 1)

        def solved(f: Callable[[Any], Any], y: Any) -> Any:
            return jnp.linalg.solve(jax.jacfwd(f)(jnp.zeros(n)), y)

        def root(f: Callable[[Any], Any], _: Any) -> Any:
            return solved(lambda pi: f(pi) - f(jnp.zeros(n)), -f(jnp.zeros(n)))

        return jax.lax.custom_root(balance, jnp.full(n, 1 / n), root, solved)

    def loss(Q: Any) -> Any:
        pi = jax.vmap(steady)(Q)
        return jnp.log(pi[:, -1]).sum(), pi

    return jax.jit(jax.grad(loss, has_aux=True))


def by_jax(Q: Tensor) -> tuple[Tensor, Tensor]:
    slope, pi = compiled_by_jax()(Q.numpy())
    return torch.from_numpy(np.array(pi)), torch.from_numpy(np.array(slope))


WAYS: dict[str, Slope] = {
    "steady_state": partial(by_torch, ours),
    "steady_state, edges known": partial(by_torch, on_edges),
    "autograd through solve": partial(by_torch, solve),
    "implicit, lstsq and pinv": partial(by_torch, lstsq),
    "eigenvector": partial(by_torch, eigenvector),
    "power iteration": partial(by_torch, powers),
    "DC-BPTT": partial(by_torch, squarings),
}
if importlib.util.find_spec("jax"):
    WAYS["JAX, custom_root"] = by_jax


def digits(way: Slope, Q: Tensor) -> tuple[float, float]:
    """Largest relative errors of ``pi`` and of the elasticities by birth rates."""
    pi, slope = way(Q)
    exact, elastic = closed_form(Q.shape[-1])
    found = (slope * Q).diagonal(1, -2, -1).numpy()
    return (
        float(np.abs(pi.numpy() / exact - 1).max()),
        float(np.abs(found / elastic - 1).max()),
    )


def measured(
    n: int, batch: int, last: dict[str, tuple[int, float]], seconds: float = 0.5
) -> dict[str, tuple[float, float, float]]:
    """Seconds and the two errors of every way that ends in time and gives numbers.

    ``last`` has the size and the seconds of each way's last single chain: costs grow as its cube.
    """
    Q, errors, times, ways = chains(n, batch), {}, {}, {}
    for name, way in WAYS.items():
        size, took = last.get(name, (n, 0.0))
        if took * (n / size) ** 3 > PATIENCE:
            continue
        try:
            way(Q[:1])  # compiles
            began = time.process_time()
            way(Q[:1])
            one = time.process_time() - began
            last[name] = n, one
            if one * max(1, batch / 20) > PATIENCE:  # kernels do many chains faster than one each
                continue
            errors[name] = digits(way, Q)  # compiles for this size
            began = time.process_time()
            way(Q)
            times[name] = time.process_time() - began
        except (RuntimeError, st.errors.StationaryError):
            continue
        if times[name] < PATIENCE / 10:  # once is enough of what takes long
            ways[name] = partial(way, Q)
    times |= compare(ways, seconds, time.process_time) if ways else {}
    return {name: (times[name], *errors[name]) for name in errors}


def main() -> None:
    points: dict[tuple[int, int], dict[str, tuple[float, float, float]]] = {}
    last: dict[str, tuple[int, float]] = {}

    def rows() -> Iterator[list[str]]:
        for n, batch in itertools.product(SIZES, BATCHES):
            if n * n * batch > MOST_ENTRIES:
                continue
            found = points[n, batch] = measured(n, batch, last)
            cells = [
                f"{milliseconds(found[name][0])} ({found[name][1]:.0e}, {found[name][2]:.0e})"
                if name in found
                else "-"
                for name in WAYS
            ]
            rival = found.get("autograd through solve", (math.nan,))[0]
            faster = [f"{rival / found[name][0]:.1f}" for name in list(WAYS)[:2]]
            yield [f"{n:,}", f"{batch:,}", *cells, ", ".join(faster)]

    table(
        "Value and gradient of dense chains, processor time in ms (largest relative error of pi, "
        "of the gradient)",
        ["states", "chains", *WAYS, "times faster than solve"],
        rows(),
    )
    draw(points)


def draw(points: dict[tuple[int, int], dict[str, tuple[float, float, float]]]) -> None:
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for k, name in enumerate(WAYS):
        style = {"color": f"C{k}", "marker": "o", "linewidth": 2.5 if k < 2 else 1}
        at = [batch for n, batch in points if n == 21 and name in points[n, batch]]
        left.plot(at, [1e3 * points[21, b][name][0] for b in at], label=name, **style)
        some = [points[key][name] for key in points if key[1] == 50 and name in points[key]]
        sizes = [key[0] for key in points if key[1] == 50 and name in points[key]]
        right.plot(sizes, [max(max(e[1:]), 1e-17) for e in some], **style)
    left.set(
        xscale="log", yscale="log", xlabel="chains of 21 states", ylabel="ms, value and gradient"
    )
    right.set(
        xscale="log", yscale="log", xlabel="states, 50 chains", ylabel="largest relative error"
    )
    for ax in (left, right):
        ax.grid(alpha=0.3)
    figure.legend(loc="outside upper center", ncols=6, fontsize="small")
    figure.savefig(Path(__file__).parent.parent / "docs" / "images" / "layer.png", dpi=110)


if __name__ == "__main__":
    main()
