"""Steady states and adjoints on a CUDA device, against batched LU and against a copy of the memory.

Device events around every call; rivals and the copy are timed in the same run. "Of a copy" is the
bandwidth of the bytes that must move (rates read, read again for the adjoint, gradients written)
over that of a copy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor

import stationary as st
from benchmarks.timing import milliseconds, table
from stationary.solvers.device import Products

DEVICE = torch.device("cuda", 0)


def seconds(function: Callable[[], object], times: int = 15) -> float:
    """Median of device time."""
    for _ in range(3):
        function()
    measured = []
    for _ in range(times):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        function()
        ended.record()
        ended.synchronize()
        measured.append(began.elapsed_time(ended) / 1e3)
    return median(measured)


def copy_bandwidth() -> float:
    """Bytes read and written per second by a large copy."""
    a = torch.rand(2**29, dtype=torch.float64, device=DEVICE)
    b = torch.empty_like(a)
    return 2 * 8 * a.numel() / seconds(lambda: b.copy_(a))


def by_lu(edges: st.Edges, rates: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Steady state and ``dL/drates`` by torch's batched LU, one factorisation for both."""
    n = edges.n
    A = rates.new_zeros(len(rates), n * n)
    A[:, edges.src * n + edges.dst] = -rates
    A = A.unflatten(-1, (n, n))
    A.diagonal(dim1=-2, dim2=-1).copy_(-A.sum(-1))
    A[..., 0] = 1.0
    factor, pivots = torch.linalg.lu_factor(A)
    unit = torch.zeros_like(g)
    unit[:, 0] = 1.0
    pi = torch.linalg.lu_solve(factor, pivots, unit[..., None], adjoint=True)[..., 0]
    h = g - (pi * g).sum(-1, keepdim=True)
    v = torch.linalg.lu_solve(factor, pivots, h[..., None])[..., 0]
    v[:, 0] = 0.0
    return pi, edges.rate_gradient(pi, v)


def small(n: int, count: int, bandwidth: float) -> list[str]:
    """A row: forward, adjoint and both, the rival, and the share of a copy's bandwidth."""
    edges = st.Edges.complete(n).to(DEVICE)
    random = torch.Generator(DEVICE).manual_seed(n)
    rates = 0.1 + torch.rand(
        count, len(edges), generator=random, dtype=torch.float64, device=DEVICE
    )
    g = torch.randn(count, n, generator=random, dtype=torch.float64, device=DEVICE)
    generator = st.Generator(edges, rates)
    solver = st.solvers.GTH()
    factor = solver.factor(generator)
    some = slice(0, 1000)
    expected = by_lu(edges, rates[some], g[some])
    torch.testing.assert_close(factor.pi[some], expected[0], rtol=1e-9, atol=0)
    torch.testing.assert_close(factor.rate_gradient(g)[some], expected[1], rtol=1e-6, atol=1e-10)
    forward = seconds(lambda: solver.factor(generator))
    adjoint = seconds(lambda: factor.rate_gradient(g))
    both = seconds(lambda: solver.factor(generator).rate_gradient(g))
    rival = seconds(lambda: by_lu(edges, rates, g), 5)
    moved = 8 * (3 * rates.numel() + 3 * g.numel())
    return [
        f"{n}",
        f"{count:,}",
        milliseconds(forward),
        milliseconds(adjoint),
        milliseconds(both),
        f"{milliseconds(rival)} ({rival / both:.1f}x)",
        f"{moved / both / bandwidth:.0%}",
    ]


def lattice(side: int) -> st.Generator:
    """Two queues in a row, each with room for side - 1."""
    state = torch.arange(side * side, device=DEVICE)
    a, b = state // side, state % side
    moves = [  # by destination, so that the edges of a state are listed in order
        (state[b > 0], -1, 1.3),
        (state[(a > 0) & (b < side - 1)], 1 - side, 1.1),
        (state[a < side - 1], side, 1.0),
    ]
    src = torch.cat([source for source, _, _ in moves])
    dst = torch.cat([source + step for source, step, _ in moves])
    rates = torch.cat(
        [torch.full_like(source, rate, dtype=torch.float64) for source, _, rate in moves]
    )
    order = (src * side * side + dst).argsort()
    edges = st.Edges(src[order], dst[order], side * side)
    return st.Generator(edges, rates[order])


def large(side: int, bandwidth: float) -> list[str]:
    """A row: products with Q from either side, their share of a copy's bandwidth, and torch's."""
    generator = lattice(side)
    n, edges = generator.n, len(generator.edges)
    random = torch.Generator(DEVICE).manual_seed(0)
    x = torch.rand(n, generator=random, dtype=torch.float64, device=DEVICE)
    products = Products(generator)
    Qx = products.times(x)
    start = torch.searchsorted(generator.edges.src, torch.arange(n + 1, device=DEVICE)).int()
    # Without the diagonal, which costs torch less than it would need for the same product.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that sparse tensors are in beta
        Q = torch.sparse_csr_tensor(start, generator.edges.dst.int(), generator.rates, (n, n))
    torch.testing.assert_close(Qx, Q @ x - generator.exit_rates() * x, rtol=0, atol=1e-12)
    moved = 8 * edges + 4 * edges + 4 * n + 8 * n + 8 * n
    cells = [f"{n:,}", f"{edges:,}"]
    for function in (lambda: products.times(x), lambda: products.inflow(x), lambda: Q @ x):
        taken = seconds(function)
        cells.append(f"{milliseconds(taken)} ({moved / taken / bandwidth:.0%})")
    return cells


def main() -> None:
    if not torch.cuda.is_available():
        print("\nNo CUDA device here.")
        return
    bandwidth = copy_bandwidth()
    print(f"\n{torch.cuda.get_device_name()}: a copy moves {bandwidth / 1e12:.2f} TB/s.")
    header = ["states", "chains", "forward", "adjoint", "both", "LU, both", "of a copy"]
    sizes = [(5, 4_000_000), (10, 2_000_000), (21, 1_000_000), (32, 400_000), (64, 100_000)]
    table(
        "Dense chains, pi and dL/drates, ms (times faster)",
        header,
        [small(n, count, bandwidth) for n, count in sizes],
    )
    table(
        "Tandem lattices, ms (share of a copy's bandwidth)",
        ["states", "edges", "Q v", "p Q, inflow", "torch CSR"],
        [large(side, bandwidth) for side in (1_000, 10_000)],
    )


if __name__ == "__main__":
    main()
