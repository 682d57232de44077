"""How far a fit moves when its windows are drawn again: the window and the block bootstrap."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from stationary.data.paths import as_random
from stationary.data.windows import Windows
from stationary.errors import InputError, StationaryError
from stationary.forecast import grid, values_at
from stationary.inference import Array, check_level
from stationary.limits import FARTHEST, Limit
from stationary.models import Model
from stationary.newton import minimise
from stationary.objective import Objective
from stationary.parallel import Progress, in_parallel
from stationary.result import Fit

_FEWEST = 20
"""Repeats below which quantiles of them say nothing."""

_STEPS = 40
"""Halvings of a bracket of 28 e-folds of load: what is left is below rounding of a plot."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Refits to windows drawn again, and the intervals that follow.

    Attributes
    ----------
    fit : Fit
        What was refitted.
    thetas : ndarray [B, P]
        Estimates of the refits.
    block : int
        Successive windows that were drawn together.
    failed : int
        Refits that did not converge; they are not among ``thetas``.
    """

    fit: Fit
    thetas: Array
    block: int
    failed: int

    def __str__(self) -> str:
        blocks = f" in blocks of {self.block}" if self.block > 1 else ""
        return f"bootstrap of {len(self.thetas)} redrawn sets of windows{blocks}"

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """Estimates with bootstrap standard errors and percentile intervals."""
        low, high = self._ends(self.thetas, level)
        return pd.DataFrame(
            {
                "parameter": self.fit.model.param_names,
                "estimate": self.fit.model.theta.detach().numpy(),
                "std_error": self.thetas.std(0, ddof=1),
                "low": low,
                "high": high,
            }
        )

    def forecast(self, x: Any, level: float = 0.95) -> pd.DataFrame:
        """Return `Fit.forecast` with percentile intervals."""
        frame = self.fit.forecast(x, level)
        model = self.fit.model
        inputs = grid(model, x)
        values = values_at(
            model, inputs.expand(len(self.thetas), -1, -1), torch.from_numpy(self.thetas)
        )
        for k, name in enumerate(model.measures):
            measure = model.measure(name)
            low, high = self._ends(np.clip(values[..., k], measure.low, measure.high), level)
            frame[f"{name}_low"] = np.minimum(low, frame[name])
            frame[f"{name}_high"] = np.maximum(high, frame[name])
        return frame

    def max_load(self, level: float = 0.95, present: float | None = None, **bound: float) -> Limit:
        """Return `Fit.max_load` with a percentile interval."""
        limit = self.fit.max_load(level, present, **bound)
        low, high = self._ends(self._crossings(limit), level)
        return replace(limit, low=min(float(low), limit.load), high=max(float(high), limit.load))

    def _crossings(self, limit: Limit) -> Array:
        """Largest load that meets the bound, by each refit; by bisection of all at once."""
        which = list(self.fit.model.measures).index(limit.measure)
        near = math.log(float(self.fit.windows.loads.max()))
        least, most = near - math.log(FARTHEST), near + math.log(FARTHEST)
        low, high = np.full(len(self.thetas), least), np.full(len(self.thetas), most)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            inputs = torch.from_numpy(np.exp(middle))[:, None, None]
            value = values_at(self.fit.model, inputs, torch.from_numpy(self.thetas))[:, 0, which]
            meets = value <= limit.bound
            low, high = np.where(meets, middle, low), np.where(meets, high, middle)
        loads = np.where(low == least, 0.0, np.exp(low))
        return np.where(high == most, np.inf, loads)

    @staticmethod
    def _ends(values: Array, level: float) -> Array:
        check_level(level)
        # Of the draws themselves: between two of them one may be infinite.
        ends: Array = np.quantile(
            values, [(1 - level) / 2, (1 + level) / 2], axis=0, method="inverted_cdf"
        )
        return ends


def bootstrap(
    fit: Fit,
    repeats: int = 200,
    *,
    block: int = 1,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Bootstrap:
    """Refit to windows drawn again with replacement, in parallel where that pays.

    Parameters
    ----------
    fit : Fit
        What to refit; every refit starts at its estimates.
    repeats : int
        Number of refits.
    block : int
        Successive windows to draw together, in the order of recording, where they hang together.
    seed : int
        Of the draws.
    jobs, cluster, progress
        As for `stationary.parallel.in_parallel`.
    """
    fit.check_observed("a bootstrap")
    fit.windows.check_single("a bootstrap")
    count = len(fit.windows)
    if repeats < _FEWEST:
        raise InputError(f"a bootstrap needs at least {_FEWEST} repeats; got {repeats!r}")
    if not 1 <= block <= count // 2:
        raise InputError(
            f"block must be from 1 to half of the {count} windows; got {block!r}: with blocks this "
            f"long there is nothing to draw from"
        )
    random = as_random(seed)
    first = random.integers(count, size=(repeats, -(-count // block)))
    drawn = (first[..., None] + np.arange(block)) % count
    # From zero a refit would take leaving it for running away.
    scale, theta = fit.covariance.scale, fit.model.theta.detach()
    start = torch.where(fit.model.positive & ~scale.log, scale.unit / 10, theta)
    refit = _Refit(fit.model, fit.windows, start)
    found = in_parallel(
        refit,
        list(drawn.reshape(repeats, -1)[:, :count]),
        jobs=jobs,
        cluster=cluster,
        progress=progress,
    )
    thetas = [theta for theta in found if theta is not None]
    if len(thetas) < max(_FEWEST, repeats // 2):
        raise InputError(
            f"{repeats - len(thetas)} of {repeats} refits did not converge: the data is too thin "
            f"for this model, and a bootstrap of it says nothing; take a smaller model"
        )
    return Bootstrap(fit, np.stack(thetas), block, repeats - len(thetas))


@dataclass(frozen=True)
class _Refit:
    """Estimates from windows at the given positions; None if the refit did not converge."""

    model: Model
    windows: Windows
    start: Tensor

    def __call__(self, positions: Array) -> Array | None:
        objective = Objective(self.model, self.windows.select(positions))
        z0 = self.model.free(self.start).numpy()
        try:
            result = minimise(objective, z0)
        except StationaryError:
            return None
        if result is None or not result.converged:
            return None
        return self.model.natural(torch.from_numpy(result.x)).numpy()
