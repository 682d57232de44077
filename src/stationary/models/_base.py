"""The model: a map from inputs ``x`` and parameters ``theta`` to the rates of a generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.generator import Generator
from stationary.measures import Measure
from stationary.scales import Scale


class Model(nn.Module, ABC):
    """A parametric continuous-time Markov chain ``Q(x, theta)``.

    A new model declares its states, edges and parameters, and overrides `rates`.

    Parameters
    ----------
    states : sequence of str or int
        Names of the states. A sequence that is no list, tuple or range is kept as it is, so that it
        may make the names of a million states when they are asked for.
    edges : Edges
        Where the chain may move.
    params : mapping
        Parameter names and their present values.
    inputs : sequence of str
        Names of the columns of ``x``; the first is the load.
    real : sequence of str
        Parameters that may take either sign; the others are positive.
    measures : mapping, optional
        Named functionals of the steady state.
    groups : sequence of str or int, optional
        For each state, the name by which people count it: the queue length, for states that also
        say in which phase a server is. States that share one are one category.

    Examples
    --------
    A server that crashes at rate ``load * wear`` and is repaired at rate ``repair``:

    >>> import torch
    >>> from stationary.measures import probability
    >>> class Crashing(Model):
    ...     name = "crashing"
    ...     def __init__(self, wear=0.1, repair=1.0):
    ...         super().__init__(
    ...             states=["up", "down"],
    ...             edges=Edges.from_pairs([(0, 1), (1, 0)], n=2),
    ...             params={"wear": wear, "repair": repair},
    ...             measures={"down": probability(torch.tensor([0.0, 1.0]))},
    ...         )
    ...     def rates(self, x, theta):
    ...         wear, repair = theta
    ...         return torch.stack([x[:, 0] * wear, repair.expand(len(x))], -1)
    >>> Crashing()([[10.0]]).dense()
    tensor([[[-1.,  1.],
             [ 1., -1.]]], dtype=torch.float64, grad_fn=<SubBackward0>)
    """

    name: str = ""
    """What the command line and saved runs call this model; empty if they cannot make it."""

    sees_time_averages: bool = True
    """Whether requests find the system as the clock does: they come alone, and equally often in
    every state. Otherwise counts by arriving requests cannot be fitted."""

    theta: nn.Parameter
    positive: Tensor

    def __init__(
        self,
        *,
        states: Sequence[str | int],
        edges: Edges,
        params: Mapping[str, float],
        inputs: Sequence[str] = ("load",),
        real: Sequence[str] = (),
        measures: Mapping[str, Measure] | None = None,
        groups: Sequence[str | int] | None = None,
    ) -> None:
        super().__init__()
        named_here = isinstance(states, list | tuple | range)
        if named_here:
            states = tuple(map(str, states))
        if len(states) != edges.n or (named_here and len(set(states)) != edges.n):
            raise InputError(
                f"a model on {edges.n} states needs as many different state names; got "
                f"{len(states)}, {len(set(states))} of them different"
            )
        unknown = set(real) - set(params)
        if unknown:
            raise InputError(f"real= names parameters that are not in params: {sorted(unknown)}")
        self.states: Sequence[str] = states  # type: ignore[assignment]
        self.groups: Sequence[str] = self.states if groups is None else tuple(map(str, groups))
        if len(self.groups) != edges.n:
            raise InputError(f"groups= must name {edges.n} states; got {len(self.groups)} names")
        self.edges = edges
        self.inputs = tuple(inputs)
        self.param_names = tuple(params)
        self.measures: dict[str, Measure] = dict(measures or {})
        positive = torch.tensor([name not in real for name in params], dtype=torch.bool)
        self.register_buffer("positive", positive, persistent=False)
        self.theta = nn.Parameter(torch.empty(len(params), dtype=torch.float64))
        self.set_theta(list(params.values()))

    @abstractmethod
    def rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Rates ``[M, E]`` of every edge for inputs ``x [M, d]`` and parameters ``theta [P]``."""

    def generator(self, x: Any, theta: Tensor) -> Generator:
        """Generator of every window for a parameter vector other than the model's own."""
        return Generator(self.edges, self.rates(self.as_inputs(x), theta))

    def forward(self, x: Any) -> Generator:
        """Generator of every window, at the model's own parameters."""
        return self.generator(x, self.theta)

    def penalty(self, theta: Tensor) -> Tensor | float:
        """Regularisation added to the negative log-likelihood; none by default."""
        del theta
        return 0.0

    def start(self, x: Tensor) -> Tensor:
        """Where a fit to windows with inputs ``x`` starts: the model's present parameters."""
        del x
        return self.theta.detach().clone()

    @property
    def options(self) -> dict[str, Any]:
        """Constructor arguments, parameters apart, from which this model can be made again."""
        return {}

    @property
    def changeable(self) -> dict[str, int | float]:
        """Options that a what-if can change, with their present values: those that are numbers."""
        return {
            name: value
            for name, value in self.options.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }

    @property
    def estimates(self) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(self.param_names, self.theta.tolist(), strict=True))

    def set_theta(self, values: Tensor | Sequence[float]) -> None:
        """Set every parameter, in the order of `param_names`."""
        value = torch.as_tensor(values, dtype=torch.float64).detach()
        if value.shape != self.theta.shape:
            raise InputError(
                f"{type(self).__name__} has {len(self.theta)} parameters; got {value.numel()}"
            )
        bad = ~value.isfinite() | (self.positive & (value <= 0))
        if bool(bad.any()):
            k = int(bad.nonzero()[0])
            need = "positive" if bool(self.positive[k]) else "finite"
            raise InputError(
                f"parameter {self.param_names[k]} must be {need}; got {float(value[k]):g}"
            )
        with torch.no_grad():
            self.theta.copy_(value)

    def scale(self) -> Scale:
        """Return the free scale of a fit: logarithms of positive parameters, others as they are."""
        return Scale(self.positive, torch.ones_like(self.theta.detach()))

    def natural(self, z: Tensor) -> Tensor:
        """Parameters from the free scale of a fit: the exponential where they are positive."""
        return self.scale().natural(z)

    def free(self, theta: Tensor) -> Tensor:
        """Parameters on the free scale of a fit: the logarithm where they are positive."""
        return self.scale().free(theta)

    def as_inputs(self, x: Any) -> Tensor:
        """``x`` as a float64 tensor ``[M, d]``; a flat sequence is M windows of one input."""
        if not isinstance(x, Tensor):
            try:
                x = torch.from_numpy(np.array(x, dtype=np.float64))
            except (TypeError, ValueError):
                raise InputError(f"inputs must be numbers, one row a window; got {x!r}") from None
        x = x.to(self.theta)
        if x.ndim == 0:
            x = x[None]
        if x.ndim == 1 and len(self.inputs) == 1:
            x = x[:, None]
        if x.ndim != 2 or x.shape[1] != len(self.inputs):
            raise InputError(
                f"{type(self).__name__} takes {len(self.inputs)} input column(s) "
                f"({', '.join(self.inputs)}); got x of shape {tuple(x.shape)}"
            )
        return x

    @property
    def visible(self) -> Sequence[str]:
        """What people count: the groups of states, or the states where there are none."""
        return self.states if self.groups is self.states else self._different

    @cached_property
    def _different(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.groups))

    @cached_property
    def group_index(self) -> np.ndarray[Any, Any]:
        """For each state, the place in `visible` of what people count it as, ``[n]``."""
        if self.visible is self.states:
            return np.arange(len(self.states))
        place = {name: k for k, name in enumerate(self.visible)}
        return np.fromiter((place[name] for name in self.groups), np.int64, len(self.groups))

    def states_of(self, name: int | str) -> list[int]:
        """Positions of the states a name or number stands for: one state, or all of a group."""
        if str(name) not in self.states and str(name) in self._members:
            return self._members[str(name)].tolist()
        return [self.state_index(name)]

    @cached_property
    def _members(self) -> dict[str, np.ndarray[Any, Any]]:
        """Positions of the states of every group."""
        ends = np.bincount(self.group_index).cumsum()[:-1]
        parts = np.split(self.group_index.argsort(kind="stable"), ends)
        return dict(zip(self.visible, parts, strict=True))

    def state_index(self, state: int | str) -> int:
        """Position of a state given by name, or by index where states are not grouped."""
        grouped = self.groups != self.states
        if (grouped or isinstance(state, str)) and str(state) in self.states:
            return self.states.index(str(state))
        if grouped:
            raise InputError(self._no_state(str(state)))
        whole_number = isinstance(state, int) and not isinstance(state, bool)
        index = int(state) if whole_number or str(state).isdecimal() else -1
        if not 0 <= index < len(self.states):
            raise InputError(
                f"state {state!r} is not in the model: its {len(self.states)} states are "
                f"{self.states[0]}..{self.states[-1]}"
            )
        return index

    def _no_state(self, name: str) -> str:
        # A position would be taken for a queue length, so grouped states go by name only.
        if name in self.groups:
            some = [self.states[k] for k in self.states_of(name)]
            return f"{name!r} is several states of the model: name one of {', '.join(some)}"
        return (
            f"state {name!r} is not in the model: its states are {self.states[0]}.."
            f"{self.states[-1]}, counted as {self.visible[0]}..{self.visible[-1]}"
        )

    def extra_repr(self) -> str:
        """Options and parameters, for ``print(model)``."""
        shown = {**self.options, **(self.estimates if len(self.param_names) <= 6 else {})}
        return ", ".join(
            f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in shown.items()
        )
