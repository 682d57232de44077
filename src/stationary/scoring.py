"""What held-out windows say of forecasts: scores, weights, and which chain to take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stationary.backtest import WRONG, Misplaced, misplaced
from stationary.data.windows import Windows
from stationary.inference import Array
from stationary.pooling import stacking_weights

_CLEARLY = 2.0
"""Standard errors of a difference from which one forecast is clearly better than another."""

_NOTHING = 1e-6
"""Nats a count that are no difference: a model and one that holds it as a limit."""


@dataclass(frozen=True)
class Score:
    """How a forecast did on held-out windows.

    Attributes
    ----------
    a_count : ndarray [W]
        Negative log-likelihood a count of every held-out window, at every cut.
    wrong : Misplaced
        Counts put in the wrong place, above the cut at which that is worst.
    """

    a_count: Array
    wrong: Misplaced

    @property
    def mean(self) -> float:
        """Mean over the windows."""
        return float(self.a_count.mean())

    def behind(self, other: Score, windows: int) -> tuple[float, float]:
        """How many nats a count behind another forecast, and the standard error of that.

        A window held out at several cuts counts once: ``windows`` says how many there are.
        """
        difference = self.a_count - other.a_count
        return float(difference.mean()), float(difference.std() / np.sqrt(windows))


def score(forecasts: Sequence[Array], held: Sequence[Windows]) -> Score:
    """Score forecasts of shares ``[M, C]`` of the windows above each cut, lightest cut first."""
    each = []
    for p, windows in zip(forecasts, held, strict=True):
        counts = windows.counts.numpy()
        each.append(-(counts * np.log(np.maximum(p, 1e-290))).sum(-1) / counts.sum(-1))
    wrong = [misplaced(p, windows) for p, windows in zip(forecasts, held, strict=True)]
    return Score(np.concatenate(each), max(wrong, key=lambda w: w.share - 2 * w.error))


def weigh(
    scores: Mapping[str, Score], parameters: Mapping[str, int], held: Sequence[Windows]
) -> dict[str, float]:
    """Weights of some chains in a pooled forecast, by stacking on the held-out windows."""
    if not parameters:
        return {}
    seen = np.concatenate([part.counts.sum(-1).numpy() for part in held])
    shares = np.concatenate([(part.counts / part.counts.sum(-1, keepdim=True)) for part in held])
    entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(-1)
    a_count = np.stack([scores[name].a_count for name in parameters], -1)
    best = a_count[:, a_count.mean(0).argmin()]
    # Counts hang together, and no chain is quite right: what the best leaves unexplained, over what
    # independent counts would leave, is how many of them are worth one.
    worth = max(float((2 * seen * (best - entropy)).mean() / (shares.shape[1] - 1)), 1.0)
    each = np.array(list(parameters.values()))
    found = stacking_weights(-a_count * seen[:, None] / worth, each)
    return dict(zip(parameters, found.tolist(), strict=True))


def recommend(
    scores: Mapping[str, Score],
    parameters: Mapping[str, int],
    fitting: Collection[str],
    held: Sequence[Windows],
) -> tuple[str | None, str]:
    """Return the chain to take, and why; or None, and why not.

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
        return None, (
            "None is to be trusted: no chain converged with all of its parameters determined."
        )
    windows = len(held[0])
    loads = f"{float(held[0].loads.min()):.4g} to {float(held[0].loads.max()):.4g}"
    best = min(parameters, key=lambda name: scores[name].mean)
    rivals = [name for name in scores if name not in parameters]
    rival = min(rivals, key=lambda name: scores[name].mean, default=None)
    if rival is not None:
        gap, error = scores[rival].behind(scores[best], windows)
        if gap < -max(_CLEARLY * error, _NOTHING):
            return None, (
                f"None is to be trusted: at the held-out loads {loads}, {rival!r} forecasts "
                f"better than the best of them, {best}."
            )
    near = []
    for name in parameters:
        gap, error = scores[name].behind(scores[best], windows)
        wrong = scores[name].wrong
        right = name in fitting and wrong.share - 2 * wrong.error <= WRONG
        if right and gap <= max(error, _NOTHING):
            near.append(name)
    if not near and best not in fitting:
        return None, (
            f"None is to be trusted: the best of them at the held-out loads {loads}, {best}, does "
            f"not fit the loads it saw."
        )
    if not near:
        return None, (
            f"None is to be trusted: the best of them, {best}, puts "
            f"{scores[best].wrong.share:.0%} of the counts at the held-out loads {loads} in the "
            f"wrong place."
        )
    chosen = min(near, key=lambda name: (parameters[name], scores[name].mean))
    why = (
        f"it forecasts the held-out loads {loads} best of all chains"
        if scores[chosen].behind(scores[best], windows)[0] <= _NOTHING
        else f"it is the simplest chain that forecasts the held-out loads {loads} as well as the "
        f"best, {best}, within its noise"
    )
    most = f"at most {scores[chosen].wrong.share:.1%} of the counts"
    return chosen, f"Take {chosen}: {why}, and puts {most} in the wrong place."
