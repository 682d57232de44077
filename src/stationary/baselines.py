"""Rivals of a model: forecasts of the shares of the counted categories that know no servers."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from stationary.data.categories import members
from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError
from stationary.fitting import fit
from stationary.inference import Array
from stationary.models import UniversalScalability
from stationary.objective import predicted

Baseline = Callable[[Windows, Windows], Array]
"""From windows to learn from and windows to forecast: shares ``[M, C]`` of the latter."""

_HALF = 0.5
"""Count added to every category: what was never seen is rare, not impossible."""

_LAST = 1 / 3
"""Part of the windows, by load, that counts as the heaviest."""


def mean_shares(seen: Windows, ahead: Windows) -> Array:
    """All as it was on average."""
    return _shares(seen.counts.numpy(), ahead)


def last_shares(seen: Windows, ahead: Windows) -> Array:
    """All as it was under the heaviest load seen."""
    loads = seen.loads.numpy()
    return _shares(seen.counts.numpy()[loads >= np.quantile(loads, 1 - _LAST)], ahead)


def trend(seen: Windows, ahead: Windows) -> Array:
    """Multinomial logistic regression on the logarithm of the load, by maximum likelihood."""
    loads = np.concatenate([seen.loads.numpy(), ahead.loads.numpy()])
    if not (loads > 0).all():
        raise InputError(f"a trend in the logarithm needs positive loads; got {loads.min():g}")
    counts = seen.counts.numpy()
    log = np.log(seen.loads.numpy())
    centre, spread = log.mean(), float(log.std())
    if spread < 1e-9:  # one load has no trend
        return mean_shares(seen, ahead)
    z = np.append((log - centre) / spread, 0.0)
    counts = np.vstack([counts, np.full(counts.shape[1], _HALF)])
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
    best = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return shares(best.x.reshape(2, -1), (np.log(ahead.loads.numpy()) - centre) / spread)


def scalability_law(seen: Windows, ahead: Windows) -> Array:
    """The Universal Scalability Law, which knows nothing of how many servers there are.

    Shares of the states that were counted do not depend on those above, so the longest queue that
    was counted is room enough.
    """
    states = [state for category in seen.observe for state in members(category)]
    if not all(str(state).isdecimal() for state in states):
        raise InputError("the Universal Scalability Law needs counts of queue lengths")
    model = UniversalScalability(capacity=max(int(state) for state in states))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a rate at zero is no failure here
        fitted = fit(model, seen, starts=1).model
    return predicted(fitted, fitted.theta.detach(), ahead)


BASELINES: dict[str, Baseline] = {
    "as on average": mean_shares,
    "as under the heaviest load": last_shares,
    "trend in the load": trend,
    "Universal Scalability Law": scalability_law,
}


def _shares(counts: Array, ahead: Windows) -> Array:
    total = counts.sum(0) + _HALF
    return np.tile(total / total.sum(), (len(ahead), 1))
