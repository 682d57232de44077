"""A parametric chain with room for doubt: ``Q(x, theta) + Q~`` with ``alpha ||Q~||^2``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model


class Relaxed(Model):
    """Add a free rate wherever the model has none, at a price ``alpha`` per squared rate.

    Parameters
    ----------
    model : Model
        The parametric chain ``Q``.
    alpha : float
        Strength of the penalty ``alpha ||Q~||_2^2`` (Frobenius, squared, as in the paper's text).
    initial : float
        Present value of every rate of ``Q~``.
    """

    name = "relaxed"

    def __init__(self, model: Model, alpha: float = 100.0, initial: float = 1e-3) -> None:
        if not (alpha > 0 and math.isfinite(alpha)):
            raise InputError(f"alpha must be positive and finite; got {alpha!r}")
        n = model.edges.n
        present = torch.zeros(n, n, dtype=torch.bool)
        present[model.edges.src, model.edges.dst] = True
        extra = [(i, j) for i in range(n) for j in range(n) if i != j and not present[i, j]]
        pairs = list(zip(model.edges.src.tolist(), model.edges.dst.tolist(), strict=True))
        names = model.states
        super().__init__(
            states=names,
            edges=Edges.from_pairs(pairs + extra, n),
            params={
                **model.estimates,
                **{f"extra_{names[i]}_{names[j]}": initial for i, j in extra},
            },
            inputs=model.inputs,
            real=[
                name
                for name, positive in zip(model.param_names, model.positive, strict=True)
                if not positive
            ],
            measures=model.measures,
            groups=None if model.groups is model.states else model.groups,
        )
        self.sees_time_averages = model.sees_time_averages
        self.alpha = float(alpha)
        self._base = (model,)  # in a tuple: its parameters are ours, not a submodule's

    @property
    def base(self) -> Model:
        """The parametric chain that is relaxed."""
        return self._base[0]

    def rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Rates of the parametric chain, then those of ``Q~``."""
        known = len(self.base.param_names)
        return torch.cat([self.base.rates(x, theta[:known]), theta[known:].expand(len(x), -1)], -1)

    def penalty(self, theta: Tensor) -> Tensor | float:
        """``alpha ||Q~||_2^2`` on top of the parametric chain's own penalty."""
        known = len(self.base.param_names)
        return self.base.penalty(theta[:known]) + self.alpha * theta[known:].square().sum()

    def as_inputs(self, x: Any) -> Tensor:
        """Inputs as the parametric chain takes them."""
        return self.base.as_inputs(x)

    def start(self, x: Tensor) -> Tensor:
        """The parametric chain's start, with ``Q~`` at its present values."""
        return torch.cat([self.base.start(x), self.theta.detach()[len(self.base.param_names) :]])

    @property
    def visible(self) -> Sequence[str]:
        """What people count, in the order of the parametric chain."""
        return self.base.visible

    def states_of(self, name: int | str) -> list[int]:
        """States that a name stands for; labels and conditions are the parametric chain's."""
        return self.base.states_of(name)

    def state_index(self, state: int | str) -> int:
        """Position of one state, as the parametric chain names it."""
        return self.base.state_index(state)

    @property
    def changeable(self) -> dict[str, int | float]:
        """Those of the parametric chain."""
        return self.base.changeable

    @property
    def options(self) -> dict[str, Any]:
        """Alpha, and the parametric chain's name and options."""
        return {"alpha": self.alpha, "model": {"name": self.base.name, **self.base.options}}
