"""Edges: where a chain may move, made once and shared by every generator on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary.errors import InputError

T = TypeVar("T")


@explained
@dataclass(frozen=True, eq=False)
class Edges:
    """The directed edges a chain may move along; made once, shared by every generator on it.

    Parameters
    ----------
    src, dst : Tensor
        Integer state indices, one pair per edge, without self-loops or repeats.
    n : int
        Number of states.
    """

    src: Tensor
    dst: Tensor
    n: int

    def __post_init__(self) -> None:
        if self.n < 1 or self.n != int(self.n):
            raise InputError(f"a chain needs a whole number of states, 1 or more; got n={self.n}")
        if self.src.shape != self.dst.shape or self.src.ndim != 1:
            raise InputError(
                f"edges must be two equally long index vectors; got shapes "
                f"{tuple(self.src.shape)} and {tuple(self.dst.shape)}"
            )
        pairs = self.src * self.n + self.dst
        outside = (
            (self.src < 0) | (self.dst < 0) | (self.src >= self.n) | (self.dst >= self.n)
        ).nonzero()
        if len(outside):
            k = int(outside[0])
            raise InputError(
                f"edge {k} goes from {int(self.src[k])} to {int(self.dst[k])}, but the states are "
                f"0..{self.n - 1}"
            )
        loops = (self.src == self.dst).nonzero()
        if len(loops):
            raise InputError(
                f"edge {int(loops[0])} is a self-loop on state {int(self.src[loops[0]])}; leave it "
                f"out: the diagonal follows from the rows"
            )
        if len(pairs.unique()) != len(pairs):
            raise InputError("an edge is listed twice; add its rates up and list it once")

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[int, int]], n: int) -> Edges:
        """Edges from a list of ``(source, destination)`` pairs."""
        try:
            index = torch.as_tensor(pairs).reshape(len(pairs), 2)
        except (TypeError, ValueError, RuntimeError):
            index = torch.ones(1)
        if len(index) and index.is_floating_point():
            raise InputError(
                f"edges are pairs of states, as in [(0, 1), (1, 0)]; got {pairs!r:.80}"
            )
        index = index.long()
        return cls(index[:, 0].contiguous(), index[:, 1].contiguous(), n)

    @classmethod
    def complete(cls, n: int) -> Edges:
        """Every ordered pair of distinct states, row by row; the same object every time."""
        return _complete(n)

    def __len__(self) -> int:
        return len(self.src)

    def __deepcopy__(self, memo: dict[int, Any]) -> Edges:
        return self  # immutable, and what is remembered of it serves the copy too

    def __reduce__(self) -> tuple[Any, ...]:
        return Edges, (self.src, self.dst, self.n)  # what is remembered is made again

    @cached_property
    def numpy(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Source and destination as NumPy index arrays, for the compiled kernels."""
        return self.src.cpu().numpy(), self.dst.cpu().numpy()

    @cached_property
    def rows(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Edges by source: ``start [n+1]``, destinations ``[E]``, and which edge each is ``[E]``.

        The edges out of state i are ``start[i]:start[i+1]``, by destination: SciPy's CSR form
        without the diagonal, whatever the rates. 32-bit where that is enough, as SciPy has it.
        """
        src, dst = self.numpy
        order = np.lexsort((dst, src))
        start = np.concatenate([[0], np.cumsum(np.bincount(src, minlength=self.n))])
        small = max(self.n, len(src)) < np.iinfo(np.int32).max
        index = np.int32 if small else np.int64
        return start.astype(index), dst[order].astype(index), order

    @cached_property
    def birth_death(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
        """Positions of the edges ``k -> k+1`` and ``k+1 -> k`` in order of k, if these are all."""
        src, dst = self.numpy
        if len(src) != 2 * (self.n - 1) or not (abs(dst - src) == 1).all():
            return None
        up, down = np.flatnonzero(dst > src), np.flatnonzero(dst < src)
        return up[src[up].argsort()], down[dst[down].argsort()]

    @cached_property
    def strongly_connected(self) -> bool:
        """Whether every state reaches every other when all rates are positive."""
        src, dst = self.numpy
        graph = scipy.sparse.coo_array((np.ones(len(self)), (src, dst)), shape=(self.n, self.n))
        count, _ = scipy.sparse.csgraph.connected_components(graph, connection="strong")
        return bool(count == 1)

    def rate_gradient(self, u: Tensor, v: Tensor) -> Tensor:
        """``u_i (v_j - v_i)`` on every edge: how ``u Q v`` changes with each rate."""
        return u[..., self.src] * (v[..., self.dst] - v[..., self.src])

    def balance(self, rates: Tensor, p: Tensor) -> Tensor:
        """``p Q``: what flows into each state less what flows out, ``[..., n]``."""
        flow = p[..., self.src] * rates
        into = torch.zeros_like(p).index_add(-1, self.dst, flow)
        return into.index_add(-1, self.src, -flow)

    def times(self, rates: Tensor, v: Tensor) -> Tensor:
        """``Q v``: what each state gains in ``v`` on its way out, ``[..., n]``."""
        gain = rates * (v[..., self.dst] - v[..., self.src])
        return torch.zeros_like(v).index_add(-1, self.src, gain)

    def to(self, device: torch.device) -> Edges:
        """Return the same edges on another device, the same object every time."""
        return self if self.src.device == device else self.remembered(_moved, device)

    def remembered(self, make: Callable[..., T], *args: Any) -> T:
        """Return ``make(self, *args)``, made once and forgotten with the edges."""
        with _lock:  # threads that solve chains on the same edges wait for one of them
            known: dict[Any, Any] = self.__dict__.setdefault("_known", {})
            if (make, args) not in known:
                known[make, args] = make(self, *args)
            found: T = known[make, args]
        return found


_lock = threading.RLock()


def _moved(edges: Edges, device: torch.device) -> Edges:
    return Edges(edges.src.to(device), edges.dst.to(device), edges.n)


def centred(g: Tensor, pi: Tensor) -> Tensor:
    """``g - (pi . g) 1``, computed relative to the likeliest state.

    Where nearly all probability is on one state, its entry is the small difference of two large
    numbers, unless g is taken relative to it first.
    """
    g = g - g.gather(-1, pi.argmax(-1, keepdim=True))
    return g - (pi * g).sum(-1, keepdim=True)


@lru_cache(maxsize=8)
def _complete(n: int) -> Edges:
    # By NumPy: `torch.func` would wrap what torch makes while one of its transforms is at work.
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    return Edges(torch.from_numpy(src), torch.from_numpy(dst), n)
