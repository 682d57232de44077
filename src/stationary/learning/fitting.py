"""From a model and windows to an `Estimate`, by one of the methods."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import InputError, StationaryError
from stationary.learning.covariances import CovarianceKind
from stationary.learning.covariances import covariance as covariance_at
from stationary.learning.estimate import Estimate, FitResult, Method
from stationary.learning.inference import Covariance
from stationary.learning.likelihood import Likelihood
from stationary.learning.newton import Newton, as_result, minimise
from stationary.models import Model
from stationary.solvers import Solver


def estimate(
    model: Model,
    windows: Windows,
    method: Method | None = None,
    *,
    solver: Solver | None = None,
    covariance: CovarianceKind | None = None,
    seed: int = 0,
) -> tuple[Estimate, FitResult]:
    """Fit a model to windows; return the estimate, and what the method found on the way."""
    likelihood = Likelihood(model, windows, solver)
    found = (method or Newton()).run(likelihood, windows, seed)
    sure = covariance_at(likelihood, windows, found.theta, covariance)
    return recorded(likelihood, found, sure, seed), found


def recorded(
    likelihood: Likelihood,
    found: FitResult,
    covariance: Covariance,
    seed: int = 0,
    below: float = math.inf,
) -> Estimate:
    """Return the record of what a method found."""
    return Estimate(
        model=at(likelihood.model, found.theta),
        covariance=covariance,
        nll=found.nll,
        ended=found.ended,
        gradient_norm=found.gradient_norm,
        evaluations=found.evaluations,
        starts=found.starts,
        seed=seed,
        below=below,
        heavy_tails=found.heavy_tails,
        solver=likelihood.solver,
    )


def refit_below(whole: Estimate, windows: Windows, cut: float) -> Estimate | None:
    """Refit a model to the windows up to a load, from its estimates; None if it cannot be.

    It is for predictions of heavier loads, and has no covariance.
    """
    light = windows.between(None, cut)
    model = at(whole.model, restart(whole))
    likelihood = Likelihood(model, light, whole.solver)
    try:
        found = _from_here(likelihood) or Newton(starts=3).run(likelihood, light, whole.seed)
    except StationaryError:
        return None
    return recorded(likelihood, found, Covariance.none(likelihood.scale), whole.seed, cut)


def refitted(estimate: Estimate, windows: Windows, weights: Tensor | None = None) -> Tensor | None:
    """Parameters of a refit to other or weighted windows; None if it did not converge."""
    model = at(estimate.model, restart(estimate))
    try:
        found = _from_here(Likelihood(model, windows, estimate.solver, weights))
    except StationaryError:
        return None
    return None if found is None else found.theta


def _from_here(likelihood: Likelihood) -> FitResult | None:
    """Return the minimum next to the model's own parameters, if there is one."""
    model = likelihood.model
    best = minimise(likelihood, model.free(model.theta.detach()).numpy(), start=1)
    return as_result(likelihood, best) if best is not None and best.ended.converged else None


def restart(estimate: Estimate) -> Tensor:
    """Where a refit starts: at the estimates, but for rates that were estimated at zero."""
    # From zero, a refit would take leaving it for running away.
    scale = estimate.covariance.scale
    at_zero = estimate.model.positive & ~scale.log
    return torch.where(at_zero, scale.unit / 10, estimate.theta)


def at(model: Model, theta: Tensor) -> Model:
    """Return a copy of a model at other parameters."""
    fitted = copy.deepcopy(model)
    fitted.set_theta(theta, vanishing=True)
    return fitted


def check_model(model: object) -> None:
    """Raise unless this is a model, and no name or class of one."""
    if not isinstance(model, Model):
        raise InputError(
            f"the model must be one such as st.models.MMmK(servers=1, capacity=20); got {model!r}"
        )
