r"""Percentiles of the response time of accepted requests, first come, first served.

A request that finds n others stays ``T = W + S``: its own service S after a wait W for what was
left of a service and for the full services before its turn. Given n, T is taken as gamma
distributed with the mean and variance of that sum; where service is exponential and there is one
server that is exact. Over all n, T is a mixture with the probabilities of what an accepted request
finds.

A percentile is the root t of ``F(t) = q``. Its derivatives follow from the implicit function
theorem, ``dt = -dF / f(t)``, so that no step of the root search is differentiated.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from stationary.models._point import Point
from stationary.models.measures import Measure

_NAME = re.compile(r"p(\d{1,2}(?:\.\d+)?|\d{3,})")
_STEPS = 100
_TOLERANCE = 1e-10
_NUDGE = 1e-5
"""Relative step of the differences that stand for derivatives in shape and scale."""


def percentile_of(name: str) -> float | None:
    """Return the share that ``p99``, ``p97.5`` or ``p999`` (99.9 %) names; None for other names."""
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        return None
    digits = found[1]
    percent = float(digits if len(digits) < 3 or "." in digits else f"{digits[:2]}.{digits[2:]}")
    return percent / 100 if 0 < percent < 100 else None


def percentile(share: float) -> Measure:
    """Return a percentile as a measure of a model that has ``sojourn(point)``."""
    about = f"{100 * share:g} % of accepted requests take no longer"

    def value(point: Point) -> Tensor:
        weights, mean, variance = point.model.sojourn(point)
        return _Quantile.apply(weights, mean, variance, share)

    return Measure(value, 0.0, math.inf, about, time=True)


def first_come_first_served(
    point: Point, service_rate: Tensor, variability: Tensor | float
) -> tuple[Tensor, Tensor, Tensor]:
    """What accepted requests find, and mean and variance of their response times ``[..., K]``.

    A request that finds all servers busy waits for what is left of one service, and then for one
    full service after the other, at the speed of all servers.
    """
    model = point.model
    found, accepted = model.levels[:-1], point.pi[..., :-1]
    own, turn = 1 / service_rate, 1 / (service_rate * model.servers)
    left = turn * (1 + variability) / 2
    spread = turn**2 * ((1 + variability) * (1 + 2 * variability) / 3 - (1 + variability) ** 2 / 4)
    waits, before = found >= model.servers, (found - model.servers).clamp_min(0.0)
    mean = own + waits * (left + before * turn)
    variance = variability * own**2 + waits * (spread + before * variability * turn**2)
    return accepted / accepted.sum(-1, keepdim=True), mean, variance


class _Quantile(torch.autograd.Function):
    """Quantile ``[...]`` of a mixture ``[..., n]`` of gamma distributions."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, mean: Tensor, variance: Tensor, share: float) -> Tensor:
        weights, mean, variance = torch.broadcast_tensors(weights, mean, variance)
        t = _root(weights, mean, variance, share)
        ctx.save_for_backward(weights, mean, variance, t)
        return t

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, mean, variance, t = ctx.saved_tensors
        at = t[..., None]
        density = (weights * _pdf(at, mean, variance)).sum(-1)
        per_mean = _difference(lambda m: _cdf(at, m, variance), mean)
        per_variance = _difference(lambda v: _cdf(at, mean, v), variance)
        scale = (-grad / density)[..., None]
        return (
            scale * _cdf(at, mean, variance),
            scale * weights * per_mean,
            scale * weights * per_variance,
            None,
        )


def _cdf(t: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Distribution function of gamma distributions."""
    return torch.special.gammainc(mean**2 / variance, t * mean / variance)


def _pdf(t: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    shape, per_time = mean**2 / variance, mean / variance
    log = (shape - 1) * (t * per_time).log() - t * per_time - torch.lgamma(shape)
    return per_time * log.exp()


def _difference(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    step = _NUDGE * at
    return (function(at + step) - function(at - step)) / (2 * step)


def _root(weights: Tensor, mean: Tensor, variance: Tensor, share: float) -> Tensor:
    """Solve ``F(t) = share`` by Newton steps inside a bracket, for all rows that are not done."""
    batch = weights.shape[:-1]
    weights, mean, variance = (
        part.reshape(-1, part.shape[-1]) for part in (weights, mean, variance)
    )
    first = (weights * mean).sum(-1)
    spread = (weights * (variance + (mean - first[:, None]) ** 2)).sum(-1).sqrt()
    found = (first + spread * statistics.NormalDist().inv_cdf(share)).maximum(first * share)
    rows = torch.arange(len(found))
    t, low, high = found.clone(), torch.zeros_like(found), torch.full_like(found, torch.inf)
    for _ in range(_STEPS):
        at = t[:, None]
        excess = (weights * _cdf(at, mean, variance)).sum(-1) - share
        low, high = torch.where(excess < 0, t, low), torch.where(excess < 0, high, t)
        step = t - excess / (weights * _pdf(at, mean, variance)).sum(-1)
        # A step out of the bracket halves it, or doubles t where there is no upper end yet.
        halved = torch.where(high.isinf(), 2 * t, (low + high) / 2)
        new = torch.where((step > low) & (step < high), step, halved)
        found[rows] = new
        left = (new - t).abs() > _TOLERANCE * t
        if not bool(left.any()):
            break
        weights, mean, variance = weights[left], mean[left], variance[left]
        rows, t, low, high = rows[left], new[left], low[left], high[left]
    return found.reshape(batch)
