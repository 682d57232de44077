"""Any chain a differentiable function can write down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model, Param
from stationary.models.measures import Measure


class FromFunction(Model):
    """A chain whose rates come from a differentiable function.

    Parameters
    ----------
    rates_fn : callable
        ``rates_fn(load, p)``, with one argument for each input and then the parameters by name, as
        `Model.rates` takes them: ``load [..., 1]``, ``p.wear [..., 1]``. It returns
        ``{(from, to): rate}`` by names of states, rates ``[..., E]`` when ``edges`` are given, or
        ``[..., n, n]``, of which the diagonal is ignored.
    states : sequence of str or int, or int
        Names of the states, or their number.
    params : mapping
        Parameters by name, each a number (a positive one) or a `Param`.
    edges : sequence of (int, int), optional
        Where the chain may move.
    inputs, groups
        As for `Model`.
    measures : mapping, optional
        Measures by name; without them, the probability of every state is one.

    Examples
    --------
    A machine with an input each for load and temperature:

    >>> def rates(load, warm, p):
    ...     return {("up", "down"): p.wear * load * torch.exp(p.heat * warm),
    ...             ("down", "up"): p.repair}
    >>> model = FromFunction(
    ...     rates, states=["up", "down"], inputs=["load", "temperature"],
    ...     params={"wear": 0.1, "heat": Param(0.0, positive=False), "repair": 1.0},
    ... )
    >>> model.measures
    ('p_up', 'p_down')
    """

    _rates_fn: Callable[..., Tensor | Mapping[tuple[Any, Any], Tensor]]
    _own: dict[str, Measure]
    _dense: bool

    def __init__(
        self,
        rates_fn: Callable[..., Tensor | Mapping[tuple[Any, Any], Tensor]],
        *,
        states: Sequence[str | int] | int,
        params: Mapping[str, float | Param],
        edges: Sequence[tuple[int, int]] | None = None,
        inputs: Sequence[str] = ("load",),
        measures: Mapping[str, Measure] | None = None,
        groups: Sequence[str | int] | None = None,
    ) -> None:
        # Before the base is made, which calls it to find the edges; not as a submodule.
        self.__dict__["_rates_fn"] = rates_fn
        self.__dict__["_own"] = dict(measures or {})
        self.__dict__["_dense"] = False
        super().__init__(
            states=range(states) if isinstance(states, int) else states,
            params=params,
            edges=edges,
            inputs=inputs,
            groups=groups,
        )

    def rates(self, *args: Any) -> Tensor | Mapping[tuple[Any, Any], Tensor]:
        """Call the user's function."""
        found = self._rates_fn(*args)
        if not self._dense:
            return found
        n = len(self.states)
        if not isinstance(found, Tensor) or found.shape[-2:] != (n, n):
            shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"rates_fn must return rates by edge, or of shape [..., {n}, {n}] where no edges "
                f"are given; got {shape}"
            )
        return found[..., self.edges.src, self.edges.dst]

    def _edges_of_rates(self) -> Edges:
        with torch.no_grad():
            ones = torch.ones(len(self.inputs), 1, 1, dtype=torch.float64)
            found = self._rates_fn(*ones, self.named(self.theta))
        if isinstance(found, Mapping):
            return super()._edges_of_rates()
        self._dense = True
        return Edges.complete(len(self.states))

    @property
    def measures(self) -> tuple[str, ...]:
        """Those that were given, or the probability of every state."""
        return tuple(self._own) or super().measures

    @property
    def changeable(self) -> dict[str, int | float]:
        """Nothing: the function decides what happens, also how many states there are."""
        return {}

    def measure(self, name: str) -> Measure:
        """Return a measure that was given, or the probability of a state."""
        return self._own[name] if name in self._own else super().measure(name)
