"""Maximum likelihood with exact gradients: `fit`, and the `Fit` it returns."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import OptimizeResult, minimize

from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning, InputError, RateError, ReducibleError
from stationary.forecast import Limit, forecast, max_load
from stationary.gradients import Gradient
from stationary.inference import Array, Covariance, covariance
from stationary.models import Model
from stationary.objective import Objective
from stationary.solvers import Solver

_MOST_NEWTON = 40
"""Parameters up to which exact Hessians pay; beyond, limited-memory quasi-Newton."""

_TOLERANCE = 1e-8
"""Largest gradient, in nats per count for a factor of e, at which a fit counts as converged."""

_REACH = 20.0
"""How many e-folds from its start a parameter may go before it counts as running away."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The result of learning.

    Attributes
    ----------
    model : Model
        A copy of the model with its parameters at their estimates.
    windows : Windows
        The data.
    nll : float
        Conditional negative log-likelihood at the estimates, penalty included.
    converged : bool
        Whether the gradient vanished; ``message`` says more.
    gradient_norm : float
        Largest gradient entry, in nats per count for a change of a parameter by a factor of e.
    evaluations : int
        Gradient evaluations, over all starts.
    message : str
        How the optimiser ended.
    covariance : Covariance
        Of the free parameters.
    seed, starts
        What `fit` was called with.
    """

    model: Model
    windows: Windows
    nll: float
    converged: bool
    gradient_norm: float
    evaluations: int
    message: str
    covariance: Covariance
    seed: int
    starts: int

    @property
    def estimates(self) -> dict[str, float]:
        """Parameters by name."""
        return self.model.estimates

    @property
    def doubt(self) -> str:
        """Why no forecast of this fit is trusted; empty if there is no such reason."""
        return "" if self.converged else "the fit did not converge"

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates with standard errors and intervals, one row a parameter."""
        theta = self.model.theta.detach().numpy()
        positive = self.model.positive.numpy()
        half = self.covariance.quantile(level) * self.covariance.stderr
        with np.errstate(over="ignore"):
            low = np.where(positive, theta * np.exp(-half), theta - half)
            high = np.where(positive, theta * np.exp(half), theta + half)
        return pd.DataFrame(
            {
                "parameter": self.model.param_names,
                "estimate": theta,
                "std_error": np.where(positive, theta, 1.0) * self.covariance.stderr,
                "low": low,
                "high": high,
                "determined": _determined(self.covariance),
            }
        )

    def warnings(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        notes = [] if self.converged else [f"The fit did not converge: {self.message}"]
        table = self.table()
        open_ = table.loc[~table["determined"], "parameter"].tolist()
        if open_:
            shown = ", ".join(open_[:5]) + (", ..." if len(open_) > 5 else "")
            notes.append(
                f"The data does not determine {len(open_)} of {len(table)} parameters ({shown}); "
                f"a forecast that hangs on them is marked as not trusted."
            )
        if not self.covariance.df:
            notes.append(
                "Standard errors take the counts inside a window as independent, which they are "
                "not: too few windows to do better."
            )
        return notes

    def summary(self, level: float = 0.95, most: int = 30) -> str:
        """Estimates, standard errors, likelihood, convergence and warnings, as text."""
        model = type(self.model).__name__
        table = self.table(level)
        loads = self.windows.loads
        shown = (
            table.head(most)
            .drop(columns="determined")
            .to_string(index=False, float_format=lambda value: f"{value:.5g}")
        )
        if len(table) > most:
            shown += f"\n... and {len(table) - most} more parameters: fit.table()"
        ended = "converged" if self.converged else "NOT converged"
        lines = [
            f"{model}({self.model.extra_repr()})",
            f"{len(self.windows)} windows, loads {float(loads.min()):g} to {float(loads.max()):g}, "
            f"observed {', '.join(self.windows.labels)}",
            "",
            shown,
            "",
            f"negative log-likelihood {self.nll:.6f} over "
            f"{float(self.windows.counts.sum()):.0f} counts",
            f"{ended}: largest gradient {self.gradient_norm:.1e} nats per count, "
            f"{self.evaluations} gradient evaluations, {self.starts} starts",
            f"standard errors: {self.covariance.kind}; intervals {level:.0%}",
            *(f"WARNING: {note}" for note in self.warnings()),
        ]
        return "\n".join(lines)

    def forecast(self, x: Any, level: float = 0.95) -> pd.DataFrame:
        """Measures over loads with intervals; see `stationary.forecast.forecast`."""
        return forecast(self.model, self.covariance, x, level, self.doubt)

    def max_load(self, level: float = 0.95, **bound: float) -> Limit:
        """Return the largest load that meets a bound, as in ``fit.max_load(loss=0.001)``."""
        if len(bound) != 1:
            raise InputError(
                f"max_load takes one bound, as in max_load(loss=0.001); got {sorted(bound)}"
            )
        [(measure, value)] = bound.items()
        near = float(self.windows.loads.max())
        return max_load(self.model, self.covariance, measure, value, near, level, self.doubt)

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the run as a folder that `stationary.load` reads; all of it or nothing."""
        from stationary.runs import save  # runs read Fit, so they stand after it

        save(self, folder, overwrite)


def fit(
    model: Model,
    windows: Windows,
    *,
    solver: Solver | None = None,
    gradient: Gradient | None = None,
    starts: int = 3,
    seed: int = 0,
    max_iterations: int = 1000,
    progress: Callable[[int, int, float], None] | None = None,
) -> Fit:
    """Fit a model to windows by maximum likelihood.

    Parameters
    ----------
    model : Model
        The chain; left as it is, the fit works on a copy.
    windows : Windows
        Inputs and counts of the observed categories.
    solver, gradient
        As for `steady_state`.
    starts : int
        Starting points: the model's own and others scattered around it.
    seed : int
        Of the scattered starting points.
    max_iterations : int
        Of the optimiser, for each start.
    progress : callable, optional
        Called as ``progress(start, evaluations, nll)``.

    Returns
    -------
    Fit
        With a `ConvergenceWarning` if no start converged.

    Examples
    --------
    >>> import stationary as st
    >>> truth = st.models.MMmK(servers=1, capacity=19, service_rate=25.0)
    >>> windows = st.simulate(truth, x=[11.0, 12.0, 13.0, 14.0, 15.0] * 20, duration=5.0, seed=1)
    >>> result = fit(st.models.MMmK(servers=1, capacity=19), windows.observing([0, 1]))
    >>> round(result.estimates["service_rate"])
    25
    """
    if starts < 1:
        raise InputError(f"starts must be at least 1; got {starts!r}")
    objective = Objective(model, windows, solver, gradient)
    first = model.free(model.start(objective.x)).numpy()
    spread = np.random.default_rng(seed).normal(size=(starts, len(first)))
    spread[0] = 0.0
    results = [
        _minimise(objective, first + jump, max_iterations, progress, k)
        for k, jump in enumerate(spread)
    ]
    best = min(results, key=lambda result: result.fun)
    best_converged = [r for r in results if r.converged and r.fun <= best.fun + 1e-9]
    if best_converged:
        best = best_converged[0]
    fitted = copy.deepcopy(model)
    fitted.set_theta(fitted.natural(torch.tensor(best.x)))
    if not best.converged:
        warnings.warn(f"the fit did not converge: {best.message}", ConvergenceWarning, stacklevel=2)
    return Fit(
        model=fitted,
        windows=windows,
        nll=best.fun * objective.total,
        converged=best.converged,
        gradient_norm=float(np.abs(best.jac).max(initial=0.0)),
        evaluations=objective.evaluations,
        message=best.message,
        covariance=covariance(objective, windows, best.x),
        seed=seed,
        starts=starts,
    )


def _minimise(
    objective: Objective,
    z0: Array,
    max_iterations: int,
    progress: Callable[[int, int, float], None] | None,
    start: int,
) -> OptimizeResult:
    """Minimise the objective per count: trust-region Newton, or L-BFGS-B for many parameters."""
    objective.value_and_gradient(z0)  # bad input shows here, not as a refused step

    def value_and_gradient(z: Array) -> tuple[float, Array]:
        try:
            value, gradient = objective.value_and_gradient(z)
        except (RateError, ReducibleError):  # a rate over- or underflowed: too long a step
            return np.inf, np.zeros_like(z)
        if progress is not None:
            progress(start, objective.evaluations, value)
        return value / objective.total, gradient / objective.total

    if len(z0) <= _MOST_NEWTON:
        result = minimize(
            value_and_gradient,
            z0,
            jac=True,
            hess=lambda z: objective.hessian(z) / objective.total,
            method="trust-exact",
            options={"gtol": _TOLERANCE / 10, "maxiter": max_iterations, "max_trust_radius": 4.0},
        )
    else:
        result = minimize(
            value_and_gradient,
            z0,
            jac=True,
            method="L-BFGS-B",
            bounds=[(a - _REACH, a + _REACH) for a in z0],
            options={
                "gtol": _TOLERANCE / 10,
                "ftol": 1e-15,
                "maxiter": max_iterations,
                "maxfun": 2 * max_iterations,
                "maxcor": 30,
            },
        )
    return _judge(objective, result, z0)


def _judge(objective: Objective, result: OptimizeResult, z0: Array) -> OptimizeResult:
    """Decide whether the gradient vanished at a point that is not running away.

    A rate that goes to zero is no run-away: its edge is simply not used.
    """
    step, positive = result.x - z0, objective.model.positive.numpy()
    far = np.where(positive, step, np.abs(step)) > 0.95 * _REACH
    largest = float(np.abs(result.jac).max(initial=0.0))
    result.converged = largest <= _TOLERANCE and not far.any()
    if far.any():
        names = [n for n, f in zip(objective.model.param_names, far, strict=True) if f]
        result.message = (
            f"the likelihood keeps improving as {names[0]} runs to its limit "
            f"({float(objective.model.natural(torch.tensor(result.x))[far][0]):.3g}): the data "
            f"does not bound it; observe more states or loads, or fix the parameter"
        )
    elif not result.converged:
        result.message = (
            f"the gradient is still {largest:.1e} nats per count ({result.message}); try more "
            f"starts= or max_iterations="
        )
    else:
        result.message = f"the gradient vanished ({largest:.1e} nats per count)"
    return result


def _determined(cov: Covariance) -> Array:
    """Parameters that no flat direction touches."""
    return np.asarray((cov.flat**2).sum(1) < 1e-3)
