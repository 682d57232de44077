"""A parametric chain with free rates added: ``Q(x, theta) + Q~``, penalised by ``||Q~||^2``."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models._params import rate
from stationary.models._point import Point
from stationary.models._rates import join_rates
from stationary.models.latency import Times
from stationary.models.measures import Measure


def _of_base(name: str) -> property:
    return property(lambda model: getattr(model.base, name))


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

    Examples
    --------
    >>> import stationary as st
    >>> Relaxed(st.models.MMmK(capacity=2), alpha=10.0).param_names
    ('service_rate', 'extra_0_2', 'extra_2_0')
    """

    name = "relaxed"

    def __init__(self, model: Model, alpha: float = 100.0, initial: float = 1e-3) -> None:
        if not isinstance(model, Model):
            raise InputError(f"model must be one such as MMmK(capacity=20); got {model!r}")
        if not (isinstance(alpha, int | float) and alpha > 0 and math.isfinite(alpha)):
            raise InputError(f"alpha must be positive and finite; got {alpha!r}")
        known, names = model.edges, model.states
        free = ~torch.eye(known.n, dtype=torch.bool)
        free[known.src, known.dst] = False
        src, dst = free.nonzero().T
        labels = [f"extra_{names[i]}_{names[j]}" for i, j in free.nonzero().tolist()]
        declared = model.declared()
        extra = "extra"
        while extra in declared:  # the model may have a parameter of that name
            extra += "_"
        super().__init__(
            states=names,
            edges=Edges(torch.cat([known.src, src]), torch.cat([known.dst, dst]), known.n),
            params={**declared, extra: rate([initial] * len(labels), labels)},
            inputs=model.inputs,
            groups=None if model.groups is names else model.groups,
        )
        self.arrives_alone = model.arrives_alone
        self.speed = model.speed
        self.alpha = float(alpha)
        self._base = (model,)  # in a tuple: its parameters are ours, not a submodule's

    @property
    def base(self) -> Model:
        """The parametric chain that is relaxed."""
        return self._base[0]

    def edge_rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Rates of the parametric chain, then those of ``Q~``."""
        known, extra = self._split(theta)
        return join_rates(self.base.edge_rates(x, known), extra)

    def penalty(self, theta: Tensor) -> Tensor | float:
        """``alpha ||Q~||_2^2`` on top of the parametric chain's own penalty."""
        known, extra = self._split(theta)
        return self.base.penalty(known) + self.alpha * extra.square().sum(-1)

    def start(self, x: Tensor) -> Tensor:
        """The parametric chain's start, with ``Q~`` at its present values."""
        return torch.cat([self.base.start(x), self._split(self.theta.detach())[1]])

    def _split(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        known = len(self.base.param_names)
        return theta[..., :known], theta[..., known:]

    def _at_base(self, point: Point) -> Point:
        """Return the parametric chain at a point, with the steady state of this one."""
        return Point(self.base, point.x, self._split(point.theta)[0]).with_pi(point.pi)

    def arrivals(self, point: Point) -> Tensor | None:
        """Those of the parametric chain."""
        return self.base.arrivals(self._at_base(point))

    def measure(self, name: str) -> Measure:
        """Return a measure of the parametric chain, at the steady state of this one."""
        of = self.base.measure(name)
        return replace(of, function=lambda point: of(self._at_base(point)))

    def response_times(self, point: Point) -> Times:
        """Those of the parametric chain, by what requests find in this one."""
        base: Any = self.base
        times: Times = base.response_times(self._at_base(point))
        return times

    # States, inputs and options are those of the parametric chain.
    measures: Any = _of_base("measures")
    check_inputs: Any = _of_base("check_inputs")
    visible: Any = _of_base("visible")
    states_of: Any = _of_base("states_of")
    state_index: Any = _of_base("state_index")
    changeable: Any = _of_base("changeable")

    @property
    def options(self) -> dict[str, Any]:
        """Alpha, and the parametric chain's name and options."""
        return {"alpha": self.alpha, "model": {"name": self.base.name, **self.base.options}}

    def changed(self, **options: Any) -> Model:
        """Return the same relaxation of the changed parametric chain."""
        other = Relaxed(self.base.changed(**options), self.alpha)
        return self._give_parameters(other, options)
