"""The optimiser of stochastic fits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from stationary._support.arguments import Checked
from stationary.errors import InputError


@dataclass(frozen=True)
class Adam(Checked):
    """Adam, the paper's choice.

    Parameters
    ----------
    lr : float
        Learning rate.
    amsgrad : bool, optional
        Never let a quiet spell raise the step again. By default on where the gradients' variance
        is infinite: one huge draw then keeps later steps small instead of being forgotten.
    """

    lr: float = 0.1
    amsgrad: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.lr, int | float) or not 0 < self.lr < float("inf"):
            raise InputError(f"lr must be positive and finite; got {self.lr!r}")

    def make(self, theta: Tensor, heavy_tails: bool) -> Optimizer:
        """Make torch's Adam; ``heavy_tails`` says that gradients have no finite variance."""
        amsgrad = heavy_tails if self.amsgrad is None else self.amsgrad
        return torch.optim.Adam([theta], lr=self.lr, amsgrad=amsgrad)
