"""The plain record of one fitted model: parameters, how sure they are, and how the fit ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from torch import Tensor

from stationary.learning.inference import Covariance
from stationary.models import Model


class End(StrEnum):
    """Why a fit stopped."""

    CONVERGED = "converged"
    """The gradient vanished."""
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
    """How a fit ended.

    Attributes
    ----------
    why : End
        Why it stopped.
    converged : bool
        Whether the estimates are as good as those of maximum likelihood.
    parameter : str
        The one that ran away.
    value : float
        Where it was.
    epochs, stale : int
        Passes over the windows of a stochastic fit, and the last of them without a lower loss.
    above : float
        Nats above the optimum, about, of a fit that was not by second-order steps.
    detail : str
        What the optimiser said.
    """

    why: End
    converged: bool
    parameter: str = ""
    value: float = math.nan
    epochs: int = 0
    stale: int = 0
    above: float = math.nan
    detail: str = ""


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
        return not self.covariance.flat.size

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
                # Parameters that no flat direction touches.
                "determined": (self.covariance.flat**2).sum(1) < 1e-3,
            }
        )
