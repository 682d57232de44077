r"""Mixtures of Erlang distributions of one rate: what uniformization makes of any chain.

Let a clock tick at rate ``r``, and let ``weights[j]`` be the probability that the time ends at the
j-th tick. With ``p_k(x) = exp(-x) x^k / k!``, the probability of k ticks by ``x = r t``,

    P(T > t) = sum_k p_k(r t) S_k,        S_k = sum_{j > k} weights[j],
    f(t) = r sum_k p_k(r t) weights[k + 1].

All terms are non-negative, so the tail keeps its relative accuracy. Both are sums of Poisson
probabilities, and so are all derivatives: ``dp_k/dx = p_{k-1} - p_k``.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.models._rates import in_rows
from stationary.models.latency import _kernels
from stationary.models.latency._base import Times

_NEGLIGIBLE = 46.0
"""Minus the logarithm of a probability that no sum of others notices: 1e-20."""


@dataclass(frozen=True, eq=False)
class Erlangs(Times):
    """Erlang distributed times with 0, 1, 2, ... stages at one rate.

    Parameters
    ----------
    weights : Tensor [..., N]
        Probability of each number of stages. They add up to 1.
    rate : Tensor [..., 1]
        Of the stages, per unit time.
    """

    weights: Tensor
    rate: Tensor

    def survival(self, t: Tensor) -> Tensor:
        """Not all stages are over by then."""
        return _poisson_sums(self.rate * t, self._more)

    def density(self, t: Tensor) -> Tensor:
        """The last stage ends just then."""
        return self.rate * _poisson_sums(self.rate * t, self.weights[..., 1:])

    def excess(self, t: Tensor) -> Tensor:
        """The stages that are left, at their mean time each."""
        return _poisson_sums(self.rate * t, self._left) / self.rate

    @property
    def mean(self) -> Tensor:
        """Mean time, ``[...]``."""
        return (self.weights * self._stages).sum(-1) / self.rate[..., 0]

    @property
    def variance(self) -> Tensor:
        """Variance of the time, ``[...]``."""
        stages = self._stages
        second = (self.weights * stages * (stages + 1)).sum(-1) / self.rate[..., 0] ** 2
        return second - self.mean**2

    @cached_property
    def _more(self) -> Tensor:
        """Probability of more than 0, 1, 2, ... stages."""
        return self.weights.flip(-1).cumsum(-1).flip(-1)[..., 1:]

    @cached_property
    def _left(self) -> Tensor:
        """Mean number of stages beyond the first 0, 1, 2, ..."""
        return self._more.flip(-1).cumsum(-1).flip(-1)

    def _root(self, share: float) -> Tensor:
        """The same search as for all times, compiled: in ticks, row by row."""
        batch, (more, weights, _) = in_rows(self._more, self.weights[..., 1:], self.rate)
        x = np.zeros(len(more))
        normal = statistics.NormalDist().inv_cdf(share)
        _kernels.poisson_roots(_rows(more), _rows(weights), share, normal, x)
        return torch.from_numpy(x).reshape(*batch, 1) / self.rate

    @property
    def _stages(self) -> Tensor:
        return torch.arange(self.weights.shape[-1], dtype=self.weights.dtype)


def geometric(weights: Tensor, servers: int) -> Tensor:
    """Weights after one more stage that each tick ends with probability ``1 / servers``.

    An exponential service at rate ``mu`` is that at ticks of rate ``servers * mu``.
    """
    if servers == 1:
        return torch.nn.functional.pad(weights, (1, 0))
    # By then the probability that the stage goes on is far below rounding.
    ticks = math.ceil(_NEGLIGIBLE / -math.log1p(-1 / servers))
    return _Geometric.apply(torch.nn.functional.pad(weights, (1, ticks)), 1 / servers)


class _Geometric(torch.autograd.Function):
    """``y_j = p x_j + (1 - p) y_{j-1}`` along the last axis; its adjoint runs the other way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        ctx.p = p
        rows = np.ascontiguousarray(x.detach().numpy().reshape(-1, x.shape[-1]))
        return torch.from_numpy(_kernels.geometric(rows, p).reshape(x.shape))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Geometric.apply(grad.flip(-1), ctx.p).flip(-1), None


def _poisson_sums(x: Tensor, values: Tensor) -> Tensor:
    """Sums ``[..., T]`` of ``values [..., N]`` by the Poisson probabilities of ``x [..., T]``."""
    batch, rows = in_rows(x, values)
    return _Sums.apply(*rows).reshape(*batch, x.shape[-1])


class _Sums(torch.autograd.Function):
    """``sum_k p_k(x) values_k`` for rows of x ``[R, T]`` and of values ``[R, N]``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(x, values)
        out = np.zeros(x.shape)
        _kernels.poisson_sums(_rows(x), _rows(values), out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, values = ctx.saved_tensors
        by_x = grad * _Sums.apply(x, _differences(values)) if ctx.needs_input_grad[0] else None
        wanted = ctx.needs_input_grad[1]
        return by_x, _Adjoint.apply(x, grad, values.shape[1]) if wanted else None


class _Adjoint(torch.autograd.Function):
    """``sum_t p_k(x_t) factors_t`` for rows of x and of factors ``[R, T]``, k below a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factors: Tensor, number: int) -> Tensor:
        ctx.save_for_backward(x, factors)
        out = np.zeros((len(x), number))
        _kernels.poisson_adjoint(_rows(x), _rows(factors), out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, factors = ctx.saved_tensors
        by_x = factors * _Sums.apply(x, _differences(grad)) if ctx.needs_input_grad[0] else None
        return by_x, _Sums.apply(x, grad) if ctx.needs_input_grad[1] else None, None


def _differences(values: Tensor) -> Tensor:
    return torch.nn.functional.pad(values[:, 1:], (0, 1)) - values


def _rows(tensor: Tensor) -> Array:
    return np.ascontiguousarray(tensor.detach().numpy())
