"""How far a fit moves when its windows are drawn again: the window and the block bootstrap."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from stationary._support.parallel import Progress, in_parallel
from stationary._support.seeds import as_random
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import Estimate
from stationary.learning.fitting import refitted

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
    """Refit to windows drawn again with replacement; return the parameters of those that converged.

    Where single events are independent, as choices are, these are drawn again in every window.
    Arguments are those of `Plan.bootstrap`.
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
    refit = partial(_refit, estimate, windows)
    samples: Iterable[Windows | Tensor]
    if all(kind.independent for kind in windows.observations):
        samples = [_redrawn(windows, random) for _ in range(repeats)]
    else:
        samples = _weights(count, repeats, block, random)
    found = in_parallel(refit, samples, jobs=jobs, cluster=cluster, progress=progress)
    thetas = [theta for theta in found if theta is not None]
    if len(thetas) < max(_FEWEST, repeats // 2):
        raise InputError(
            f"{repeats - len(thetas)} of {repeats} refits did not converge: the data are too thin "
            f"for this model, and a bootstrap of it says nothing; take a smaller model"
        )
    return torch.stack(thetas)


def _weights(count: int, repeats: int, block: int, random: np.random.Generator) -> list[Tensor]:
    """How often each window is drawn, in every repeat."""
    first = random.integers(count, size=(repeats, -(-count // block)))
    drawn = ((first[..., None] + np.arange(block)) % count).reshape(repeats, -1)[:, :count]
    return [torch.from_numpy(np.bincount(row, minlength=count).astype(float)) for row in drawn]


def _redrawn(windows: Windows, random: np.random.Generator) -> Windows:
    """Windows with as many events in each, drawn again from those that it has."""
    kinds = []
    for kind in windows.observations:
        counts, size = kind.data.numpy(), kind.size.numpy()
        drawn = random.multinomial(size.astype(np.int64), counts / size[:, None])
        kinds.append(kind.with_data(torch.from_numpy(drawn.astype(float))))
    return Windows(windows.x, inputs=windows.inputs, observations=kinds)


def _refit(estimate: Estimate, windows: Windows, sample: Windows | Tensor) -> Tensor | None:
    """Estimates from other or weighted windows; None if the refit did not converge."""
    if isinstance(sample, Windows):
        return refitted(estimate, sample)
    return refitted(estimate, windows, sample)
