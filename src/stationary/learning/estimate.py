"""What a fit is: the method that finds parameters, how it ended, and the record of the estimate."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from stationary._support.arguments import Checked
from stationary._support.types import Array
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.inference import Covariance
from stationary.learning.likelihood import Likelihood
from stationary.models import Model
from stationary.solvers import Solver


class End(StrEnum):
    """Why a fit stopped."""

    CONVERGED = "converged"
    """No step improves the likelihood noticeably."""
    SETTLED = "settled"
    """No step improves the weights of a network noticeably: other weights may be as good."""
    RAN_AWAY = "ran away"
    """The likelihood keeps improving as a parameter goes to its limit."""
    STALLED = "stalled"
    """The optimiser gave up, or ran out of iterations."""
    EPOCHS = "epochs"
    """A stochastic fit made all of its passes over the windows."""
    PATIENCE = "patience"
    """The training loss of a stochastic fit no longer fell."""
    STOPPED = "stopped"
    """The caller ended it."""
    FOUND = "found"
    """The parameters come from elsewhere and were judged by the likelihood."""


@dataclass(frozen=True)
class Ended:
    """How a fit ended, and whether its estimates are as good as those of maximum likelihood.

    With the parameter that ran away and where it was; the passes of a stochastic fit over the
    windows, and the last of them without a lower loss; and how many nats, about, it ended above the
    optimum: infinite where no optimum is near.
    """

    why: End
    converged: bool
    parameter: str = ""
    value: float = math.nan
    epochs: int = 0
    stale: int = 0
    above: float = math.nan


@dataclass(frozen=True, eq=False)
class Estimate:
    """One fitted model.

    Attributes
    ----------
    model : Model
        A copy of the model with its parameters at their estimates.
    covariance : Covariance
        Of the free parameters.
    nll : float
        Negative log-likelihood at the estimates, penalty included.
    ended : Ended
        How the fit ended.
    gradient_norm : float
        Largest gradient entry, in nats per count for a change of a parameter by a factor of e.
    evaluations : int
        Gradient evaluations, over all starts.
    starts, seed : int
        Starting points, and the seed of those that were scattered.
    below : float
        The heaviest load that was fitted, of a fit to the lightest windows only; infinite for one
        to all of them.
    heavy_tails : bool
        Whether the gradients of a stochastic fit had an infinite variance at the start.
    solver : Solver, optional
        What the fit used, and refits use too. It is code, and not saved with a plan.
    """

    model: Model
    covariance: Covariance
    nll: float
    ended: Ended
    gradient_norm: float
    evaluations: int
    starts: int = 1
    seed: int = 0
    below: float = math.inf
    heavy_tails: bool = False
    solver: Solver | None = None
    unsaved = ("solver",)

    @property
    def theta(self) -> Tensor:
        """The estimates, ``[P]``."""
        return self.model.theta.detach()

    @property
    def converged(self) -> bool:
        """Whether the estimates are as good as those of maximum likelihood."""
        return self.ended.converged

    @property
    def determined(self) -> bool:
        """Whether the data determine every direction of the parameters."""
        return not self.covariance.flat.size and self.covariance.computed

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates with standard errors and intervals, one row per parameter."""
        theta = self.theta.numpy()
        scale, stderr = self.covariance.scale, self.covariance.stderr
        log, unit = scale.log.numpy(), scale.unit.numpy()
        half = self.covariance.quantile(level) * stderr
        with np.errstate(over="ignore"):
            low = np.where(log, theta * np.exp(-half), theta - unit * half)
            high = np.where(log, theta * np.exp(half), theta + unit * half)
        low = np.where(self.model.positive.numpy(), low.clip(0.0), low)
        return pd.DataFrame(
            {
                "parameter": self.model.param_names,
                "estimate": theta,
                "std_error": np.where(log, theta, unit) * stderr,
                "low": low,
                "high": high,
                "determined": self.covariance.determined,
            }
        )


@dataclass(frozen=True, eq=False)
class FitResult:
    """Where a method ended: fields as of an `Estimate`, and the steps of a stochastic method."""

    theta: Tensor
    nll: float
    gradient_norm: float
    ended: Ended
    evaluations: int
    starts: int = 1
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    heavy_tails: bool = False


class Method(Checked, ABC):
    """A way to fit a model to windows: `Newton` or `Stochastic`."""

    @abstractmethod
    def run(self, likelihood: Likelihood, windows: Windows, seed: int) -> FitResult:
        """Minimise the likelihood of the windows."""


def largest_slope(gradient: Array, total: float) -> float:
    """Largest entry of a gradient, per count."""
    return float(np.abs(gradient).max(initial=0.0)) / total


def check_resume(resume: bool, folder: Path | None) -> None:
    """Raise unless there is a folder to resume from."""
    if resume and folder is None:
        raise InputError("resume=True needs folder=, where the unfinished fit is")


def check_whole(value: Any, name: str, optional: bool = False) -> None:
    """Raise unless this is a whole number of at least 1, or left out where it may be."""
    if optional and value is None:
        return
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not float(value).is_integer() or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {value!r}")
