"""What models of rules and of PRISM have in common: formulas for rates, constants to change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stationary.models._base import Model
from stationary.models._point import Point
from stationary.models.measures import Measure


class FormulaModel(Model):
    """A model that is read from a text; its constants are options that can be changed.

    A subclass sets ``constants``, the formulas of the rates, and the measures.
    """

    constants: Mapping[str, Any]
    _rates: nn.Module
    _measures: Mapping[str, Measure]

    def rates(self, *args: Any) -> Tensor:
        """Rates of every edge, by the formulas of the model."""
        *inputs, p = args
        found: Tensor = self._rates(by_name(self, inputs, p))
        return found

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that follow from the description of the model."""
        return tuple(self._measures)

    def measure(self, name: str) -> Measure:
        """Return a measure by name, or the probability of a state."""
        return self._measures[name] if name in self._measures else super().measure(name)

    @property
    def changeable(self) -> dict[str, int | float]:
        """The constants."""
        return dict(self.constants)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"  # without the formulas inside

    def extra_repr(self) -> str:
        """Inputs, constants and parameters, for ``print(model)``; the text would be too long."""
        shown = {**self.constants, **self.estimates}
        return ", ".join([f"x={','.join(self.inputs)}", *(f"{k}={v:g}" for k, v in shown.items())])


def by_name(model: Model, inputs: Sequence[Tensor], p: Any) -> dict[str, Tensor]:
    """Return inputs and parameters by name, each ``[..., 1]``."""
    return dict(zip(model.inputs, inputs, strict=True)) | vars(p)


def values_at(point: Point) -> dict[str, Tensor]:
    """Return the inputs and parameters of a point by name, each ``[..., 1]``."""
    return by_name(point.model, point.x.split(1, -1), point.p)


@dataclass(frozen=True, eq=False)
class _LongRunMean:
    """The mean of a value per state, which is fixed or depends on inputs and parameters."""

    values: Tensor | nn.Module

    def __call__(self, point: Point) -> Tensor:
        if isinstance(self.values, Tensor):
            return point.pi @ self.values.to(point.pi)
        return point.mean(self.values.to(point.x.device)(values_at(point)))


def long_run_mean(
    values: Any, about: str, low: float = -math.inf, high: float = math.inf
) -> Measure:
    """Return the long-run mean of a value per state, which lies between two bounds.

    ``values`` are fixed, ``[n]``, or a module that computes them from inputs and parameters.
    """
    if not isinstance(values, nn.Module):
        values = torch.from_numpy(np.asarray(values, dtype=np.float64))
    return Measure(_LongRunMean(values), low, high, about)


def mean_of_states(values: NDArray[Any], about: str) -> Measure:
    """Return the long-run mean of fixed values, which lies between the least and the largest."""
    low, high = float(values.min()), float(values.max())
    # An interval needs space around the value, which a constant does not leave.
    ends = (low, high) if low < high else ()
    return long_run_mean(values, about, *ends)
