"""Mixtures of gamma distributions: times of which a few moments are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from stationary.models.latency._base import Times

_NUDGE = 2e-3
"""Relative step of the differences that stand for derivatives in the shape. They are of fourth
order, so that a long step is exact enough and keeps the digits of second derivatives."""

_LEAN = 0.02
"""Least skewness: with less, incomplete gamma functions take many times as long, and say the same.
"""


@dataclass(frozen=True, eq=False)
class Gammas(Times):
    """A mixture of gamma distributions ``[..., n]``, each of a shape and a scale, and shifted."""

    weights: Tensor
    shapes: Tensor
    scales: Tensor
    shifts: Tensor

    @classmethod
    def of_moments(
        cls, weights: Tensor, mean: Tensor, variance: Tensor, third: Tensor, *more: Tensor
    ) -> Gammas:
        """Return the mixture of those with these means, variances and third central moments.

        Sums of gamma distributed times of different scales are close to such shifted gamma
        distributions, and equal to them where all but one are constant.
        """
        scales = third.maximum(_LEAN * variance**1.5) / (2 * variance)
        shapes = variance / scales**2
        return cls(weights, shapes, scales, mean - shapes * scales, *more)

    def _scaled(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the shifts have passed, and the time since then in units of the scale.

        1 for those that have not: a power of zero has no derivatives.
        """
        x = (t[..., None] - self.shifts[..., None, :]) / self.scales[..., None, :]
        return x > 0, torch.where(x > 0, x, 1.0)

    def survival(self, t: Tensor) -> Tensor:
        """One minus the mixture of regularised incomplete gamma functions."""
        late, x = self._scaled(t)
        below = torch.where(late, incomplete_gamma(self.shapes[..., None, :], x), 0.0)
        return 1 - (self.weights[..., None, :] * below).sum(-1)

    def density(self, t: Tensor) -> Tensor:
        """The mixture of their densities."""
        late, x = self._scaled(t)
        each = torch.where(late, _density(self.shapes[..., None, :], x), 0.0)
        return (self.weights[..., None, :] * each / self.scales[..., None, :]).sum(-1)

    def excess(self, t: Tensor) -> Tensor:
        """By the tail; that at a shape larger by one, also asked for, differs by a density."""
        (late, x), shapes = self._scaled(t), self.shapes[..., None, :]
        scales = self.scales[..., None, :]
        beyond = t[..., None] - self.shifts[..., None, :]
        last = torch.where(late, shapes * _density(shapes + 1, x), 0.0)
        above = torch.where(late, 1 - incomplete_gamma(shapes, x), 1.0)
        each = scales * last + (shapes * scales - beyond) * above
        return (self.weights[..., None, :] * each).sum(-1)

    @property
    def _means(self) -> Tensor:
        return self.shifts + self.shapes * self.scales

    @property
    def mean(self) -> Tensor:
        """Mean time, ``[...]``."""
        return (self.weights * self._means).sum(-1)

    @property
    def variance(self) -> Tensor:
        """Variance of the time, ``[...]``."""
        between = (self._means - self.mean[..., None]) ** 2
        return (self.weights * (self.shapes * self.scales**2 + between)).sum(-1)


def incomplete_gamma(shape: Tensor, x: Tensor) -> Tensor:
    """Regularised lower incomplete gamma function, differentiable in its shape, too."""
    # Broadcast outside: what a function saves must be its own inputs to be differentiated again.
    return _Gamma.apply(*torch.broadcast_tensors(shape, x))


def _density(shape: Tensor, x: Tensor) -> Tensor:
    """Density of gamma distributions of scale 1."""
    return (torch.special.xlogy(shape - 1, x) - x - torch.lgamma(shape)).exp()


class _Gamma(torch.autograd.Function):
    """The regularised incomplete gamma function, differentiable in its shape, too."""

    @staticmethod
    def forward(ctx: Any, shape: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(shape, x)
        return torch.special.gammainc(shape, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        shape, x = ctx.saved_tensors
        # The function changes with its shape over distances of about its root.
        step = _NUDGE * torch.minimum(shape, shape.sqrt()).detach()
        near, far = (
            _Gamma.apply(shape + k * step, x) - _Gamma.apply(shape - k * step, x) for k in (1, 2)
        )
        return grad * (8 * near - far) / (12 * step), grad * _density(shape, x)
