"""`fit`: from a model and windows to a `Fit`."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from stationary.covariances import CovarianceKind
from stationary.covariances import covariance as covariance_at
from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError
from stationary.gradients import Exact, Gradient
from stationary.inference import nats_above_minimum
from stationary.models import Model
from stationary.newton import Progress, maximise_likelihood
from stationary.objective import Objective
from stationary.result import Fit
from stationary.solvers import Solver
from stationary.stochastic import Trainer, Training

_NEAR = 0.05
"""Nats above the optimum up to which an estimate counts as converged.

There its estimates are within a third of a standard error of the maximum-likelihood ones.
"""


def fit(
    model: Model,
    windows: Windows,
    *,
    solver: Solver | None = None,
    gradient: Gradient | None = None,
    epochs: int | None = None,
    training: Training | None = None,
    resume: bool = False,
    starts: int = 3,
    seed: int = 0,
    max_iterations: int = 1000,
    progress: Progress | None = None,
    covariance: CovarianceKind | None = None,
) -> Fit:
    """Fit a model to windows by maximum likelihood.

    With exact gradients and no ``epochs``, by second-order steps on all windows at once. With
    another gradient strategy, or with ``epochs``, by stochastic steps on a few windows at a time.

    Parameters
    ----------
    model : Model
        The chain; left as it is, the fit works on a copy.
    windows : Windows
        Inputs and counts of the observed categories.
    solver, gradient
        As for `steady_state`.
    epochs : int, optional
        Passes over the windows of a stochastic fit; 50 by default.
    training : Training, optional
        The rest of how a stochastic fit runs.
    resume : bool
        Take up the checkpoint in ``training.folder``, if there is one.
    starts : int
        Starting points of a second-order fit: the model's own and others scattered around it.
    seed : int
        Of the scattered starting points, or of the order of the windows; a random gradient has its
        own.
    max_iterations : int
        Of the second-order optimiser, for each start.
    progress : callable, optional
        Called by a second-order fit as ``progress(start, evaluations, nll)``.
    covariance : CovarianceKind, optional
        How sure the estimates are: `Best()` by default, see `stationary.covariances`.

    Returns
    -------
    Fit
        With a `ConvergenceWarning` if it did not converge.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=1, capacity=19, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[11.0, 12.0, 13.0, 14.0, 15.0] * 20, duration=5.0, seed=1)
    >>> windows = windows.observing([0, 1])
    >>> result = fit(st.models.MMmK(servers=1, capacity=19), windows)
    >>> round(result.estimates["service_rate"])
    25

    The paper's way:

    >>> paper = fit(truth, windows, gradient=st.Infinity(p="auto", seed=0), epochs=10)
    >>> round(paper.estimates["service_rate"])
    25
    """
    stochastic = training is not None or epochs is not None
    if stochastic or not isinstance(gradient, Exact | None):
        training = training or Training()
        if epochs is not None:
            training = replace(training, epochs=epochs)
        if resume and training.folder is None:
            raise InputError("resume=True needs training.folder, where the checkpoint is")
        result = _fit_stochastic(
            model, windows, solver, gradient, training, resume, seed, covariance
        )
    else:
        result = _fit_exact(
            model, windows, solver, starts, seed, max_iterations, progress, covariance
        )
    return warn_unless_converged(result)


def warn_unless_converged(result: Fit) -> Fit:
    """Return the result, with a `ConvergenceWarning` to the caller's caller if it needs one."""
    if not result.converged:
        warnings.warn(
            f"the fit did not converge: {result.message}", ConvergenceWarning, stacklevel=3
        )
    return result


def _fit_exact(
    model: Model,
    windows: Windows,
    solver: Solver | None,
    starts: int,
    seed: int,
    max_iterations: int,
    progress: Progress | None,
    kind: CovarianceKind | None,
) -> Fit:
    objective = Objective(model, windows, solver)
    best = maximise_likelihood(objective, starts, seed, max_iterations, progress)
    return Fit(
        model=_at(model, model.natural(torch.tensor(best.x))),
        windows=windows,
        nll=best.fun * objective.total,
        converged=best.converged,
        gradient_norm=float(np.abs(best.jac).max(initial=0.0)),
        evaluations=objective.evaluations,
        message=best.message,
        covariance=covariance_at(objective, windows, model.natural(torch.tensor(best.x)), kind),
        seed=seed,
        starts=starts,
    )


def _fit_stochastic(
    model: Model,
    windows: Windows,
    solver: Solver | None,
    gradient: Gradient | None,
    training: Training,
    resume: bool,
    seed: int,
    kind: CovarianceKind | None,
) -> Fit:
    trainer = Trainer(model, windows, gradient or Exact(), training, solver, seed)
    ended = trainer.run(resume)
    objective = Objective(model, windows, solver)
    result = judged(objective, windows, trainer.estimate, ended, trainer.step, kind)
    return replace(
        result,
        seed=seed,
        notes=trainer.notes,
        history=trainer.frame(),
        recipe={"gradient": repr(gradient), "training": repr(training)},
    )


def judged(
    objective: Objective,
    windows: Windows,
    theta: Tensor,
    ended: str,
    evaluations: int,
    kind: CovarianceKind | None = None,
) -> Fit:
    """Return the `Fit` of an estimate that was found some other way, judged by the likelihood."""
    z = objective.scale.free(theta).numpy()
    nll, slope = objective.value_and_gradient(z)
    gap = nats_above_minimum(objective, z)
    return Fit(
        model=_at(objective.model, theta),
        windows=windows,
        nll=nll,
        converged=gap <= _NEAR,
        gradient_norm=float(np.abs(slope).max(initial=0.0)) / objective.total,
        evaluations=evaluations,
        message=f"{ended}, about {gap:.1g} nats above the optimum",
        covariance=covariance_at(objective, windows, theta, kind),
        seed=0,
        starts=1,
    )


def _at(model: Model, theta: Tensor) -> Model:
    fitted = copy.deepcopy(model)
    fitted.set_theta(theta)
    return fitted
