"""`fit`: from a model and windows to a `Fit`."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from stationary import checkpoints
from stationary.chunks import is_large
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
from stationary.visits import Visits

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
    folder: Path | None = None,
    starts: int | None = None,
    seed: int = 0,
    max_iterations: int = 1000,
    progress: Progress | None = None,
    covariance: CovarianceKind | None = None,
    cluster: str | None = None,
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
    folder : Path, optional
        Where a long fit keeps what it has done: a stochastic one its checkpoints, a second-order
        one of a large chain the points it visited.
    resume : bool
        Go on with what was left in the folder, if there is something.
    starts : int, optional
        Starting points of a second-order fit: the model's own and others scattered around it. Three
        by default, and one where a chain is large.
    seed : int
        Of the scattered starting points, or of the order of the windows; a random gradient has its
        own.
    max_iterations : int
        Of the second-order optimiser, for each start.
    progress : callable, optional
        Called by a second-order fit as ``progress(start, evaluations, nll)``.
    covariance : CovarianceKind, optional
        How sure the estimates are: `Best()` by default, see `stationary.covariances`.
    cluster : str, optional
        Address of a Dask scheduler, which then runs the starts of a second-order fit side by side.

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
    if cluster is not None and (stochastic or not isinstance(gradient, Exact | None)):
        raise InputError(
            "cluster= runs the starts of a second-order fit, and a stochastic fit has one start: "
            "leave out cluster=, or gradient=, epochs= and training="
        )
    if stochastic or not isinstance(gradient, Exact | None):
        training = training or Training()
        if epochs is not None:
            training = replace(training, epochs=epochs)
        if folder is not None:
            training = replace(training, folder=folder)
        if resume and training.folder is None:
            raise InputError("resume=True needs folder=, where the unfinished fit is")
        result = _fit_stochastic(
            model, windows, solver, gradient, training, resume, seed, covariance
        )
    else:
        if resume and folder is None:
            raise InputError("resume=True needs folder=, where the unfinished fit is")
        objective = Objective(model, windows, solver)
        large = is_large(model.edges)
        if large and folder is not None:
            objective.visits = _visits(objective, windows, folder, resume)
        starts = starts if starts is not None else 1 if large else 3
        result = _fit_exact(
            objective, windows, starts, seed, max_iterations, progress, covariance, cluster
        )
        objective.visits.finish()
    return warn_unless_converged(result)


def warn_unless_converged(result: Fit) -> Fit:
    """Return the result, with a `ConvergenceWarning` to the caller's caller if it needs one."""
    if not result.converged:
        warnings.warn(
            f"the fit did not converge: {result.message}", ConvergenceWarning, stacklevel=3
        )
    return result


def _visits(objective: Objective, windows: Windows, folder: Path, resume: bool) -> Visits:
    model = objective.model
    first = {"start": model.start(objective.x).tolist()}
    return Visits(folder, repr(checkpoints.fingerprint(model, windows) | first), resume)


def _fit_exact(
    objective: Objective,
    windows: Windows,
    starts: int,
    seed: int,
    max_iterations: int,
    progress: Progress | None,
    kind: CovarianceKind | None,
    cluster: str | None,
) -> Fit:
    model = objective.model
    best = maximise_likelihood(objective, starts, seed, max_iterations, progress, cluster)
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
