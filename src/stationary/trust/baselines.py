"""Baselines: forecasts of the counts at heavier loads that need no model of the servers.

A model that cannot beat them adds nothing to what the counts themselves say.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from stationary._support.types import Array
from stationary.data import TINY, Counts
from stationary.data.windows import Windows
from stationary.errors import InputError, StationaryError
from stationary.learning.fitting import estimate
from stationary.learning.likelihood import log_terms
from stationary.learning.newton import Newton
from stationary.models.queues.usl import UniversalScalability
from stationary.terms.categories import members

_HALF = 0.5  # count added to every category: what was never observed is rare, not impossible
_LAST = 1 / 3  # part of the windows, by load, that counts as the heaviest


def mean_shares(counts: Array, seen: Array, ahead: Array) -> Array:
    """The mean shares."""
    del seen
    return _shares(counts, ahead)


def last_shares(counts: Array, seen: Array, ahead: Array) -> Array:
    """The shares under the heaviest loads seen."""
    return _shares(counts[seen >= np.quantile(seen, 1 - _LAST)], ahead)


def trend(counts: Array, seen: Array, ahead: Array, log: bool = True) -> Array:
    """Multinomial logistic regression on the load or its logarithm, by maximum likelihood."""
    loads = np.concatenate([seen, ahead])
    if log and not (loads > 0).all():
        raise InputError(f"a trend in the logarithm needs positive loads; got {loads.min():g}")
    at, later = (np.log(seen), np.log(ahead)) if log else (seen, ahead)
    centre, spread = at.mean(), float(at.std())
    if spread < 1e-9:  # one load has no trend
        return mean_shares(counts, seen, ahead)
    z = np.append((at - centre) / spread, 0.0)
    # Categories that were never counted have equal shares, so that they are fitted as one: windows
    # of a deep queue name thousands of them.
    known = counts.any(0)
    group = np.where(known, known.cumsum() - 1, known.sum())
    size = np.bincount(group)
    counts = np.vstack([counts, np.full(counts.shape[1], _HALF)]) @ np.eye(len(size))[group]
    seen_in_all = counts.sum(-1, keepdims=True)

    def shares(b: Array, z: Array) -> Array:
        eta = np.column_stack([np.zeros(len(z)), b[0] + np.outer(z, b[1])])
        eta -= eta.max(-1, keepdims=True)
        p = np.exp(eta)
        result: Array = p / p.sum(-1, keepdims=True)
        return result

    def objective(flat: Array) -> tuple[float, Array]:
        p = shares(flat.reshape(2, -1), z)
        off = (seen_in_all * p - counts)[:, 1:]
        value = -(counts * np.log(np.maximum(p, 1e-300))).sum()
        return value / counts.sum(), np.concatenate([off.sum(0), z @ off]) / counts.sum()

    start = np.zeros(2 * (counts.shape[1] - 1))
    # Far beyond the load seen, a forecast shows digits of the slope that the value hardly does.
    tight = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options=tight)
    return (shares(best.x.reshape(2, -1), (later - centre) / spread) / size)[:, group]


def scalability_law(seen: Windows, ahead: Windows) -> Array:
    """The Universal Scalability Law, which does not use the number of servers.

    Shares of the states that were counted do not depend on those above, so the longest queue that
    was counted is capacity enough.
    """
    states = [state for category in seen.observe for state in members(category)]
    if not seen.has_states or not all(str(state).isdecimal() for state in states):
        raise InputError("the Universal Scalability Law needs counts of queue lengths")
    model = UniversalScalability(capacity=max(int(state) for state in states))
    fitted, _ = estimate(model, seen, Newton(starts=1))
    return log_terms(fitted.model, ahead)


def _by_kind(forecast: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    def terms(seen: Windows, ahead: Windows) -> Array:
        if not all(isinstance(kind, Counts) for kind in seen.observations):
            raise InputError("shares can be forecast of counts only")
        loads = seen.loads.numpy(), ahead.loads.numpy()
        parts = [forecast(kind.data.numpy(), *loads) for kind in seen.observations]
        return np.log(np.maximum(np.concatenate(parts, -1), TINY))

    return terms


BASELINES: dict[str, Callable[[Windows, Windows], Array]] = {
    "as on average": _by_kind(mean_shares),
    "as under the heaviest load": _by_kind(last_shares),
    "trend in the load": _by_kind(trend),
    "Universal Scalability Law": scalability_law,
}
"""From windows to learn from and windows to forecast: log-terms ``[M, S]`` of the latter."""


def baselines(pairs: list[tuple[Windows, Windows]]) -> dict[str, list[Array]]:
    """Log-terms of every baseline that applies, for each pair of light and held-out windows."""
    found = {}
    for name, baseline in BASELINES.items():
        try:
            found[name] = [baseline(seen, ahead) for seen, ahead in pairs]
        except StationaryError:
            continue  # a law of queue lengths where none were counted, a trend in negative loads
    return found


def _shares(counts: Array, ahead: Array) -> Array:
    total = counts.sum(0) + _HALF
    return np.tile(total / total.sum(), (len(ahead), 1))
