r"""What the windows counted against what the fitted model says, which every check reads.

With counts ``y_wc`` of window w, their sum ``n_w`` and the model's probability ``p_wc`` of category
c given that one of the observed ones is seen, the excess ``y_wc - n_w p_wc`` has mean zero where
the model is right, however short the window, and whatever correlates the counts inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data.losses import ObservationMap
from stationary.data.states import States
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import Estimate
from stationary.models import Model, Point, Queue
from stationary.models.chunks import steady_states
from stationary.trust.outside import as_logged

FEWEST = 8
"""Windows below which no check says anything."""

_TINY = 1e-290


@dataclass(frozen=True, eq=False)
class Residuals:
    """Counts and predictions of every window that counted states, in recorded order."""

    position: Array  # [M]: place of each window among all of them
    x: Array  # [M, d]: inputs, the load first
    counts: Array  # [M, C]: of the observed categories
    predicted: Array  # [M, C]: the model's share of every category among the observed ones
    seen: Array  # [M]: the model's probability that the system is in an observed category at all
    duration: Array | None  # [M]: how long each window lasted, in the unit of time of the loads
    depth: Array  # [C]: place of each category, from 0, in order of how full the system is
    labels: tuple[str, ...]  # of the categories
    unit: str  # what a step in depth is: requests or categories

    @classmethod
    def of(cls, estimate: Estimate, windows: Windows) -> Residuals:
        """Residuals of a fitted model on windows; at least one of them must have counts."""
        counted = windows.counted
        if counted is None:
            raise InputError("residuals are of counts, and these windows have none")
        kind, model = counted.on(estimate.model), estimate.model
        # A window may have seen other things than this kind counts.
        rows = has_counts(windows)
        x = windows.x[rows]
        distinct, where = torch.unique(x, dim=0, return_inverse=True)
        point = Point(model, model.as_inputs(distinct), estimate.theta)
        point = as_logged(point.with_pi(steady_states(model, distinct)), windows)
        seen = torch.ones(len(distinct), dtype=torch.float64)
        depth, unit = np.arange(kind.data.shape[1], dtype=float), "categories"
        if isinstance(kind, States):
            found = kind.state_weights(point)
            seen = kind.map.of(found).sum(-1) / found.sum(-1)
            depth, unit = _depth(model, kind.map)
        lasted = windows.duration
        return cls(
            position=rows.nonzero()[:, 0].numpy(),
            x=x.numpy(),
            counts=kind.data[rows].numpy(),
            predicted=kind.probabilities(point)[where].numpy(),
            seen=seen[where].numpy(),
            duration=None if lasted is None else lasted[rows].numpy(),
            depth=depth,
            labels=kind.labels,
            unit=unit,
        )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def loads(self) -> Array:
        """The first input of every window ``[M]``."""
        return self.x[:, 0]

    @cached_property
    def totals(self) -> Array:
        """Counts of every window ``[M]``."""
        totals: Array = self.counts.sum(1)
        return totals

    @cached_property
    def excess(self) -> Array:
        """Counts less what the model expects of as many, ``[M, C]``."""
        return self.counts - self.totals[:, None] * self.predicted

    @cached_property
    def observed(self) -> Array:
        """Share of every category in every window ``[M, C]``."""
        return self.counts / self.totals[:, None]

    @cached_property
    def standardised(self) -> Array:
        """Residual shares in units of their spread from window to window, ``[M, C]``.

        The spread goes with the binomial one, times a factor for each category that is estimated
        over windows: counts inside a window are correlated. The factor is at least 1, that of
        independent counts, because a category that was hardly seen shows no spread.
        """
        variance = self.totals[:, None] * self.predicted * (1 - self.predicted)
        return _scaled(self.excess / np.sqrt(np.maximum(variance, _TINY)), least=1.0)

    @cached_property
    def shift(self) -> Array:
        """Mean observed depth of every window less what the model says, ``[M]``."""
        shift: Array = (self.observed - self.predicted) @ self.depth
        return shift

    @cached_property
    def standardised_shift(self) -> Array:
        """The same in units of its spread from window to window, ``[M]``."""
        mean = self.predicted @ self.depth
        variance = self.predicted @ self.depth**2 - mean**2
        spread = np.sqrt(np.maximum(variance, _TINY) / self.totals)
        return _scaled(self.shift / spread)


def residuals(estimate: Estimate, windows: Windows) -> pd.DataFrame:
    """Observed and predicted share of every category in every window, one row each.

    Columns are the ``position`` of the window in recorded order, its inputs by name, ``category``,
    ``observed`` and ``predicted`` share, and the ``standardised`` residual: their difference in
    units of its spread from window to window, NaN for a single window.
    """
    found = Residuals.of(estimate, windows)
    categories = found.counts.shape[1]
    inputs = {name: found.x[:, k].repeat(categories) for k, name in enumerate(windows.inputs)}
    return pd.DataFrame(
        {
            "position": found.position.repeat(categories),
            **inputs,
            "category": np.tile(np.array(found.labels, dtype=object), len(found)),
            "observed": found.observed.ravel(),
            "predicted": found.predicted.ravel(),
            "standardised": found.standardised.ravel(),
        }
    )


def has_counts(windows: Windows) -> Tensor:
    """Which windows counted anything, ``[M]``."""
    counted = windows.counted
    return torch.zeros(len(windows), dtype=torch.bool) if counted is None else counted.size > 0


def _scaled(values: Array, least: float = 0.0) -> Array:
    """Values in units of their spread about their mean, not about zero: a bias must show."""
    if len(values) < 2:
        return np.full_like(values, np.nan)
    return values / np.maximum(values.std(0, ddof=1), max(least, _TINY))


def _depth(model: Model, observation: ObservationMap) -> tuple[Array, str]:
    level = model.levels.double().cpu() if isinstance(model, Queue) else _levels(model)
    mean = (observation.of(level) / observation.of(torch.ones_like(level))).numpy()
    depth = np.unique(mean, return_inverse=True)[1] * 1.0
    if not depth.any():  # only the phases of one queue length: their order will have to do
        depth = np.arange(len(mean), dtype=float)
    lengths = isinstance(model, Queue) and np.allclose(mean - mean.min(), depth)
    return depth, "requests" if lengths else "categories"


def _levels(model: Model) -> Tensor:
    """What people count in every state where it is a number, otherwise the state's position."""
    if model.visible is not model.states:
        try:
            values = torch.tensor([float(name) for name in model.visible], dtype=torch.float64)
        except ValueError:
            pass
        else:
            if bool(values.isfinite().all()):
                return values[torch.from_numpy(model.group_index)]
    return torch.arange(len(model.states), dtype=torch.float64)
