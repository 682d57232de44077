r"""What the windows of a fit say about its parameters, and what more windows would add.

On the coordinates ``z`` of the fit's covariance let ``g_c`` be the gradient of the log of the
probability of category c, given that one of the observed ones is seen, so that
``sum_c p_c g_c = 0``. A window of N counts at load x adds to the Hessian, on average,

    J(x) = N sum_c p_c g_c g_c^T,

and its score has the covariance ``J`` only if samples are independent. Samples of a system that
changes slowly are not, and their score has the covariance ``B(x)`` of `learning.autocorrelation`;
where that cannot be computed, B is taken as ``J``. Either way B is scaled by the one number that
gives the present windows the spread that the fit's covariance has, and w windows at x change the
sandwich ``H^-1 M H^-1`` to that of ``H + w J`` and ``M + w B``. Directions that the fit leaves open
start with a variance of ``UNDETERMINED ** 2``.

Of service times, every request says as much as those of the fit do on average, at any load: heavier
windows tell more because more requests come in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data import Counts, Observation, ServiceTimes
from stationary.data.states import States
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.autocorrelation import obstacle, sum_covariances
from stationary.learning.derivatives import by_input
from stationary.learning.estimate import Estimate
from stationary.learning.inference import UNDETERMINED, Covariance, finite_hessian
from stationary.learning.likelihood import Likelihood
from stationary.models import Point
from stationary.models.chunks import steady_states


@dataclass(frozen=True, eq=False)
class Information:
    """What is known now, and what a window at another load would add."""

    estimate: Estimate
    windows: Windows
    hessian: Array  # [P, P]: H of the present windows
    scatter: Array  # [P, P]: M, the covariance of their score
    excess: float  # factor by which the present windows scatter more than B says
    samples: float  # of the system in a window; where arriving requests sample it, per unit of load

    @classmethod
    def of(cls, estimate: Estimate, windows: Windows) -> Information:
        """Compute it from a fit."""
        cov = estimate.covariance
        hessian = _hessian(estimate, windows)
        flat = cov.flat @ cov.flat.T
        known = np.eye(len(hessian)) - flat
        hessian = known @ hessian @ known + flat / UNDETERMINED**2
        scatter = hessian @ cov.matrix @ hessian

        by_arrivals = windows.by_arrivals or _counted(windows) is None
        loads, group = np.unique(windows.loads.numpy(), return_inverse=True)
        many = windows.multiplicity.numpy()
        windows_at = np.bincount(group, many)
        x = torch.from_numpy(loads)[:, None]
        counts = _main(windows).on(estimate.model).size.numpy() / many
        samples = counts / _observed_share(estimate, windows, x).clip(1e-12)[group]
        _, spread = window_at(estimate, windows, x, np.bincount(group, samples * many) / windows_at)
        # Compared along all determined directions at once, each in its own variance.
        weight = known @ np.linalg.pinv(hessian, hermitian=True) @ known
        expected = np.einsum("pq,g,gqp->", weight, windows_at, spread)
        excess = np.einsum("pq,qp->", weight, scatter) / expected if expected > 0 else 1.0
        per_load = samples / windows.loads.numpy() if by_arrivals else samples
        return cls(estimate, windows, hessian, scatter, float(excess), float(np.median(per_load)))

    def after(self, loads: Array, windows: int) -> list[Covariance]:
        """Covariance of the fit with this many more windows at each of these loads."""
        cov = self.estimate.covariance
        by_arrivals = self.windows.by_arrivals or _counted(self.windows) is None
        samples = self.samples * (loads if by_arrivals else np.ones_like(loads))
        x = torch.from_numpy(loads)[:, None]
        found = []
        for J, B in zip(*window_at(self.estimate, self.windows, x, samples), strict=True):
            inverse = np.linalg.inv(self.hessian + windows * J)
            matrix = inverse @ (self.scatter + windows * self.excess * B) @ inverse
            df = cov.df + windows if cov.df else 0
            found.append(replace(cov, matrix=(matrix + matrix.T) / 2, df=df))
        return found


def _counted(windows: Windows) -> Counts | None:
    """Return the counts, None where there are service times alone."""
    others = [kind for kind in windows.observations if not isinstance(kind, Counts)]
    if not others:
        return windows.counted
    if len(windows.observations) > 1 or not isinstance(others[0], ServiceTimes):
        kinds = ", ".join(kind.kind or type(kind).__name__ for kind in others)
        raise InputError(
            f"what more windows would add is known for counts or for service times alone, not for "
            f"{kinds}: fit the counts alone (--observations states, or observations=['states'])"
        )
    return None


def _main(windows: Windows) -> Observation:
    return _counted(windows) or windows.observations[0]


def _observed_share(estimate: Estimate, windows: Windows, x: Tensor) -> Array:
    """Probability that a sample falls into an observed category at each input."""
    kind = _main(windows).on(estimate.model)
    if not isinstance(kind, States):
        return np.ones(len(x))
    point = estimate.model.at(x, estimate.theta).with_pi(steady_states(estimate.model, x))
    found = kind.state_weights(point)
    return np.asarray((kind.map.of(found).sum(-1) / found.sum(-1)).numpy())


def window_at(
    estimate: Estimate, windows: Windows, x: Tensor, samples: Array
) -> tuple[Array, Array]:
    """Information J and covariance of the score B ``[G, P, P]`` of a window at each input."""
    model, counted = estimate.model, _counted(windows)
    if counted is None:
        each = _hessian(estimate, windows) / float(_main(windows).on(model).size.sum())
        return samples[:, None, None] * each, samples[:, None, None] * each
    kind = counted.on(model)
    J, slopes = _information(estimate, kind, x, samples * _observed_share(estimate, windows, x))
    B = J
    if isinstance(kind, States) and obstacle(model, windows, estimate.theta, x) is None:
        score = kind.map.to_states(torch.from_numpy(slopes).mT).mT.numpy()
        B = sum_covariances(model, windows, estimate.theta, x, samples, score)
    for other in windows.observations:
        if other is not counted:
            each = np.full(len(x), np.median(other.size.numpy() / windows.multiplicity.numpy()))
            more, _ = _information(estimate, other.on(model), x, each)
            J, B = J + more, B + more
    return J, B


def _hessian(estimate: Estimate, windows: Windows) -> Array:
    """Hessian of the negative log-likelihood of these windows, at the estimates."""
    scale = estimate.covariance.scale
    likelihood = Likelihood(estimate.model, windows).on(scale)
    return finite_hessian(likelihood, scale.free(estimate.theta).numpy())


def _information(
    estimate: Estimate, kind: Observation, x: Tensor, counts: Array
) -> tuple[Array, Array]:
    """Information ``[G, P, P]`` of so many counts at each input, and slopes of the log-terms."""
    model, scale = estimate.model, estimate.covariance.scale

    def log_terms(z: Tensor, x: Tensor) -> Tensor:
        return kind.log_terms(Point(model, x, scale.natural(z)))

    z = scale.free(estimate.theta).numpy()
    terms, slopes = by_input(log_terms, z, model.as_inputs(x), model.edges)
    return np.einsum("g,gc,gcp,gcq->gpq", counts, np.exp(terms), slopes, slopes), slopes
