r"""The time that one tagged request stays in a chain, by uniformization.

The request is followed through an absorbing chain whose states say where it stands. A clock ticks
at the largest rate out of any of these states, and at each tick the chain moves or stays. The
probability of the end at each tick is made of non-negative terms, and the distribution of the time
is a mixture of Erlang distributions of the clock's rate: `Erlangs`.

The mixture does not depend on which clock was chosen, so no derivative passes through its rate.
First derivatives are one sweep backwards over the ticks. Second ones are the imaginary part of that
sweep at inputs with a tiny imaginary part, which is exact: nothing is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import SolverError
from stationary.models._rates import in_rows
from stationary.models.latency import _kernels
from stationary.models.latency.erlangs import Erlangs

_LEFT = 1e-15
"""Probability of being still in the system at which ticks end."""

_BLOCK = 128
"""Ticks between two states of the chain that are kept for the sweep backwards."""

_WORK, _WORK_EACH = 5e8, 1e7
"""Most moves of all rows together, and of a row in any case, before a chain is given up."""

_MORE, _SLOWEST = 1024, 0.999
"""Ticks beyond the last one that are extrapolated, and the slowest decay of their probability."""

_STEP = 1e-40
"""The imaginary step: so small that its square is lost to rounding."""


@dataclass(frozen=True, eq=False)
class Tagged:
    """The chain of a tagged request, made of parts of the rates of the whole system's chain."""

    system: Array
    """State of the whole system in each state of the tagged request, ``[S]``."""
    moves: Array
    """From and to a state (S if the time ends), on which edge of the whole system, ``[3, T]``."""
    part: Array
    """Which part of the edge's rate, ``[T]``."""
    arriving: Array
    """Edges on which a request arrives, ``[A]``, ..."""
    first: Array
    """... and the states in which it starts (S if its time is zero)."""
    dropping: Array
    """States from which a request is dropped, ``[D]``: times are of those that are served, ..."""
    dropped_on: Array
    """... on which edge, ..."""
    dropped_part: Array
    """... and which part of its rate."""

    def times(
        self,
        rates: Tensor,
        flow: Tensor,
        dropped: Tensor | None = None,
        present: Tensor | None = None,
    ) -> Erlangs:
        """Return the distribution of the time from arrival to the end.

        The chain takes its edges at ``rates [..., E]``, and ``flow [..., E]`` times per unit time.
        In each state of the system a request is ``dropped`` at a rate ``[..., n]``, where the moves
        do not say it. The mean number ``present [...]`` whose time runs tells how many ticks the
        chain will need, by Little's law, so that too many are refused before they are made.
        """
        size = len(self.system)
        entering = flow[..., self.arriving]
        start = entering.new_zeros((*entering.shape[:-1], size + 1))
        start = start.index_add(-1, torch.from_numpy(self.first), entering)
        start = start / start.sum(-1, keepdim=True)
        each = rates[..., self.dropped_on] * torch.from_numpy(self.dropped_part)
        lost = each.new_zeros((*each.shape[:-1], size))
        lost = lost.index_add(-1, torch.from_numpy(self.dropping), each)
        lost = lost if dropped is None else lost + dropped[..., self.system]
        batch, rows = in_rows(start[..., :size], rates, lost)
        # The clock ticks at the largest rate out of any state of the tagged request.
        leaving = scipy.sparse.csr_array(
            (self.part, (self.moves[0], self.moves[2])), (size, rates.shape[-1])
        )
        clock = (leaving @ rows[1].detach().numpy().T).max(0)
        if present is not None:
            ticks = present.detach() * torch.from_numpy(clock).reshape(batch)
            _check_ticks(float((ticks / entering.detach().sum(-1)).max()), len(clock), self)
        ended = _continued(_Ended.apply(*rows, clock, self)).reshape(*batch, -1)
        weights = torch.cat([start[..., size:], ended], -1)
        rate = torch.from_numpy(clock).reshape(*batch, 1)
        return Erlangs(weights / weights.sum(-1, keepdim=True), rate)


class _Ended(torch.autograd.Function):
    """Probability ``[R, N]`` of the end at each tick: of start, rates and dropped, row by row."""

    @staticmethod
    def forward(
        ctx: Any, start: Tensor, rates: Tensor, lost: Tensor, clock: Array, tagged: Tagged
    ) -> Tensor:
        ended, ctx.kept = _run(start.numpy(), rates.numpy(), lost.numpy(), clock, tagged, 0)
        ctx.save_for_backward(start, rates, lost)
        ctx.how = clock, tagged
        return torch.from_numpy(ended)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*_Slopes.apply(*ctx.saved_tensors, grad, ctx.kept, *ctx.how), None, None)


class _Slopes(torch.autograd.Function):
    """The sweep backwards: slopes in start, rates and dropped of a sum with given factors."""

    @staticmethod
    def forward(
        ctx: Any,
        start: Tensor,
        rates: Tensor,
        lost: Tensor,
        factors: Tensor,
        kept: Array,
        clock: Array,
        tagged: Tagged,
    ) -> tuple[Tensor, ...]:
        ctx.save_for_backward(start, rates, lost, factors)
        ctx.how = clock, tagged
        out = _sweep(rates.numpy(), lost.numpy(), factors.numpy(), kept, clock, tagged)
        return tuple(map(torch.from_numpy, out))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, factors = ctx.saved_tensors
        clock, tagged = ctx.how
        pairs = zip(inputs, grads, strict=True)
        start, rates, lost = (part.numpy() + 1j * _STEP * slope.numpy() for part, slope in pairs)
        blocks = factors.shape[1] // _BLOCK
        ended, kept = _run(start, rates, lost, clock, tagged, blocks)
        complex_factors = factors.numpy().astype(complex)
        slopes = _sweep(rates, lost, complex_factors, kept, clock, tagged)
        found = [torch.from_numpy(part.imag / _STEP) for part in (*slopes, ended)]
        return (*found, None, None, None)


def _continued(ended: Tensor) -> Tensor:
    """Continue the last ticks as a geometric series, far below what a sum of them notices.

    The logarithm of how unlikely a very long time is stays finite that way.
    """
    last, before = ended[:, -1:].detach(), ended[:, -2:-1].detach()
    ratio = torch.where(last > 0, last / before, 0.0).clamp_max(_SLOWEST)
    ticks = torch.arange(1, _MORE + 1, dtype=ended.dtype)
    return torch.cat([ended, ended[:, -1:] * ratio**ticks], -1)


def _check_ticks(ticks: float, rows: int, tagged: Tagged) -> None:
    """Raise if so many ticks of a chain, in so many rows, are too much work."""
    most = max(_WORK / rows, _WORK_EACH) / len(tagged.part)
    if ticks > most:
        raise SolverError(
            f"response times cannot be computed: one lasts more than {most:.0f} steps of the "
            f"chain; the system's rates are too far apart, or it is too large"
        )


def _run(
    start: Array, rates: Array, lost: Array, clock: Array, tagged: Tagged, blocks: int
) -> tuple[Array, Array]:
    """Run the chain for a number of blocks of ticks, or until hardly anything is left in it.

    Returns the probability of the end at each tick, and the state before each block.
    """
    state = start.copy()
    ended: list[Array] = []
    kept: list[Array] = []
    rates, lost = np.ascontiguousarray(rates), np.ascontiguousarray(lost)
    while len(ended) < blocks or not (blocks or (ended and state.sum(-1).max() < _LEFT)):
        _check_ticks(len(ended) * _BLOCK, len(state), tagged)
        kept.append(state.copy())
        ended.append(np.zeros((len(state), _BLOCK), dtype=state.dtype))
        _kernels.run(rates, lost, clock, tagged.moves, tagged.part, _LEFT, state, ended[-1])
    return np.concatenate(ended, -1), np.stack(kept)


def _sweep(
    rates: Array, lost: Array, factors: Array, kept: Array, clock: Array, tagged: Tagged
) -> tuple[Array, Array, Array]:
    rates, lost, factors = (np.ascontiguousarray(part) for part in (rates, lost, factors))
    return _kernels.sweep(rates, lost, clock, tagged.moves, tagged.part, _LEFT, factors, kept)
