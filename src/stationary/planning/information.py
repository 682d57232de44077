r"""What the windows of a fit say about its parameters, and what more windows would add.

On the coordinates ``z`` of the fit's covariance let ``f_j`` be the gradient of the log of the
conditional probability of state j's category, zero where j is not observed, so that
``sum_j pi_j f_j = 0``. A window of N looks at load x adds to the Hessian, on average,

    J(x) = N sum_j pi_j f_j f_j^T,

and its score has the covariance ``J`` only if looks are independent. Those at a system that forgets
slowly are not, and have the covariance ``B(x)`` of `stationary.autocorrelation`; it is taken as
``J`` where the chain cannot tell. Either way B is scaled by the one number that makes the present
windows come out as spread as the fit's covariance says, and w windows at x change the sandwich
``H^-1 M H^-1`` to that of ``H + w J`` and ``M + w B``. Directions that the fit leaves open start
with a variance of ``UNDETERMINED ** 2``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from stationary.autocorrelation import sum_covariances, why_not
from stationary.chunks import probabilities
from stationary.data.states import Sampling, conditional_probabilities
from stationary.derivatives import by_input
from stationary.inference import (
    UNDETERMINED,
    Array,
    Covariance,
    finite_hessian,
)
from stationary.objective import Objective
from stationary.result import Fit
from stationary.steady import steady_state


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known now, and what a window at another load would add.

    Attributes
    ----------
    fit : Fit
        The fit.
    bread : ndarray [P, P]
        The Hessian H of what there is.
    meat : ndarray [P, P]
        The covariance M of its gradient.
    excess : float
        What the spread of a window is to be multiplied by, so that it is as seen.
    looks : float
        Looks a window, per unit of load where arriving requests look.
    """

    fit: Fit
    bread: Array
    meat: Array
    excess: float
    looks: float

    @classmethod
    def of(cls, fit: Fit) -> Knowledge:
        """Read it off a fit."""
        cov, windows = fit.covariance, fit.windows
        objective = Objective(fit.model, windows).on(cov.scale)
        hessian = finite_hessian(objective, cov.scale.free(fit.model.theta.detach()).numpy())
        open_ = cov.flat @ cov.flat.T
        known = np.eye(len(hessian)) - open_
        bread = known @ hessian @ known + open_ / UNDETERMINED**2
        meat = bread @ cov.matrix @ bread

        x, group = np.unique(windows.loads.numpy(), return_inverse=True)
        many = windows.many.numpy()
        windows_at = np.bincount(group, many)
        inputs = torch.from_numpy(x)[:, None]
        seen = windows.counts.sum(-1).numpy() / many
        looks = seen / _share(fit, inputs).clip(1e-12)[group]
        per_window = np.bincount(group, looks * many) / windows_at
        _, spread = _window(fit, inputs, per_window)
        weight = known @ np.linalg.pinv(bread, hermitian=True) @ known
        expected = np.einsum("pq,g,gqp->", weight, windows_at, spread)
        by_arrivals = windows.sampling is Sampling.ARRIVAL
        return cls(
            fit,
            bread,
            meat,
            excess=float(np.einsum("pq,qp->", weight, meat) / expected) if expected > 0 else 1.0,
            looks=float(np.median(looks / windows.loads.numpy() if by_arrivals else looks)),
        )

    def after(self, loads: Array, windows: int) -> list[Covariance]:
        """Covariance of the fit with so many more windows at each of these loads."""
        cov = self.fit.covariance
        by_arrivals = self.fit.windows.sampling is Sampling.ARRIVAL
        looks = self.looks * (loads if by_arrivals else np.ones_like(loads))
        added, spread = _window(self.fit, torch.from_numpy(loads)[:, None], looks)
        found = []
        for J, B in zip(added, spread, strict=True):
            inverse = np.linalg.inv(self.bread + windows * J)
            matrix = inverse @ (self.meat + windows * self.excess * B) @ inverse
            df = cov.df + windows if cov.df else 0
            found.append(replace(cov, matrix=(matrix + matrix.T) / 2, df=df))
        return found


def _share(fit: Fit, x: Tensor) -> Array:
    """Probability that a look falls into an observed category at each input."""
    pi = probabilities(fit.model, x)
    return fit.windows.observation(fit.model).of(pi).sum(-1).numpy()


def _window(fit: Fit, x: Tensor, looks: Array) -> tuple[Array, Array]:
    """Information J and covariance of the score B ``[G, P, P]`` of a window at each input."""
    model, scale = fit.model, fit.covariance.scale
    observation = fit.windows.observation(model)

    def log_probabilities(z: Tensor, x: Tensor) -> Tensor:
        pi = steady_state(model.generator(x, scale.natural(z))).pi
        return conditional_probabilities(pi, observation).log()

    z = scale.free(model.theta.detach()).numpy()
    slopes = torch.from_numpy(by_input(log_probabilities, z, x, model.edges)[1])
    score = observation.to_states(slopes.mT).mT.numpy()
    pi = probabilities(model, x).numpy()
    J = np.einsum("g,gj,gjp,gjq->gpq", looks, pi, score, score)
    if why_not(model, fit.windows):
        return J, J
    return J, sum_covariances(model, fit.windows, model.theta.detach(), x, looks, score)
