"""What a way to fit is: from a likelihood to parameters, and how it ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import Ended
from stationary.learning.likelihood import Likelihood


@dataclass(frozen=True, eq=False)
class FitResult:
    """Where a method ended.

    Attributes
    ----------
    theta : Tensor [P]
        The parameters.
    nll : float
        The likelihood's value there.
    gradient_norm : float
        Its largest slope, in nats per count for a change of a parameter by a factor of e.
    ended : Ended
        How it ended.
    evaluations, starts : int
        Gradients that were taken, and starting points.
    history : DataFrame
        Steps of a stochastic method, one row each.
    heavy_tails : bool
        Whether the gradients of a stochastic method had an infinite variance at the start.
    """

    theta: Tensor
    nll: float
    gradient_norm: float
    ended: Ended
    evaluations: int
    starts: int = 1
    history: pd.DataFrame = field(default_factory=pd.DataFrame)
    heavy_tails: bool = False


class Method(ABC):
    """A way to fit a model to windows: `Newton` or `Stochastic`."""

    @abstractmethod
    def run(self, likelihood: Likelihood, windows: Windows, seed: int) -> FitResult:
        """Minimise the likelihood of the windows."""


def largest_slope(gradient: np.ndarray[Any, Any], total: float) -> float:
    """Largest entry of a gradient, per count."""
    return float(np.abs(gradient).max(initial=0.0)) / total


def check_whole(value: Any, name: str, optional: bool = False) -> None:
    """Raise unless this is a whole number of at least 1, or left out where it may be."""
    if optional and value is None:
        return
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not float(value).is_integer() or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1; got {value!r}")
