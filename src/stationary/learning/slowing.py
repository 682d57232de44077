r"""Service that slows down under load: how likely that is, and by how much.

Light load hardly shows it, but it decides what happens in overload, so draws must allow for it.
There are three hypotheses, each with a weight before any data is seen:

- the speed stays as it is (0.70);
- servers get in each other's way: with n requests a service takes ``min(n, m) ** b`` times as long,
  b half-normal with scale 0.15 (0.15, only for m > 1);
- the queue slows service down: ``1 + a (n - 1)`` times as long, a half-normal with scale 0.02
  (0.15).

With gamma distributed times ``y_i``, of squared coefficient of variation ``c2``, and factors
``f_i``, the logarithm of the likelihood with the mean profiled out is

    - N / c2 * ( log( sum(y_i / f_i) / sum(y_i) ) + mean(log f_i) ),

zero for no slowing. Over a grid of a or b, times the prior, it gives the weight of a hypothesis and
the distribution of a or b under it. The probability of no slowing and the spread are both needed:
on simulated contention the limit is covered 87 to 100 % of the time with both and 0 to 63 % without
slowing, and the spread alone covers 76 % of losses. Service never speeds up with the load: letting
it ruined forecasts of servers with deterministic service.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from stationary._support.types import Array
from stationary.data import ServiceTimes
from stationary.data.windows import Windows
from stationary.learning.draws import Part, shuffled_points
from stationary.models import Model
from stationary.models.queues import Service

_NONE = 0.70
_SLABS = {"contention": (0.15, 0.15), "slowing": (0.15, 0.02)}
"""Weight before any data is seen, and scale, of each way to slow down."""

_GRID = 1000
_REACH = 5.0
"""Scales up to which a way to slow down is considered."""

_FEWEST, _MOST = 32, 512
"""Draws of each way to slow down, more where it is more likely: their chains cost more."""

_HOPELESS = 1e-6
"""Weight, as a share of the largest, below which a hypothesis is left out."""

_SEED = 1 << 21
"""Apart from the seeds of other draws."""


def with_slowing(part: Part, windows: Windows, seed: int = 0) -> Iterator[Part]:
    """Yield the draws of a model of service, and of the same with each way to slow down.

    Draws of other models, and of windows without service times, are left as they are.
    """
    model = part.model
    times = service_times(windows, model)
    if times is None or not isinstance(model, Service) or {*_SLABS} & {*model.param_names}:
        yield part
        return
    logs = {}
    for name, (_, scale) in _SLABS.items():
        if name == "slowing" or model.servers > 1:
            grid = np.linspace(0.0, _REACH * scale, _GRID)
            logs[name] = grid, _log_likelihood(model, times, name, grid) - (grid / scale) ** 2 / 2
    # Relative to the likeliest of all: with many requests, likelihoods overflow.
    most = max(0.0, *(log.max() for _, log in logs.values()))
    found = {
        name: (grid, np.exp(log - most) / (_SLABS[name][1] * np.sqrt(np.pi / 2)))
        for name, (grid, log) in logs.items()
    }
    none = _NONE * np.exp(-most)
    weights = {name: _SLABS[name][0] * np.trapezoid(d, g) for name, (g, d) in found.items()}
    best = max(none, *weights.values())
    weights = {name: weight for name, weight in weights.items() if weight > _HOPELESS * best}
    none = none if none > _HOPELESS * best else 0.0
    total = none + sum(weights.values())
    if none:
        yield replace(part, weights=part.weights * none / total)
    for k, name in enumerate(weights):
        grid, density = found[name]
        chance = weights[name] / total
        wanted = 1 << int(np.ceil(np.log2(max(chance * len(part.theta), 1))))
        some = part.first(min(max(wanted, _FEWEST), _MOST))
        uniform = shuffled_points(len(some.theta), 1, _SEED + seed + k).ravel()
        drawn = _quantiles(uniform, grid, density)
        yield _slowed(replace(some, weights=some.weights * chance), times, name, drawn)


def service_times(windows: Windows, model: Model) -> ServiceTimes | None:
    """Return the service times for the servers of a model, if a fit to the windows uses them."""
    for kind in windows.observations:
        if isinstance(kind, ServiceTimes) and kind.explained_by(model):
            return kind.of(int(model.servers))  # type: ignore[arg-type]
    return None


def pure_sums(model: Model, times: ServiceTimes) -> tuple[Array, Array]:
    """Numbers and sums of service times ``[M, C]``, the overhead taken off."""
    number, seconds = (times.sums[..., k].numpy() for k in (0, 1))
    overhead = model.estimates.get("overhead", 0.0)
    return number, np.maximum(seconds - overhead * number * times.idle.numpy(), 0.0)


def _factors(model: Service, times: ServiceTimes, name: str, values: Array) -> Array:
    """How many times as long services of each cell take, ``[B, C]``."""
    slow = model.with_parameter(name, _SLABS[name][1])
    theta = torch.cat([model.theta.detach().expand(len(values), -1), _column(values)], -1)
    factor = slow.slowdown(slow.named(theta), times.levels)
    return np.asarray(1.0 if factor is None else factor)


def _log_likelihood(model: Service, times: ServiceTimes, name: str, values: Array) -> Array:
    number, seconds = (part.sum(0) for part in pure_sums(model, times))
    factor = _factors(model, times, name, values)
    shrunk = np.log((seconds / factor).sum(-1) / seconds.sum())
    mean = (number * np.log(factor)).sum(-1) / number.sum()
    return np.asarray(-number.sum() / model.estimates["variability"] * (shrunk + mean))


def _quantiles(uniform: Array, grid: Array, density: Array) -> Array:
    """Points at which the distribution function of a density on a grid reaches some values."""
    steps = (density[1:] + density[:-1]) / 2
    below = np.concatenate([[0.0], np.cumsum(steps)]) / steps.sum()
    return np.maximum(np.interp(uniform, below, grid), grid[1] / 2)


def _slowed(part: Part, times: ServiceTimes, name: str, drawn: Array) -> Part:
    """Return draws with slowing; their rates are those of a service that nothing slows down."""
    model = part.model
    assert isinstance(model, Service)  # noqa: S101 - checked by the caller
    _, seconds = (each.sum(0) for each in pure_sums(model, times))
    faster = seconds.sum() / (seconds / _factors(model, times, name, drawn)).sum(-1)
    theta = part.theta.clone()
    theta[:, 0] *= torch.from_numpy(faster)
    slow = model.with_parameter(name, float(np.median(drawn)))
    centre = slow.theta.detach().clone()
    centre[0] *= float(np.median(faster))
    slow.set_theta(centre)
    return replace(part, theta=theta).with_parameter(slow, torch.from_numpy(drawn))


def _column(values: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))[:, None]
