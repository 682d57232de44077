"""The observation map: from states to the categories people count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ObservationMap:
    """Which category a visit to each state counts in.

    The 0/1 matrix ``A [C, n]`` of the mathematics. Categories are disjoint, so that one index a
    state holds all of it, whatever the number of categories.

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
        category[torch.as_tensor(states)] = torch.arange(len(states))
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
