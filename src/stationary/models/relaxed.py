"""A parametric chain with room for doubt: ``Q(x, theta) + Q~`` with ``alpha ||Q~||^2``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model, Param, Point
from stationary.models.measures import Measure


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
        self._extra = "extra"
        while self._extra in model._sizes:  # of its own, as batches have and relaxed models
            self._extra += "_"
        super().__init__(
            states=names,
            edges=Edges.from_pairs(pairs + extra, n),
            params={
                **model.declared(),
                self._extra: Param(
                    [initial] * len(extra),
                    per_time=1,
                    labels=[f"extra_{names[i]}_{names[j]}" for i, j in extra],
                ),
            },
            inputs=model.inputs,
            groups=None if model.groups is model.states else model.groups,
        )
        self.arrives_alone = model.arrives_alone
        self.speed = model.speed
        self.alpha = float(alpha)
        self._base = (model,)  # in a tuple: its parameters are ours, not a submodule's

    @property
    def base(self) -> Model:
        """The parametric chain that is relaxed."""
        return self._base[0]

    def rates(self, *args: Any) -> Tensor:
        """Rates of the parametric chain, then those of ``Q~``."""
        *inputs, p = args
        x = torch.cat(inputs, -1)
        theta = torch.cat([getattr(p, name) for name in self.base._sizes], -1)
        known = self.base.edge_rates(x, theta)
        extra = getattr(p, self._extra)
        return torch.cat([known, extra.expand(*known.shape[:-1], -1)], -1)

    def penalty(self, theta: Tensor) -> Tensor | float:
        """``alpha ||Q~||_2^2`` on top of the parametric chain's own penalty."""
        known, extra = self._split(theta)
        return self.base.penalty(known) + self.alpha * extra.square().sum(-1)

    def arrivals(self, point: Point) -> Tensor | None:
        """Those of the parametric chain."""
        return self.base.arrivals(self._below(point))

    @property
    def measures(self) -> tuple[str, ...]:
        """Those of the parametric chain."""
        return self.base.measures

    def measure(self, name: str) -> Measure:
        """Return a measure of the parametric chain, at the steady state of this one."""
        of = self.base.measure(name)
        return replace(of, function=lambda point: of(self._below(point)))

    def _split(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        known = len(self.base.param_names)
        return theta[..., :known], theta[..., known:]

    def _below(self, point: Point) -> Point:
        """Return the parametric chain at a point, with the steady state of this one."""
        return Point(self.base, point.x, self._split(point.theta)[0]).with_pi(point.pi)

    def as_inputs(self, x: Any) -> Tensor:
        """Inputs as the parametric chain takes them."""
        return self.base.as_inputs(x)

    def start(self, x: Tensor) -> Tensor:
        """The parametric chain's start, with ``Q~`` at its present values."""
        return torch.cat([self.base.start(x), self._split(self.theta.detach())[1]])

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

    def changed(self, **options: Any) -> Model:
        """Return the same relaxation of the changed parametric chain."""
        other = Relaxed(self.base.changed(**options), self.alpha)
        if other.param_names != self.param_names:
            raise InputError(
                f"{', '.join(options)} changes which rates there are, and nothing was learnt about "
                f"new ones: fit the other model instead"
            )
        other.set_theta(self.theta)
        return other

    @property
    def options(self) -> dict[str, Any]:
        """Alpha, and the parametric chain's name and options."""
        return {"alpha": self.alpha, "model": {"name": self.base.name, **self.base.options}}
