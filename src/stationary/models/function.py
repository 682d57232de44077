"""Any chain a differentiable function can write down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.measures import Measure, probability
from stationary.models._base import Model


class FromFunction(Model):
    """A chain whose rates ``f_ij(x, theta)`` come from a differentiable function.

    Parameters
    ----------
    rates_fn : callable
        ``rates_fn(x, theta)`` with ``x [M, d]`` and ``theta`` a mapping from parameter name to
        scalar tensor. Returns off-diagonal rates ``[M, n, n]`` (the diagonal is ignored), or
        ``[M, E]`` when ``edges`` are given.
    states : sequence of str or int, or int
        Names of the states, or their number.
    params : mapping
        Parameter names and where a fit starts.
    edges : sequence of (int, int), optional
        Where the chain may move; every pair by default.
    inputs, real, measures, groups
        As for `Model`; without measures, the probability of every state is one.

    Examples
    --------
    A machine with an input each for load and temperature:

    >>> def rates(x, theta):
    ...     load, warm = x[:, 0], x[:, 1]
    ...     fail = theta["wear"] * load * torch.exp(theta["heat"] * warm)
    ...     return torch.stack([fail, theta["repair"].expand(len(x))], -1)
    >>> model = FromFunction(
    ...     rates, states=["up", "down"], params={"wear": 0.1, "heat": 0.0, "repair": 1.0},
    ...     real=["heat"], edges=[(0, 1), (1, 0)], inputs=["load", "temperature"],
    ... )
    >>> sorted(model.measures)
    ['p_down', 'p_up']
    """

    def __init__(
        self,
        rates_fn: Callable[[Tensor, Mapping[str, Tensor]], Tensor],
        *,
        states: Sequence[str | int] | int,
        params: Mapping[str, float],
        edges: Sequence[tuple[int, int]] | None = None,
        inputs: Sequence[str] = ("load",),
        real: Sequence[str] = (),
        measures: Mapping[str, Measure] | None = None,
        groups: Sequence[str | int] | None = None,
    ) -> None:
        names = range(states) if isinstance(states, int) else states
        n = len(names)
        if measures is None:
            each = torch.eye(n)
            measures = {f"p_{name}": probability(each[k]) for k, name in enumerate(names)}
        super().__init__(
            states=names,
            edges=Edges.complete(n) if edges is None else Edges.from_pairs(edges, n),
            params=params,
            inputs=inputs,
            real=real,
            measures=measures,
            groups=groups,
        )
        self._rates_fn = rates_fn
        self._dense = edges is None

    def rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Call the user's function and check the shape of what it returns."""
        out = self._rates_fn(x, dict(zip(self.param_names, theta, strict=True)))
        n = self.edges.n
        expected = (len(x), n, n) if self._dense else (len(x), len(self.edges))
        if tuple(out.shape) != expected:
            raise InputError(
                f"rates_fn must return shape {expected} for {len(x)} windows; got "
                f"{tuple(out.shape)}"
            )
        return out[:, self.edges.src, self.edges.dst] if self._dense else out
