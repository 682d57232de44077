"""Chains that cannot be solved: what they raise, and how others beside them are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.errors import InputError, RateError, ReducibleError, SolverError
from stationary.models import Model
from stationary.models.scales import Scale

UNSOLVABLE = (RateError, ReducibleError, SolverError, InputError)
"""What a chain that cannot be solved raises."""

FAR = 1e12
"""How many times smaller or larger than its estimate a rate may be drawn: beyond, chains fall
apart into pieces."""


def each_solvable(function: Callable[..., Array], width: int, *rows: Any) -> Array:
    """Return ``function(*rows) [N, width]``, NaN in those at which it fails; halves are tried."""
    try:
        return function(*rows)
    except UNSOLVABLE:
        if len(rows[0]) == 1:
            return np.full((1, width), np.nan)
    half = len(rows[0]) // 2
    halves = [row[:half] for row in rows], [row[half:] for row in rows]
    return np.concatenate([each_solvable(function, width, *some) for some in halves])


def within(model: Model, scale: Scale, theta: Tensor) -> Tensor:
    """Keep positive parameters within a huge factor of their estimates."""
    centre = model.theta.detach()
    size = torch.where(scale.log, centre, scale.unit)
    return torch.where(model.positive, theta.clamp(size / FAR, size * FAR), theta)
