r"""What one window of a given length will show, beside what holds in the long run.

Over a window of length w the mean of a function ``f`` of the state scatters about its long-run mean
``pi . f``: states close together in time are alike. With ``v`` the solution of the Poisson equation
``-Q v = f - pi . f``, the variance of the mean falls like ``s / w`` with ``s = 2 sum_n pi_n (f_n -
pi . f) v_n``, once the window is longer than the memory ``m = s / (2 Var f)``. In between it is
that of a function whose correlation decays exponentially,

    Var = s / w * (1 - (1 - exp(-w / m)) m / w).

Each draw of the parameters is given one such deviation; quantiles of the result hold both. The
share of lost requests follows ``f``, the rate at which requests are lost, and its own Poisson
noise: a gamma distribution with that mean and variance, in whole requests, because losses come in
bursts and may be none at all. Mean response times follow the number in the system. A percentile
follows how often the queue is so long that requests take longer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import gammaincinv, ndtri
from torch import Tensor

from stationary._support.threads import one_thread
from stationary._support.types import Array
from stationary.learning.draws import Draws, Part, shuffled_points
from stationary.learning.solvable import UNSOLVABLE
from stationary.models import Model, Point
from stationary.models.latency import percentile_of
from stationary.models.queues import Queue
from stationary.planning.forecast import quantiles, three
from stationary.solvers import Auto, Factor

_COUNT = 256  # draws of each model: the deviations add more than they leave open
_SEED = 1 << 22  # apart from the seeds of other draws


def predictable(model: Model, name: str) -> bool:
    """Whether what a window shows of a measure can be told."""
    timed = name == "response_time" or percentile_of(name) is not None
    return isinstance(model, Queue) and (name == "loss" or timed)


def prediction(
    draws: Draws, x: Tensor, names: Sequence[str], window: float, level: float
) -> tuple[Array, Array]:
    """Return the ends ``[G, K]`` between which a share of ``level`` of the windows will lie.

    Windows are of one length; ends are NaN for measures of which this is not known.
    """
    parts = draws.thinned(_COUNT).parts
    shown = np.concatenate([_shown(part, x, names, window) for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    measures = [draws.first.measure(name) for name in names]
    low, high = (np.array([getattr(m, end) for m in measures]) for end in ("low", "high"))
    low, _, high = quantiles(shown, weights, three(level), low, high)
    known = [all(predictable(part.model, name) for part in parts) for name in names]
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


@one_thread()
@torch.no_grad()
def _shown(part: Part, x: Tensor, names: Sequence[str], window: float) -> Array:
    """What a window shows of each measure ``[B, G, K]`` in each draw."""
    theta = part.theta[:, None].expand(-1, len(x), -1)
    inputs = x.expand(len(theta), -1, -1)
    chance = shuffled_points(len(theta), len(names), _SEED)[:, None]
    out = np.full((*inputs.shape[:2], len(names)), np.nan)
    if not any(predictable(part.model, name) for name in names):
        return out
    try:
        factor = Auto().factor(part.model.generator(inputs, theta))
    except UNSOLVABLE:
        return out
    point = Point(part.model, inputs, theta).with_pi(factor.pi)
    for k, name in enumerate(names):
        if predictable(part.model, name):
            value = part.model.measure(name)(point)
            noise = _deviation(name, point, factor, value, window)
            out[..., k] = _at(name, value.numpy(), noise, chance[..., k], point, window)
    return out


def _deviation(name: str, point: Point, factor: Factor, value: Tensor, window: float) -> Array:
    """Standard deviation ``[B, G]`` of what a window shows: of a share, or of a logarithm."""
    flow = point.model.flows(point)
    offered = point.mean(flow.offered)
    accepted = offered - point.mean(flow.refused)
    if name == "loss":
        lost = _variance(point, factor, (flow.refused + flow.dropped) / offered[..., None], window)
        return (lost + value / (offered * window)).sqrt().numpy()
    share = percentile_of(name)
    times = point.response_times
    if share is None:
        scatter = _variance(point, factor, point.model.levels / accepted[..., None], window)
        own = times.variance / (accepted * window)
        return ((scatter + own).sqrt() / value).numpy()
    tail = _tail(point, 1 - share)
    scatter = _variance(point, factor, tail, window) + share * (1 - share) / (accepted * window)
    density = times.density(value[..., None])[..., 0]
    return (scatter.sqrt() / (density * value)).numpy()


def _variance(point: Point, factor: Factor, f: Tensor, window: float) -> Tensor:
    """Variance ``[B, G]`` of the mean of a function of the state over a window."""
    pi = point.pi
    off = f - (pi * f).sum(-1, keepdim=True)
    spread = (pi * off**2).sum(-1)
    long_run = 2 * (pi * off * factor.solve(off.expand_as(pi))).sum(-1)
    memory = long_run / (2 * spread).clamp_min(1e-300)
    ratio = (memory / window).clamp_min(1e-12)
    return long_run / window * (1 - (1 - (-1 / ratio).exp()) * ratio)


def _tail(point: Point, share: float) -> Tensor:
    """How far each state is in the longest queues that this share of the requests finds."""
    order = point.model.levels.argsort(descending=True)
    pi = point.pi[..., order]
    before = pi.cumsum(-1) - pi
    inside = ((share - before) / pi.clamp_min(1e-300)).clamp(0.0, 1.0)
    return inside[..., order.argsort()]


def _at(name: str, value: Array, sd: Array, chance: Array, point: Point, window: float) -> Array:
    """What a window shows at some probability of its distribution."""
    if name != "loss":
        return np.asarray(value * np.exp(sd * ndtri(chance)))
    offered = point.mean(point.model.flows(point).offered).numpy() * window
    shape = (value / np.maximum(sd, 1e-300)) ** 2
    seen = gammaincinv(shape, chance) * sd**2 / np.maximum(value, 1e-300)
    return np.minimum(np.floor(np.nan_to_num(seen) * offered + chance) / offered, 1.0)
