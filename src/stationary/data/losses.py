"""Losses of steady states, for fits of one's own: any function of ``pi`` that torch can take.

`conditional_nll` is the paper's, of counts. Shares in place of counts make it the cross entropy, in
nats per sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stationary._support.arguments import explained
from stationary.data._base import TINY
from stationary.errors import InputError


@explained
@dataclass(frozen=True, eq=False)
class ObservationMap:
    """Which category a visit to each state counts in.

    The 0/1 matrix ``A [C, n]`` of the mathematics. Categories are disjoint, so one index per state
    holds all of it, whatever the number of categories.

    Attributes
    ----------
    category : Tensor [n]
        Category of every state, or ``count`` where it is not observed.
    count : int
        Number of categories, C.

    Examples
    --------
    States 1 and 2 are one category, and the last is not observed:

    >>> two = ObservationMap(torch.tensor([0, 1, 1, 2]), 2)
    >>> two.of(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    tensor([0.1000, 0.5000])
    >>> two.dense()
    tensor([[1., 0., 0., 0.],
            [0., 1., 1., 0.]], dtype=torch.float64)
    """

    category: Tensor
    count: int

    @classmethod
    def of_states(cls, states: Sequence[int], n: int) -> ObservationMap:
        """One category for each of some states of a chain of ``n``: the paper's ``S'``."""
        category = torch.full((n,), len(states))
        category[torch.as_tensor(states, dtype=torch.long)] = torch.arange(len(states))
        return cls(category, len(states))

    def of(self, pi: Tensor) -> Tensor:
        """``A pi``: probability of every category, ``[..., C]``."""
        sums = pi.new_zeros((*pi.shape[:-1], self.count + 1))
        return sums.index_add(-1, self.category.to(pi.device), pi)[..., : self.count]

    def to_states(self, values: Tensor) -> Tensor:
        """``A^T values``: the value ``[..., C]`` of its category for every state, or zero."""
        nothing = values.new_zeros((*values.shape[:-1], 1))
        return torch.cat([values, nothing], -1)[..., self.category.to(values.device)]

    @property
    def observed(self) -> Tensor:
        """Whether each state is in a category, ``[n]``."""
        return self.category < self.count

    def dense(self) -> Tensor:
        """Return ``A`` itself, ``[C, n]``."""
        return self.to_states(torch.eye(self.count, dtype=torch.float64))


def conditional_probabilities(pi: Tensor, observation: ObservationMap) -> Tensor:
    """Probability of each category given that one of the observed ones is seen, ``[..., C]``.

    Parameters
    ----------
    pi : Tensor [..., n]
        Steady states, up to a factor.
    observation : ObservationMap
        Which category covers each state.
    """
    p = observation.of(pi).clamp_min(TINY)
    return p / p.sum(-1, keepdim=True)


@explained
def conditional_nll(
    pi: Tensor, counts: Tensor, observation: ObservationMap | Sequence[int]
) -> Tensor:
    """Conditional negative log-likelihood of every window, ``[...]``.

    Parameters
    ----------
    pi : Tensor [..., n]
        Steady states.
    counts : Tensor [..., C]
        Counts of the observed categories. Shares that add up to one make it the cross entropy.
    observation : ObservationMap or sequence of int
        Which category covers each state, or the observed states, one category each.

    Examples
    --------
    >>> import torch
    >>> pi = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    >>> conditional_nll(pi, torch.tensor([[5.0, 3.0]], dtype=torch.float64), [0, 1])
    tensor([5.2925], dtype=torch.float64)
    """
    if not isinstance(observation, ObservationMap):
        observation = ObservationMap.of_states(list(observation), pi.shape[-1])
    if counts.shape[-1:] != (observation.count,):
        raise InputError(
            f"counts must have a column for each of {observation.count} observed categories; got "
            f"shape {tuple(counts.shape)}"
        )
    p = observation.of(pi)
    least = max(TINY, torch.finfo(p.dtype).tiny)  # which float32 holds, too
    floored = p.clamp_min(least)
    total = floored.sum(-1, keepdim=True)
    # Below the floor the value stays, with the slope that it has there: a fit comes back from it.
    below = (p - p.detach()).where(p < least, 0.0)
    logs = floored.log() + below / least - total.log() - below.sum(-1, keepdim=True) / total
    return -(counts * logs).sum(-1)
