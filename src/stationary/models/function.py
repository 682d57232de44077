"""A chain from a function, without a class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models._params import Param
from stationary.models._rates import at_ones
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
        Measures by name; by default the probability of every state.

    Examples
    --------
    A machine with an input each for load and temperature:

    >>> import torch
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
        # In tuples, so that a function that is a module does not become a submodule.
        self._function = (rates_fn,)
        self._own = dict(measures or {})
        self._dense = False
        super().__init__(
            states=range(states) if isinstance(states, int) else states,
            params=params,
            edges=edges,
            inputs=inputs,
            groups=groups,
        )

    def rates(self, *args: Any) -> Tensor | Mapping[tuple[Any, Any], Tensor]:
        """Call the user's function."""
        found = self._function[0](*args)
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

    def find_edges(self) -> Edges:
        """Those that the function names, or all if it returns a matrix."""
        if isinstance(at_ones(self), Mapping):
            return super().find_edges()
        self._dense = True
        return Edges.complete(len(self.states))

    @property
    def measures(self) -> tuple[str, ...]:
        """Those that were given, or the probability of every state."""
        return tuple(self._own) or super().measures

    def measure(self, name: str) -> Measure:
        """Return a measure that was given, or the probability of a state."""
        return self._own[name] if name in self._own else super().measure(name)

    @property
    def changeable(self) -> dict[str, int | float]:
        """Nothing: the function decides what happens, also how many states there are."""
        return {}
