"""How likely candidates are that differ in what an operator must say, such as the servers.

Each candidate is fitted to the data that tell most about it. These may be service times, which were
worked out for its own number of servers, so that likelihoods of two candidates cannot be compared.
But all candidates say how many others an arriving request finds, and these counts do not depend on
the number of servers. So candidates are weighed by the likelihood of these counts, divided by their
overdispersion: counts inside a window are correlated, and no model is quite right.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stationary.data.windows import Windows
from stationary.errors import StationaryError
from stationary.learning.covariances import overdispersion
from stationary.learning.estimate import Estimate
from stationary.learning.likelihood import solved
from stationary.trust.outside import as_logged


def weigh_candidates(fitted: Mapping[str, Estimate], windows: Windows) -> dict[str, float]:
    """Return the weight of every candidate, by the counts of states; equal ones without counts."""
    if len(fitted) < 2 or windows.counted is None or windows.is_pooled:
        return {name: 1 / len(fitted) for name in fitted}
    evidence = log_evidence(fitted, windows)
    best = max(evidence.values())
    weights = {name: float(np.exp(each - best)) for name, each in evidence.items()}
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def log_evidence(fitted: Mapping[str, Estimate], windows: Windows) -> dict[str, float]:
    """Log-likelihood of the counts of states under every candidate, over their overdispersion.

    Minus infinity for a candidate that has not all of the states that were counted.
    """
    assert windows.counted is not None  # noqa: S101 - checked by the caller
    counts = windows.using([windows.counted])
    found = {}
    for name, each in fitted.items():
        try:
            point = as_logged(solved(each.model, counts), windows)
            terms = windows.counted.on(each.model).log_terms(point).detach()
            found[name] = float((counts.data * terms).sum())
        except StationaryError:
            found[name] = -np.inf
    best = max(found, key=lambda name: found[name])
    if not np.isfinite(found[best]):
        return dict.fromkeys(found, 0.0)
    model = fitted[best].model
    phi = max(overdispersion(model, counts, model.theta.detach())[0], 1.0)
    return {name: each / phi for name, each in found.items()}
