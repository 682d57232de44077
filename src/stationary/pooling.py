r"""One forecast from several models: draws from each, as many as its weight says.

A model's draws are its parameters moved by chance, and by more than chance: those of a model that
is not quite right drift as the load grows. What they moved between the fits to the lightest windows
and the fit to all, over the logarithm of the stretch, is how much they may move again on the way to
a load beyond the heaviest. That models differ, the mixture of their draws holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from stationary.forecast import grid, is_open, judged, values_at
from stationary.inference import Array, Link, check_level
from stationary.result import Fit
from stationary.scales import Scale

Part = tuple[Fit, Sequence[Fit], float]
"""A fit to all windows, the fits to the lightest of them, and the weight of the model."""

_DRAWS = 1000
"""Draws from all models together."""

_FAR = 1e12
"""How many times smaller or larger than it is a rate may be drawn: beyond, chains fall apart."""

_CHANCE = 3.0
"""Square of a difference, in variances of it, from which chance does not explain it."""

_PRIOR = 0.05
"""What a priori weights count, in held-out windows for each of them."""


def stacking_weights(log_density: Array, parameters: Array, rounds: int = 2000) -> Array:
    """Weights ``[K]`` that give held-out windows ``[W, K]`` the largest mean log-density.

    By expectation maximisation. Models that do equally well are weighed a priori: each parameter
    costs a nat, as in Akaike's criterion.
    """
    density = np.exp(log_density - log_density.max(-1, keepdims=True))
    prior = np.exp(parameters.min() - parameters.astype(float))
    prior *= _PRIOR * len(density) / prior.sum()
    weights = prior / prior.sum()
    for _ in range(rounds):
        share = weights * density
        weights = (share / share.sum(-1, keepdims=True)).sum(0) + prior
        weights /= weights.sum()
    return weights


def pooled_forecast(
    parts: Sequence[Part], x: Any, level: float, doubt: str = "", seed: int = 0
) -> pd.DataFrame:
    """Every measure that all models have, at every load, as quantiles of the draws.

    Returns
    -------
    DataFrame
        As of `Fit.forecast`; the value is the median.
    """
    check_level(level)
    total = sum(weight for _, _, weight in parts)
    first = max(parts, key=lambda part: part[2])[0]
    names = common_measures(parts)
    inputs = grid(first.model, x)
    random = np.random.default_rng(seed)
    found = [
        _draws(fit, below, inputs, names, max(1, round(_DRAWS * weight / total)), random)
        for fit, below, weight in parts
    ]
    low, middle, high = np.quantile(
        np.concatenate(found), [0.5 - level / 2, 0.5, 0.5 + level / 2], axis=0
    )  # each [G, K]
    frame: dict[str, Any] = {"x": inputs[:, 0].numpy()}
    reasons = [doubt] * len(inputs)
    for k, name in enumerate(names):
        link = Link(first.model.measure(name))
        ends = (middle[:, k], low[:, k], high[:, k])
        frame |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        half = (link.to(link.inside(ends[2])) - link.to(link.inside(ends[1]))) / 2
        for row in np.flatnonzero(is_open(half, *ends)):
            why = f"the models leave {name} open by more than a factor of 10"
            reasons[row] = reasons[row] or why
    return judged(pd.DataFrame(frame), inputs, reasons, first.horizon)


def _draws(
    fit: Fit,
    below: Sequence[Fit],
    inputs: Tensor,
    names: list[str],
    count: int,
    random: np.random.Generator,
) -> Array:
    """Measures ``[count, G, K]`` of a model at drawn parameters."""
    cov, model = fit.covariance, fit.model
    theta = model.theta.detach()
    scale = _common_scale([fit, *below])
    z = scale.free(theta).numpy()
    beyond = _reach(float(fit.windows.loads.max()), inputs[:, 0].numpy())
    chance = random.multivariate_normal(np.zeros(len(z)), cov.on(scale, theta), size=count)
    if cov.df:  # a t distribution: the covariance itself is not known better
        chance *= np.sqrt(cov.df / random.chisquare(cov.df, size=(count, 1)))
    more = random.multivariate_normal(np.zeros(len(z)), drift(fit, below), size=count)
    moved = z + chance[:, None] + more[:, None] * beyond[:, None]  # [count, G, P]
    drawn = scale.natural(torch.from_numpy(moved))
    size = torch.where(scale.log, theta, scale.unit)
    within = drawn.clamp(size / _FAR, size * _FAR)
    drawn = torch.where(model.positive, within, drawn)
    each = inputs.expand(count, -1, -1).reshape(-1, 1, inputs.shape[1])
    values = values_at(model, each, drawn.flatten(0, 1))
    which = [list(model.measures).index(name) for name in names]
    return values[:, 0, which].reshape(count, len(inputs), len(names))


def common_measures(parts: Sequence[Part]) -> list[str]:
    """Measures that all models have, and mean the same by."""
    first, *others = [fit.model.measures for fit, _, _ in parts]
    return [name for name in first if all(name in other for other in others)]


def drift(fit: Fit, below: Sequence[Fit]) -> Array:
    """Covariance ``[P, P]`` of how far the parameters move when the load grows e-fold.

    What they moved between fits, where that is more than chance explains: the variance of the
    difference between a fit to some windows and one to all is the difference of their variances.
    """
    scale = _common_scale([fit, *below])
    whole = fit.model.theta.detach()
    most = float(fit.windows.loads.max())
    total, stretch = np.zeros((len(whole),) * 2), 0.0
    for part in below:
        theta = part.model.theta.detach()
        moved = (scale.free(theta) - scale.free(whole)).numpy()
        chance = part.covariance.on(scale, theta) - fit.covariance.on(scale, whole)
        # Estimated from few windows the difference may come out negative: no less than a tenth of
        # the larger variance is left to chance.
        values, basis = np.linalg.eigh(chance)
        least = 0.1 * np.linalg.eigvalsh(part.covariance.on(scale, theta)).max()
        along = basis.T @ moved
        if (along**2 / np.maximum(values, least)).sum() > _CHANCE * len(moved):
            total += np.outer(moved, moved)
        stretch += float(_reach(float(part.windows.loads.max()), np.array(most))) ** 2
    return total / stretch if stretch else total


def _reach(most: float, loads: Array) -> Array:
    """How far loads lie beyond the heaviest: in e-folds, or in its own size where that is not."""
    if most > 0:
        return np.asarray(np.log(np.maximum(loads / most, 1.0)))
    return np.asarray(np.maximum(loads - most, 0.0) / (abs(most) or 1.0))


def _common_scale(fits: Sequence[Fit]) -> Scale:
    """Logarithms where no fit is at zero, the unit of the first elsewhere."""
    first = fits[0].covariance.scale
    log = torch.stack([fit.covariance.scale.log for fit in fits]).all(0)
    units = torch.stack([fit.covariance.scale.unit for fit in fits])
    return Scale(log, torch.where(first.log, units.amax(0), first.unit))
