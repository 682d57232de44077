"""The scale a fit moves parameters on: logarithms of some, multiples of a unit of the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Scale:
    """An invertible map between parameters ``theta [P]`` and free coordinates ``z [P]``.

    Parameters
    ----------
    log : Tensor [P]
        Which parameters go by their logarithm.
    unit : Tensor [P]
        What one step of ``z`` is worth for the others.

    Examples
    --------
    >>> scale = Scale(torch.tensor([True, False]), torch.tensor([1.0, 10.0]))
    >>> scale.natural(torch.tensor([0.0, 2.0]))
    tensor([ 1., 20.])
    """

    log: Tensor
    unit: Tensor

    def natural(self, z: Tensor) -> Tensor:
        """``theta`` of ``z``."""
        if bool(self.log.all()):
            return z.exp()
        # The inner mask keeps a large linear value from overflowing in the unused branch.
        return torch.where(self.log, z.where(self.log, 0.0).exp(), self.unit * z)

    def free(self, theta: Tensor) -> Tensor:
        """``z`` of ``theta``."""
        return torch.where(self.log, theta.where(self.log, 1.0).log(), theta / self.unit)

    def slope(self, theta: Tensor) -> Tensor:
        """Derivative of ``z`` with respect to ``theta``."""
        return torch.where(self.log, 1 / theta.where(self.log, 1.0), 1 / self.unit)
