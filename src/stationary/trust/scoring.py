"""Which model to take, and how much weight each has in a pool, by scores on held-out windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.terms.trust import Choice, Chosen
from stationary.trust.backtest import Score

_CLEARLY = 2.0
"""Standard errors of a difference from which one forecast is clearly better than another."""

_NOTHING = 1e-6
"""Nats per count that are no difference: between a model and one that has it as a limit."""

_PRIOR = 0.05  # weight of the prior of the stacking weights, as a share of the held-out windows


def weigh(
    scores: Mapping[str, Score], parameters: Mapping[str, int], held: Sequence[Windows]
) -> dict[str, float]:
    """Weights of some models in a pooled forecast, by stacking on the held-out windows."""
    if not parameters:
        return {}
    size = np.concatenate([part.size.numpy() for part in held])
    per_count = np.stack([scores[name].per_count for name in parameters], -1)
    best = per_count[:, per_count.mean(0).argmin()]
    each = np.array(list(parameters.values()))
    found = stacking_weights(-per_count * size[:, None] / _overdispersion(best, held), each)
    return dict(zip(parameters, found.tolist(), strict=True))


def _overdispersion(best: Array, held: Sequence[Windows]) -> float:
    """How many counts tell as much as one independent count.

    Counts inside a window are correlated, and no model is quite right. The deviance that the best
    model leaves, over its degrees of freedom, would be 1 for independent counts of a right model.
    """
    left, free = 0.0, 0.0
    place = 0
    for part in held:
        scores = best[place : place + len(part)]
        place += len(part)
        kinds = [(kind.saturated(), kind.data.shape[1] - 1) for kind in part.observations]
        if any(most is None for most, _ in kinds):
            return 1.0
        most = sum(m.numpy() for m, _ in kinds if m is not None)
        left += float((2 * (scores * part.size.numpy() + most)).sum())
        free += len(part) * sum(df for _, df in kinds)
    return max(left / max(free, 1.0), 1.0)


def stacking_weights(log_density: Array, parameters: Array, rounds: int = 2000) -> Array:
    """Weights ``[K]`` that give held-out windows ``[W, K]`` the largest mean log-density.

    By expectation maximisation, which keeps them positive with a sum of 1. A prior decides between
    models that do equally well: each parameter costs one nat, as in Akaike's criterion.
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


def recommend(
    scores: Mapping[str, Score],
    parameters: Mapping[str, int],
    fitting: Collection[str],
    held: Sequence[Windows],
    general: Mapping[str, float] = MappingProxyType({}),
) -> Choice:
    """Return the model to take, and why; or why none.

    It is a general one if that fits, for scores at light load say little about overload; otherwise
    the simplest within one standard error of the best. None is taken where a forecast that needs no
    model does clearly better: then the models miss something that the data show.

    Scores are of every forecast, also of those without a model; ``parameters`` are how many each
    usable model has. Only those that are ``fitting`` the loads they saw are taken. Held-out windows
    are those above each cut, lightest first. Models that have others as special cases are
    ``general``, with how likely each of them is.
    """
    if not parameters:
        return Choice(Chosen.NONE_USABLE)
    windows, loads = len(held[0]), held[0].loads
    best = min(parameters, key=lambda name: scores[name].mean)
    rivals = [name for name in scores if name not in parameters]
    rival = min(rivals, key=lambda name: scores[name].mean, default="")

    def ended(why: Chosen, model: str | None = None, equal: Sequence[str] = ()) -> Choice:
        share = scores[model or best].misplaced
        low, high = float(loads.min()), float(loads.max())
        return Choice(why, model, best, rival, share, low, high, tuple(equal))

    if rival:
        gap, error = scores[rival].behind(scores[best], windows)
        if gap < -max(_CLEARLY * error, _NOTHING):
            return ended(Chosen.RIVAL)
    near = []
    for name in parameters:
        gap, error = scores[name].behind(scores[best], windows)
        as_good = name in general or gap <= max(error, _NOTHING)
        if as_good and name in fitting and not scores[name].is_wrong:
            near.append(name)
    if not near:
        return ended(Chosen.WRONG if best in fitting else Chosen.MISFIT)
    # Candidates may read different service times off the same requests: scores compare only those
    # of other models.
    model = min(near, key=lambda n: (-general.get(n, 0.0), parameters[n], scores[n].mean))
    if model in general:
        return ended(Chosen.GENERAL, model, near)
    is_best = scores[model].behind(scores[best], windows)[0] <= _NOTHING
    return ended(Chosen.BEST if is_best else Chosen.SIMPLEST, model, near)
