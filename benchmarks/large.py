"""Large lattices: queues in a row, at moderate load and near saturation.

Each chain is solved in a process of its own, so that its peak memory is its own. The rival is
algebraic multigrid as one would take it from a library: pyamg's Ruge-Stueben hierarchy of the
transposed generator without its ground, and GMRES around it. It is given the best ground.

    python -m benchmarks large [1e4 1e5 1e6]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

import stationary as st
from benchmarks.timing import table
from stationary.solvers import Solver

LOADS = {"moderate": 0.7, "near saturation": 0.99}
SIZES = (10_000, 100_000)
SOLVERS: dict[str, Solver] = {
    "SparseLU": st.solvers.SparseLU(),
    "Multigrid": st.solvers.Multigrid(),
}
_MOST_SOLID = 100_000
"""States up to which sparse LU is tried on a solid lattice; it would take 19 GB at a million."""
RIVAL = "pyamg"
_MOST_MEMORY = 12 * 2**30
_PATIENCE = 100.0
_MOST_STORM = 100_000


def tandem(shape: Sequence[int], arrival: float, service: float = 1.0) -> st.Generator:
    """Queues in a row, each with room for one less than its entry of ``shape``; blocking."""
    states = np.arange(int(np.prod(shape))).reshape(shape)
    src, dst, rates = [], [], []
    for k in range(len(shape) + 1):
        before, after = [slice(None)] * len(shape), [slice(None)] * len(shape)
        if k > 0:  # a request leaves queue k - 1 ...
            before[k - 1], after[k - 1] = slice(1, None), slice(None, -1)
        if k < len(shape):  # ... and joins queue k
            before[k], after[k] = slice(None, -1), slice(1, None)
        src.append(states[tuple(before)].ravel())
        dst.append(states[tuple(after)].ravel())
        rates.append(np.full(src[-1].size, arrival if k == 0 else service))
    edges = torch.from_numpy(np.stack([np.concatenate(src), np.concatenate(dst)]))
    return st.Generator(edges, torch.from_numpy(np.concatenate(rates)), n=states.size)


def shape_of(n: int, dimensions: int) -> list[int]:
    """Equal rooms that make about n states."""
    return [round(n ** (1 / dimensions))] * dimensions


def ours(generator: st.Generator, solver: Solver) -> dict[str, float]:
    """Seconds of the first solve, of a second one with other rates, and of a gradient."""
    reward = torch.linspace(0.0, 1.0, generator.n, dtype=torch.float64)
    solver.factor(tandem([50, 50], 0.5)).rate_gradient(reward[:2_500])  # compiles
    began = time.perf_counter()
    found = solver.factor(generator)
    first = time.perf_counter() - began
    rates = (generator.rates * 1.01).requires_grad_()
    rates.data[: len(rates) // 3] /= 1.02  # arrivals move against services
    moved = st.Generator(generator.edges, rates)
    if isinstance(solver, st.solvers.Multigrid):
        solver = replace(solver, start=found.pi)
    del found
    began = time.perf_counter()
    state = st.steady_state(moved, solver)
    forward = time.perf_counter() - began
    began = time.perf_counter()
    (state.pi * reward).sum().backward()
    gradient = time.perf_counter() - began
    return {"first": first, "forward": forward, "gradient": gradient, **residual_of(state)}


def residual_of(state: st.SteadyState) -> dict[str, float]:
    """Largest imbalance over the largest flow, recomputed."""
    pi = state.pi.detach()
    flow = (pi * state.generator.exit_rates().detach()).max()
    rates = st.Generator(state.generator.edges, state.generator.rates.detach())
    return {"residual": float(rates.balance(pi).abs().max() / flow)}


def theirs(generator: st.Generator) -> dict[str, float]:
    """Seconds of pyamg's steady state, the hierarchy included."""
    import pyamg

    Q = generator.sparse()
    n = generator.n
    ground = 0  # the likeliest state of these lattices, and a corner, which suits coarsening
    kept = np.delete(np.arange(n), ground)
    began = time.perf_counter()
    A = -Q.T.tocsr()[kept][:, kept].tocsr()
    right = np.asarray(Q[[ground]].toarray()[0][kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        levels = pyamg.ruge_stuben_solver(A, coarse_solver="splu")  # or it inverts densely
        x = levels.solve(right, tol=1e-10, accel="gmres", maxiter=100)
    pi = np.zeros(n)
    pi[kept], pi[ground] = x, 1.0
    pi /= pi.sum()
    spent = time.perf_counter() - began
    residual = np.abs(Q.T @ pi).max() / (pi * -Q.diagonal()).max()
    return {"first": spent, "forward": spent, "gradient": float("nan"), "residual": float(residual)}


def one(dimensions: int, n: int, load: float, name: str) -> None:
    """Measure one chain with one solver and print what was found, for the parent to read."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    generator = tandem(shape_of(n, dimensions), load)
    try:
        found = theirs(generator) if name == RIVAL else ours(generator, SOLVERS[name])
    except (st.errors.SolverError, MemoryError):
        found = {"failed": float("nan")}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**found, "GiB": peak / 2**20}))


def measured(dimensions: int, n: int, load: float, name: str) -> dict[str, float]:
    """The same in a process of its own."""
    code = f"from benchmarks.large import one; one({dimensions}, {n}, {load}, {name!r})"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return {"failed": float("nan"), "GiB": float("nan")}
    if done.returncode:  # killed at the limit of memory, for one
        return {"failed": float("nan"), "GiB": float("nan")}
    return json.loads(done.stdout.splitlines()[-1])


def row(first: list[str], found: dict[str, float], rival: float) -> list[str]:
    if "failed" in found:
        return [*first, "failed", "", "", "", "", "", f"{found['GiB']:.2f}"]
    return [
        *first,
        f"{found['first']:.2f}",
        f"{found['forward']:.2f}",
        f"{found['gradient']:.2f}",
        f"{1 + found['gradient'] / found['forward']:.2f}",
        f"{rival / found['forward']:.1f}x" if rival == rival else "",
        f"{found['residual']:.0e}",
        f"{found['GiB']:.2f}",
    ]


HEADER = [
    "states",
    "load",
    "solver",
    "first, s",
    "again, s",
    "gradient, s",
    "/ forward",
    "pyamg / again",
]


def rows(dimensions: int, sizes: Sequence[int]) -> Iterator[list[str]]:
    """Measure every size and load, the rival first."""
    for n in sizes:
        for words, load in LOADS.items():
            rival = measured(dimensions, n, load, RIVAL)
            seconds = rival.get("forward", float("nan"))
            yield row([f"{n:,}", words, RIVAL], rival, seconds)
            for name in SOLVERS:
                if dimensions == 3 and n > _MOST_SOLID and name != "Multigrid":
                    continue
                yield row([f"{n:,}", words, name], measured(dimensions, n, load, name), seconds)


def prism(shape: Sequence[int], arrival: float) -> str:
    """The same lattice in the language of PRISM, for Storm."""
    last = len(shape) - 1
    moves = [f"[] q0 < {shape[0] - 1} -> {arrival} : (q0' = q0 + 1);"]
    moves += [
        f"[] q{k} > 0 & q{k + 1} < {shape[k + 1] - 1} -> 1 : (q{k}' = q{k} - 1) & "
        f"(q{k + 1}' = q{k + 1} + 1);"
        for k in range(last)
    ]
    moves.append(f"[] q{last} > 0 -> 1 : (q{last}' = q{last} - 1);")
    variables = [f"q{k} : [0..{room - 1}] init 0;" for k, room in enumerate(shape)]
    ends = ["endmodule", 'label "empty" = q0 = 0;']
    return "\n".join(["ctmc", "module tandem", *variables, *moves, *ends])


def against_storm(sizes: Sequence[int]) -> Iterator[list[str]]:
    """Seconds of one probability by Storm's default method, and of the whole steady state."""
    import stormpy

    for dimensions in (2, 3):
        for n in (n for n in sizes if n <= _MOST_STORM):
            for words, load in LOADS.items():
                shape = shape_of(n, dimensions)
                with tempfile.NamedTemporaryFile("w", suffix=".sm") as file:
                    file.write(prism(shape, load))
                    file.flush()
                    program = stormpy.parse_prism_program(file.name, prism_compatibility=True)
                chain = stormpy.build_model(program)
                asked = stormpy.parse_property('S=? ["empty"]', program)
                began = time.perf_counter()
                found = stormpy.model_checking(chain, asked).get_value(chain.initial_states[0])
                storm = time.perf_counter() - began
                generator = tandem(shape, load)
                st.steady_state(generator)  # orders and compiles
                began = time.perf_counter()
                pi = st.steady_state(generator).pi
                ours = time.perf_counter() - began
                apart = abs(float(pi.reshape(shape)[0].sum()) - found)
                words_of = [f"{dimensions}-D {n:,}", words, f"{storm:.2f}", f"{ours:.2f}"]
                yield [*words_of, f"{storm / ours:.1f}x", f"{apart:.0e}"]


def main() -> None:
    sizes = [int(float(word)) for word in sys.argv[1:] if word[0].isdigit()] or SIZES
    for dimensions, title in ((2, "Two queues in a row"), (3, "Three queues in a row")):
        table(
            f"{title}: the first solve, one with rates a percent off, a gradient",
            [*HEADER, "residual", "peak GiB"],
            rows(dimensions, sizes),
        )
    header = ["lattice", "load", "Storm, s", "Auto, s", "times faster", "apart"]
    table("Against Storm: one probability", header, against_storm(sizes))


if __name__ == "__main__":
    main()
