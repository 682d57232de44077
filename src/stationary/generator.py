"""Generators: batches of continuous-time Markov chains on one set of edges.

A generator ``Q`` has off-diagonal rates ``q_ij >= 0`` and rows that sum to zero.
It is kept as edges ``(i, j)`` and their rates; the diagonal is never stored, so a
row sum is exactly zero by construction. A batch shares the edges: one window, one
row of rates.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary._support.functions import is_transforming
from stationary.edges import Edges
from stationary.errors import InputError, RateError, ReducibleError

# Uniformization needs gamma strictly above the largest exit rate (Definition 1); "just above" keeps
# P's diagonal positive, hence P aperiodic, and leaves the spectral gap at its largest.
JUST_ABOVE = 1.0 + 1e-9


@explained
class Generator:
    """A batch of generators on one set of edges.

    Parameters
    ----------
    edges : Edges or Tensor [2, E]
        Where the chain may move.
    rates : Tensor [..., E]
        Rate of each edge, float64, finite and not negative; leading dimensions are the batch.
    n : int, optional
        Number of states, needed when ``edges`` is a tensor.
    index : Tensor, optional
        For each chain of the batch, its number in a larger set, for strategies that remember
        chains from step to step.

    Examples
    --------
    >>> import torch
    >>> gen = Generator.from_dense(torch.tensor([[0.0, 1.0], [3.0, 0.0]], dtype=torch.float64))
    >>> gen.dense()
    tensor([[-1.,  1.],
            [ 3., -3.]], dtype=torch.float64)
    """

    def __init__(
        self,
        edges: Edges | Tensor,
        rates: Tensor,
        n: int | None = None,
        index: Tensor | None = None,
    ) -> None:
        if isinstance(edges, Tensor):
            if edges.ndim != 2 or edges.shape[0] != 2 or n is None:
                raise InputError(
                    f"edges as a tensor must have shape [2, E] and come with n=; got shape "
                    f"{tuple(edges.shape)} and n={n}"
                )
            edges = Edges(edges[0].long(), edges[1].long(), n)
        if rates.dtype != torch.float64:
            raise InputError(
                f"rates must be float64 (rare states need the digits); got {rates.dtype}: call "
                f".double() on them"
            )
        if rates.ndim == 0 or rates.shape[-1] != len(edges):
            raise InputError(
                f"rates must end in one entry per edge ({len(edges)}); got shape "
                f"{tuple(rates.shape)}"
            )
        self.edges = edges.to(rates.device)
        self.rates = rates
        self.index = index
        # Under `torch.func` the values are looked at where they are plain memory, in the solve.
        if rates.numel() and not is_transforming():
            low, high = (end.item() for end in torch.aminmax(rates.detach()))
            # `not (a and b)` so that a NaN, which compares false, is caught as well.
            if not (low >= 0 and high < math.inf):
                self._raise_bad_rate()

    @classmethod
    def from_dense(cls, Q: Tensor) -> Generator:
        """Build from matrices ``[..., n, n]`` of off-diagonal rates; the diagonal is ignored.

        Every off-diagonal pair becomes an edge, also where the rate is zero, so that the gradient
        with respect to a zero rate is right too.
        """
        if not isinstance(Q, Tensor):
            raise InputError(f"Q must be a tensor of rates [..., n, n]; got {type(Q).__name__}")
        if Q.ndim < 2 or Q.shape[-1] != Q.shape[-2]:
            raise InputError(f"Q must have shape [..., n, n]; got {tuple(Q.shape)}")
        n = Q.shape[-1]
        # Without its first entry, a flattened matrix is rows of n + 1 that end on the diagonal:
        # looking the entries up would scatter their gradients one by one.
        rows = Q.flatten(-2)[..., 1:].reshape(*Q.shape[:-2], max(n - 1, 0), n + 1)
        return cls(Edges.complete(n).to(Q.device), rows[..., :n].flatten(-2))

    @property
    def n(self) -> int:
        """Number of states."""
        return self.edges.n

    @property
    def batch_shape(self) -> torch.Size:
        """Leading dimensions of the rates."""
        return self.rates.shape[:-1]

    def __repr__(self) -> str:
        return f"Generator(n={self.n}, edges={len(self.edges)}, batch={tuple(self.batch_shape)})"

    def windows(self) -> list[int]:
        """Identity of every chain of the flattened batch: the given index, or its position."""
        count = math.prod(self.batch_shape)
        return list(range(count)) if self.index is None else self.index.reshape(-1).tolist()

    def exit_rates(self) -> Tensor:
        """Total rate out of each state, ``[..., n]``."""
        zero = self.rates.new_zeros((*self.batch_shape, self.n))
        return zero.index_add(-1, self.edges.src, self.rates)

    def dense(self) -> Tensor:
        """Return ``Q`` as matrices ``[..., n, n]``, diagonal included."""
        flat = self.rates.new_zeros((*self.batch_shape, self.n * self.n))
        flat = flat.index_add(-1, self.edges.src * self.n + self.edges.dst, self.rates)
        Q = flat.unflatten(-1, (self.n, self.n))
        return Q - torch.diag_embed(Q.sum(-1))

    def sparse(self, index: int | tuple[int, ...] = ()) -> scipy.sparse.csr_array:
        """One chain of the batch as a SciPy CSR matrix, diagonal included."""
        rates = self.rates[index].detach().cpu().numpy()
        if rates.ndim != 1:
            raise InputError(
                f"sparse() views one chain; pass its index in the batch {tuple(self.batch_shape)}"
            )
        start, dst, order = self.edges.rows
        off = scipy.sparse.csr_array((rates[order], dst, start), shape=(self.n, self.n))
        return (off - scipy.sparse.diags_array(off.sum(axis=1))).tocsr()

    def balance(self, p: Tensor) -> Tensor:
        """``p Q``: what flows into each state less what flows out, ``[..., n]``."""
        return self.edges.balance(self.rates, p)

    def uniformize(self, gamma: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
        """Uniformized chain ``P = I + Q / gamma`` (Definition 1) and its ``gamma [...]``.

        Parameters
        ----------
        gamma : Tensor or float, optional
            Event rate, above every exit rate of its chain; by default just above the largest.
        """
        gamma = self.event_rate(gamma)
        eye = torch.eye(self.n, dtype=self.rates.dtype, device=self.rates.device)
        return eye + self.dense() / gamma[..., None, None], gamma

    def event_rate(self, gamma: Tensor | float | None = None) -> Tensor:
        """Return a valid uniformization rate ``[...]``: the given one checked, or the default."""
        largest = self.exit_rates().amax(-1)
        if gamma is None:
            # A chain of one state never moves; any event rate does.
            return (largest * JUST_ABOVE).where(largest > 0, 1.0)
        gamma = torch.as_tensor(gamma, dtype=self.rates.dtype, device=self.rates.device)
        if gamma.ndim and gamma.shape != self.batch_shape:
            raise InputError(
                f"gamma must be one number or one for each chain {tuple(self.batch_shape)}; got "
                f"shape {tuple(gamma.shape)}"
            )
        gamma = gamma.expand(self.batch_shape)
        good = (gamma > largest) & gamma.isfinite()
        if not is_transforming() and not bool(good.all()):
            index = tuple((~good).nonzero()[0].tolist())
            which = f" of chain {index}" if index else ""
            raise InputError(
                f"gamma must be finite and above the largest exit rate{which}, "
                f"{largest[index].item():.6g}; got {gamma[index].item():.6g}"
            )
        return gamma

    def recurrent(self) -> Tensor | None:
        """Which states are in the closed class of each chain, ``[..., n]``; None where all are.

        The others are transient: their probability is zero. A chain with several closed classes
        raises `ReducibleError`, which names them.
        """
        flat = self.rates.detach().reshape(self.batch_shape.numel(), len(self.edges))
        positive = (flat > 0).cpu().numpy()
        if self.edges.strongly_connected and positive.all():
            return None
        _, where, which = np.unique(positive, axis=0, return_index=True, return_inverse=True)
        inside = np.zeros((len(where), self.n), dtype=bool)
        for k in where.argsort().tolist():  # so that the first chain of the batch is named
            inside[k, self.closed_class(self.unravel(where[k]))] = True
        if inside.all():
            return None
        found = torch.from_numpy(inside[which.reshape(-1)]).to(self.rates.device)
        return found.reshape(*self.batch_shape, self.n)

    def check_irreducible(self) -> None:
        """Raise `ReducibleError` if a chain has transient states or several closed classes."""
        recurrent = self.recurrent()
        if recurrent is None:
            return
        flat = recurrent.reshape(-1, self.n)
        index = self.unravel(int((~flat.all(-1)).int().argmax()))
        transient = (~recurrent[index]).nonzero()[:, 0].tolist()
        closed = self.closed_class(index)
        raise ReducibleError(
            f"{self._named(index)} is reducible: it ends in the closed class {_braces(closed)} and "
            f"never returns to {_braces(transient)}; leave those states out or give a rate back to "
            f"them",
            [closed],
            transient,
        )

    def unravel(self, flat: int) -> tuple[int, ...]:
        """Index in the batch of the chain at position ``flat`` of the flattened batch."""
        if not self.batch_shape:
            return ()
        return tuple(int(i) for i in np.unravel_index(flat, self.batch_shape))

    def closed_class(self, index: tuple[int, ...] = ()) -> list[int]:
        """Return the closed class of one chain of the batch; `ReducibleError` if it has several."""
        Q = self.sparse(index)
        Q.setdiag(0)
        Q.eliminate_zeros()
        count, label = scipy.sparse.csgraph.connected_components(Q, connection="strong")
        source, target = (label[ends] for ends in Q.nonzero())
        left = np.zeros(count, dtype=bool)
        left[source[source != target]] = True
        closed: dict[int, list[int]] = {}
        for state in np.flatnonzero(~left[label]).tolist():
            closed.setdefault(int(label[state]), []).append(state)
        if len(closed) == 1:
            return next(iter(closed.values()))
        raise ReducibleError(
            f"{self._named(index)} is reducible: its closed classes are "
            f"{', '.join(map(_braces, closed.values()))}, so its steady state depends on where it "
            f"starts; add a rate between them or solve each on its own",
            [*closed.values()],
            np.flatnonzero(left[label]).tolist(),
        )

    def _named(self, index: tuple[int, ...]) -> str:
        return f"chain {index} of the batch" if index else "the chain"

    def _raise_bad_rate(self) -> None:
        rates = self.rates.detach()
        bad = (~(rates.isfinite() & (rates >= 0))).nonzero()[0].tolist()
        value = float(rates[tuple(bad)])
        edge = bad[-1]
        where = f" in chain {tuple(bad[:-1])} of the batch" if len(bad) > 1 else ""
        raise RateError(
            f"the rate from state {int(self.edges.src[edge])} to state "
            f"{int(self.edges.dst[edge])} is {value:g}{where}; rates must be finite and not "
            f"negative"
        )


def as_generator(value: Generator | Tensor) -> Generator:
    """Return chains as a generator, from matrices ``[..., n, n]`` too."""
    if isinstance(value, Generator):
        return value
    if isinstance(value, Tensor):
        return Generator.from_dense(value)
    raise InputError(
        f"chains are a Generator, or a tensor of rates [..., n, n]; got {type(value).__name__}"
    )


def _braces(states: list[int], most: int = 12) -> str:
    shown = ", ".join(map(str, states[:most]))
    return "{" + shown + (f", ... {len(states)} states" if len(states) > most else "") + "}"
