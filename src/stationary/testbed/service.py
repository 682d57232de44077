"""Service times that a server of the testbed is made to take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stationary.errors import InputError

_LONGEST = 10.0


class Shape(StrEnum):
    """Families of distributions."""

    DETERMINISTIC = "deterministic"
    EXPONENTIAL = "exponential"
    GAMMA = "gamma"
    LOGNORMAL = "lognormal"


@dataclass(frozen=True)
class Service:
    """The distribution of service times, with its mean in seconds.

    The variability of gamma and lognormal times is their squared coefficient of variation. It is 0
    for deterministic and 1 for exponential ones.

    Examples
    --------
    >>> Service(Shape.EXPONENTIAL, 0.008).slices(4).mean().round(12)
    np.float64(0.008)
    """

    shape: Shape
    mean: float
    variability: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.mean <= _LONGEST:
            raise InputError(
                f"the mean service time must be positive and at most {_LONGEST:g} s; got "
                f"{self.mean!r}"
            )
        if self.shape not in (Shape.GAMMA, Shape.LOGNORMAL):
            if self.variability is not None:
                raise InputError(
                    f"{self.shape} service has no variability to choose; got {self.variability!r}: "
                    f"leave it out, or take gamma or lognormal service"
                )
        elif self.variability is None or not 0.01 <= self.variability <= 100:
            raise InputError(
                f"{self.shape} service needs a variability, its squared coefficient of variation, "
                f"in 0.01..100; got {self.variability!r}"
            )

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Return independent service times."""
        if self.shape is Shape.DETERMINISTIC:
            return np.full(count, self.mean)
        distribution, _ = self._distributions()
        return np.asarray(distribution.rvs(size=count, random_state=random))

    def slices(self, count: int) -> NDArray[np.float64]:
        """Return the means of so many equally likely slices: a table to draw from."""
        if self.shape is Shape.DETERMINISTIC:
            return np.full(count, self.mean)
        # The mean over a slice is the probability that a length-biased draw lies in it.
        distribution, biased = self._distributions()
        return (
            count * self.mean * np.diff(biased.cdf(distribution.ppf(np.arange(count + 1) / count)))
        )

    def _distributions(self) -> tuple[Any, Any]:
        """Return the distribution, and that in which each time has the weight of its length."""
        from scipy import stats

        if self.shape is Shape.LOGNORMAL:
            spread = math.log1p(self.variability or 0.0)
            median, root = self.mean * math.exp(-spread / 2), math.sqrt(spread)
            scales = (median, median * math.exp(spread))
            first, second = (stats.lognorm(root, scale=scale) for scale in scales)
            return first, second
        phases = 1 / (self.variability or 1.0)
        first, second = (stats.gamma(a, scale=self.mean / phases) for a in (phases, phases + 1))
        return first, second
