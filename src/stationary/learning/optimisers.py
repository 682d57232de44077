"""Step rules of stochastic fits: what torch optimiser to make, and how its step shrinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from stationary._support.arguments import Checked
from stationary.errors import InputError


@dataclass(frozen=True)
class StepRule(Checked, ABC):
    """A recipe for a torch optimiser, with the first learning rate ``lr``."""

    lr: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.lr, int | float) or not 0 < self.lr < float("inf"):
            raise InputError(f"lr must be positive and finite; got {self.lr!r}")

    @abstractmethod
    def make(self, theta: Tensor, heavy_tails: bool) -> Optimizer:
        """Make the optimiser; ``heavy_tails`` says that gradients have no finite variance."""

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        del step
        return self.lr


@dataclass(frozen=True)
class Adam(StepRule):
    """Adam, the paper's choice.

    Parameters
    ----------
    amsgrad : bool, optional
        Never let a quiet spell raise the step again. By default on where the gradients' variance
        is infinite: one huge draw then keeps later steps small instead of being forgotten.
    """

    amsgrad: bool | None = None

    def make(self, theta: Tensor, heavy_tails: bool) -> Optimizer:
        """Make torch's Adam."""
        amsgrad = heavy_tails if self.amsgrad is None else self.amsgrad
        return torch.optim.Adam([theta], lr=self.lr, amsgrad=amsgrad)


@dataclass(frozen=True)
class RobbinsMonro(StepRule):
    """Plain SGD with steps ``lr (1 + step / delay)^-power``, which sum to infinity, squared not.

    Parameters
    ----------
    power : float
        Above 1/2 and at most 1.
    delay : float
        Steps before the rate has clearly begun to fall.
    """

    power: float = 0.75
    delay: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 < self.power <= 1 or not self.delay > 0:
            raise InputError(
                f"power must lie in (0.5, 1] and delay above 0; got {self.power!r}, {self.delay!r}"
            )

    def make(self, theta: Tensor, heavy_tails: bool) -> Optimizer:
        """Make torch's SGD."""
        del heavy_tails
        return torch.optim.SGD([theta], lr=self.lr)

    def rate(self, step: int) -> float:
        """Fall from the first rate on."""
        return self.lr * (1 + step / self.delay) ** -self.power
