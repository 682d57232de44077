"""GTH elimination of many small chains on a CUDA device: a kernel for pi and one for the adjoint.

`small_chains.cu` keeps a chain in registers, `medium_chains.cu` in shared memory. The factor is not
kept: reading the rates again and eliminating once more costs less than storing it would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.generator import Generator
from stationary.solvers._base import Accuracy, Factor
from stationary.solvers._cuda import Kernel, kernels

MOST_STATES = 64
_MOST_IN_REGISTERS = 32
_NUMBERS_A_LANE = 64
"""Entries of a chain that one lane keeps; more would leave too few warps to hide latency."""
_BLOCK = 128
_BLOCKS = 3
"""Blocks that a multiprocessor must be able to hold at once: caps the registers of the adjoint."""


@dataclass(frozen=True, eq=False)
class Pair:
    """The kernels for one set of edges, and what they need to know of it."""

    steady: Kernel
    adjoint: Kernel
    careful: Kernel | None
    """Runs after the adjoint, on those chains in which the differences of v cancel."""
    chains_a_block: int
    tables: tuple[Tensor, ...]

    def grid(self, count: int) -> tuple[int, int]:
        """Blocks for so many chains."""
        return -(-count // self.chains_a_block), 1


class FusedFactor(Factor):
    """Steady states of a batch; the adjoint eliminates again, in one kernel with the rest of it.

    ``keep`` makes a factor that solves, for second derivatives, which are rarer. Where a chain has
    ``failed``, being reducible or of probabilities beyond float64, ``pi`` means nothing.
    """

    accuracy = Accuracy.ENTRYWISE
    by_chain = ("_rates",)

    def __init__(
        self, generator: Generator, pair: Pair, keep: Callable[[Generator], Factor]
    ) -> None:
        self.edges = generator.edges
        self._pair, self._keep = pair, keep
        # Sizes spelt out: -1 is ambiguous for an empty batch.
        shape = (generator.batch_shape.numel(), len(self.edges))
        self._rates = generator.rates.detach().reshape(shape).contiguous()
        pi = self._rates.new_empty(shape[0], self.edges.n)
        failed = torch.zeros(1, dtype=torch.int32, device=pi.device)
        if len(pi):
            pair.steady(pair.grid(len(pi)), _BLOCK, self._rates, *pair.tables, pi, failed, len(pi))
        self.pi = pi.reshape(*generator.batch_shape, self.edges.n)
        self.failed = bool(failed)

    def rate_gradient(self, g: Tensor) -> Tensor:
        """``dL/dq_ij`` on every edge, from the rates again."""
        pair, count = self._pair, len(self._rates)
        out = torch.empty_like(self._rates)
        if count:
            pi, g = self.pi.reshape(count, -1).contiguous(), g.detach().reshape(count, -1)
            args = (self._rates, *pair.tables, pi, g.contiguous(), out)
            again = torch.empty(count, dtype=torch.int32, device=pi.device)
            pair.adjoint(pair.grid(count), _BLOCK, *args, again, count)
            if pair.careful is not None:
                pair.careful(pair.grid(count), _BLOCK, *args, again, count)
        return out.reshape(*self.pi.shape[:-1], len(self.edges))

    def solve(self, h: Tensor) -> Tensor:
        """One solution of ``-Q v = h``, by a factor kept from now on."""
        return self._kept.solve(h)

    def solve_transposed(self, b: Tensor) -> Tensor:
        """One solution of ``-Q^T u = b``, by a factor kept from now on."""
        return self._kept.solve_transposed(b)

    def select(self, chains: Tensor) -> Factor:
        """Return the factor of some of the chains."""
        chosen = super().select(chains)
        chosen.__dict__.pop("_kept", None)
        return chosen

    @cached_property
    def _kept(self) -> Factor:
        shape = (*self.pi.shape[:-1], len(self.edges))
        return self._keep(Generator(self.edges, self._rates.reshape(shape)))


def pair_for(edges: Edges) -> Pair | None:
    """Kernels for chains on these edges; None where there are none, or they do not compile."""
    if edges.src.device.type != "cuda" or not 1 < edges.n <= MOST_STATES or torch.version.hip:
        return None
    return edges.remembered(_pair)


def _pair(edges: Edges) -> Pair | None:
    n, device = edges.n, edges.src.device
    common = {"N": n, "E": len(edges), "BLOCK": _BLOCK}
    if n > _MOST_IN_REGISTERS:
        compiled = kernels("medium_chains.cu", ("steady", "adjoint"), device, **common)
        if compiled is None:
            return None
        return Pair(compiled[0], compiled[1], None, 1, (edges.src.int(), edges.dst.int()))
    lanes = 4
    while -(-n // lanes) * n > _NUMBERS_A_LANE:
        lanes *= 2
    at = edges.src * n + edges.dst
    place = at.new_full((n * n,), -1, dtype=torch.int32)
    place[at] = torch.arange(len(edges), dtype=torch.int32, device=device)
    # As `Edges.complete` lists them: then positions are computed, not looked up.
    dense = len(edges) == n * (n - 1) and bool((at.diff() > 0).all())
    names = ("steady", "adjoint", "careful")
    shape = {"BLOCKS": _BLOCKS, "G": lanes, "DENSE": int(dense)}
    compiled = kernels("small_chains.cu", names, device, **common, **shape)
    if compiled is None:
        return None
    return Pair(compiled[0], compiled[1], compiled[2], _BLOCK // lanes, (place,))
