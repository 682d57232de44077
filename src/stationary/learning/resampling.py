"""How far a fit moves when its windows are drawn again: the window and the block bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from stationary._support.parallel import Progress, in_parallel
from stationary._support.seeds import as_random
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import Estimate
from stationary.learning.fitting import refitted, restart
from stationary.models import Model

_FEWEST_WINDOWS = 8
"""Windows below which redrawing them says nothing."""

_FEWEST = 20
"""Repeats below which quantiles of them say nothing."""


def bootstrap(
    estimate: Estimate,
    windows: Windows,
    repeats: int = 200,
    block: int = 1,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Refit to windows drawn again with replacement; return parameters ``[B, P]``.

    Parameters
    ----------
    estimate : Estimate
        What to refit; every refit starts at its estimates.
    windows : Windows
        What it was fitted to.
    repeats, block, seed, jobs, cluster, progress
        As for `Plan.bootstrap`.

    Returns
    -------
    Tensor [B, P]
        Of the refits that converged.
    """
    windows.check_single("a bootstrap")
    count = len(windows)
    if not isinstance(repeats, Integral) or repeats < _FEWEST:
        raise InputError(f"a bootstrap needs at least {_FEWEST} repeats; got {repeats!r}")
    if not isinstance(block, Integral) or not 1 <= block <= count // 2:
        raise InputError(
            f"block must be from 1 to half of the {count} windows; got {block!r}: with blocks this "
            f"long there is nothing to draw from"
        )
    random = as_random(seed)
    first = random.integers(count, size=(repeats, -(-count // block)))
    drawn = ((first[..., None] + np.arange(block)) % count).reshape(repeats, -1)[:, :count]
    weights = [torch.from_numpy(np.bincount(row, minlength=count).astype(float)) for row in drawn]
    refit = _Refit(estimate.model, windows, restart(estimate))
    found = in_parallel(refit, weights, jobs=jobs, cluster=cluster, progress=progress)
    thetas = [theta for theta in found if theta is not None]
    if len(thetas) < max(_FEWEST, repeats // 2):
        raise InputError(
            f"{repeats - len(thetas)} of {repeats} refits did not converge: the data are too thin "
            f"for this model, and a bootstrap of it says nothing; take a smaller model"
        )
    return torch.stack(thetas)


@dataclass(frozen=True)
class _Refit:
    """Estimates from weighted windows; None if the refit did not converge."""

    model: Model
    windows: Windows
    start: Tensor

    def __call__(self, weights: Tensor) -> Tensor | None:
        return refitted(self.model, self.windows, self.start, weights)
