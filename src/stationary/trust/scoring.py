"""What held-out windows say of forecasts: scores, weights, and which chain to take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stationary._support.types import Array
from stationary.data import Misplaced
from stationary.data.windows import Windows
from stationary.terms.trust import Choice, Chosen
from stationary.trust.backtest import WRONG, misplaced

_CLEARLY = 2.0
"""Standard errors of a difference from which one forecast is clearly better than another."""

_NOTHING = 1e-6
"""Nats per count that are no difference: a model and one that holds it as a limit."""

_PRIOR = 0.05
"""What a priori weights count, in held-out windows for each of them."""


@dataclass(frozen=True, eq=False)
class Score:
    """How a forecast did on held-out windows.

    Attributes
    ----------
    per_count : ndarray [W]
        Negative log-likelihood per count of every held-out window, at every cut.
    wrong : Misplaced
        Share in the wrong place, above the cut at which that is worst.
    """

    per_count: Array
    wrong: Misplaced

    @property
    def mean(self) -> float:
        """Mean over the windows."""
        return float(self.per_count.mean())

    def behind(self, other: Score, windows: int) -> tuple[float, float]:
        """How many nats per count behind another forecast, and the standard error of that.

        A window held out at several cuts counts once: ``windows`` says how many there are.
        """
        difference = self.per_count - other.per_count
        return float(difference.mean()), float(difference.std() / np.sqrt(windows))


def score(forecasts: Sequence[Array], held: Sequence[Windows]) -> Score:
    """Score log-terms ``[M, S]`` of the windows above each cut, lightest cut first."""
    each = [
        -(windows.data.numpy() * terms).sum(-1) / windows.size.numpy()
        for terms, windows in zip(forecasts, held, strict=True)
    ]
    found = [misplaced(terms, windows) for terms, windows in zip(forecasts, held, strict=True)]
    wrong = [w for w in found if w is not None] or [Misplaced(0.0, 0.0)]
    return Score(np.concatenate(each), max(wrong, key=lambda w: w.share - 2 * w.error))


def weigh(
    scores: Mapping[str, Score], parameters: Mapping[str, int], held: Sequence[Windows]
) -> dict[str, float]:
    """Weights of some chains in a pooled forecast, by stacking on the held-out windows."""
    if not parameters:
        return {}
    size = np.concatenate([part.size.numpy() for part in held])
    per_count = np.stack([scores[name].per_count for name in parameters], -1)
    best = per_count[:, per_count.mean(0).argmin()]
    each = np.array(list(parameters.values()))
    found = stacking_weights(-per_count * size[:, None] / _worth(best, held), each)
    return dict(zip(parameters, found.tolist(), strict=True))


def _worth(best: Array, held: Sequence[Windows]) -> float:
    """How many counts are worth one.

    Counts inside a window are correlated, and no chain is quite right: this is what the best leaves
    unexplained over what independent counts would leave.
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


def recommend(
    scores: Mapping[str, Score],
    parameters: Mapping[str, int],
    fitting: Collection[str],
    held: Sequence[Windows],
) -> Choice:
    """Return the chain to take, and why; or why none.

    Parameters
    ----------
    scores : mapping
        Of every forecast, those without a chain too.
    parameters : mapping
        Number of parameters of the chains that can be used.
    fitting : collection of str
        Those of them that fit the loads they saw: no other is taken.
    held : sequence of Windows
        The held-out windows at each cut, lightest cut first.
    """
    if not parameters:
        return Choice(Chosen.NONE_USABLE)
    windows = len(held[0])
    loads = float(held[0].loads.min()), float(held[0].loads.max())
    best = min(parameters, key=lambda name: scores[name].mean)
    share = scores[best].wrong.share
    rivals = [name for name in scores if name not in parameters]
    rival = min(rivals, key=lambda name: scores[name].mean, default=None)
    if rival is not None:
        gap, error = scores[rival].behind(scores[best], windows)
        if gap < -max(_CLEARLY * error, _NOTHING):
            return Choice(Chosen.RIVAL, None, best, rival, share, *loads)
    near = []
    for name in parameters:
        gap, error = scores[name].behind(scores[best], windows)
        wrong = scores[name].wrong
        right = name in fitting and wrong.share - 2 * wrong.error <= WRONG
        if right and gap <= max(error, _NOTHING):
            near.append(name)
    if not near:
        why = Chosen.WRONG if best in fitting else Chosen.MISFIT
        return Choice(why, None, best, rival or "", share, *loads)
    chosen = min(near, key=lambda name: (parameters[name], scores[name].mean))
    first = scores[chosen].behind(scores[best], windows)[0] <= _NOTHING
    why = Chosen.BEST if first else Chosen.SIMPLEST
    return Choice(why, chosen, best, rival or "", scores[chosen].wrong.share, *loads)
