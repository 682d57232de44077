"""The model: a map from inputs ``x`` and parameters ``theta`` to the rates of a generator.

One rule holds everywhere. Inputs ``x [..., d]`` and parameters ``theta [..., P]`` broadcast on
their leading axes, and every value that a model's author sees ends in an axis of its own:

- ``[P]`` with ``[M, d]``: one set of parameters for all windows, as in a fit;
- ``[B, 1, P]`` with ``[M, d]``: several sets at all windows, as in draws over loads;
- ``[M, P]`` with ``[M, d]``: one set for each window, as in the scores of windows;
- ``[B, 1, P]`` with ``[B, 1, d]``: one set for each load, as in a search for limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from stationary._support.arguments import Checked
from stationary.edges import Edges
from stationary.errors import InputError, did_you_mean
from stationary.generator import Generator
from stationary.models._construction import DECLARED, Constructed, unknown_argument
from stationary.models._params import Param, Parameters, Values, few
from stationary.models._point import Point
from stationary.models._rates import Keys, as_tensor, at_ones, edge_keys, edges_between
from stationary.models._states import NamedStates
from stationary.models.latency.names import time_measure
from stationary.models.measures import Measure, probability
from stationary.models.scales import Scale
from stationary.solvers import Solver


class Model(Checked, NamedStates, nn.Module, metaclass=Constructed):
    """A parametric continuous-time Markov chain ``Q(x, theta)``.

    A new model declares its states and parameters and overrides `rates`. What it declares may be
    attributes of its class, as below, or arguments of this constructor.

    Parameters
    ----------
    states : sequence of str or int
        Names of the states. A sequence that is not a list, tuple or range is kept as it is, so that
        it may make the names of a million states when they are asked for.
    params : mapping
        Parameters by name: a number for a positive one, or a `Param`.
    edges : Edges or sequence of (int, int), optional
        Where the chain may move. Needed if `rates` returns a tensor; otherwise the keys of the
        mapping that it returns are the edges.
    inputs : sequence of str
        Names of the columns of ``x``; the first is the load.
    groups : sequence of str or int, optional
        For each state, the name by which people count it: the queue length, for states that also
        say in which phase a server is. States that share a name are one category.
    **values : float
        Present values of parameters, where they are not those declared.

    Examples
    --------
    A server that crashes at rate ``load * wear`` and is repaired at rate ``repair``:

    >>> class Crashing(Model):
    ...     states = ["up", "down"]
    ...     params = {"wear": 0.1, "repair": 1.0}
    ...     def rates(self, load, p):
    ...         return {("up", "down"): load * p.wear, ("down", "up"): p.repair}
    >>> model = Crashing(wear=0.2)
    >>> model([[10.0]]).dense().detach()
    tensor([[[-2.,  2.],
             [ 1., -1.]]], dtype=torch.float64)
    >>> model.measures
    ('p_up', 'p_down')
    >>> model.measure("p_down")(model.at([5.0, 10.0])).detach()
    tensor([0.5000, 0.6667], dtype=torch.float64)
    """

    name: ClassVar[str] = ""
    """What the command line and saved runs call this model; empty if they cannot make it."""

    speed: Sequence[str] = ("service_rate",)
    """Parameters that a faster server multiplies, if the model has them."""

    encompassing: ClassVar[bool] = False
    """Whether the usual models of a queue are special cases of it: then it answers for them."""

    weights: ClassVar[bool] = False
    """Whether parameters are weights of a network, each without a meaning of its own."""

    seconds_per_state: float = 0.0
    """Time to compute the rates of one chain, about, where that takes longer than to solve it."""

    arrives_alone: bool = True
    """Whether requests arrive one at a time. Requests of one batch see one another, so that counts
    by arriving requests cannot be fitted."""

    states: Sequence[Any]
    params: Mapping[str, float | Param]
    edges: Any = None
    inputs: tuple[str, ...] = ("load",)
    groups: Any = None

    theta: nn.Parameter
    positive: Tensor
    per_time: Tensor
    _given: dict[str, Any]
    _own: Mapping[str, Measure] = MappingProxyType({})
    """Measures that a model has instead of the probabilities of its states."""

    def __init__(
        self,
        *,
        states: Sequence[str | int] | int | None = None,
        params: Mapping[str, float | Param] | None = None,
        edges: Edges | Iterable[tuple[int, int]] | None = None,
        inputs: Sequence[str] | None = None,
        groups: Sequence[str | int] | None = None,
        **values: float | Sequence[float],
    ) -> None:
        super().__init__()
        kind = type(self)
        for name, given in {"states": states, "params": params}.items():
            if given is None and not hasattr(kind, name):
                raise InputError(f"{kind.__name__} must declare its {name}")
        self._name_states(
            kind.states if states is None else states, kind.groups if groups is None else groups
        )
        inputs = self.inputs if inputs is None else inputs
        self.inputs = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        if not len(self.states) or not self.inputs:
            raise InputError(f"{kind.__name__} must have at least one state and one input")
        self._declared = Parameters(kind.params if params is None else params)
        self.param_names: tuple[str, ...] = self._declared.labels
        for name, value in values.items():
            if name not in self._declared.names:
                raise unknown_argument(kind, name, self._declared)
            self._declared.assign(name, value)
        positive = torch.tensor(self._declared.each("positive"), dtype=torch.bool)
        per_time = torch.tensor(self._declared.each("per_time"), dtype=torch.float64)
        self.register_buffer("positive", positive, persistent=False)
        self.register_buffer("per_time", per_time, persistent=False)
        self._hold_parameters()
        self.set_theta(self._declared.values)
        self._keys: Keys | None = None
        edges = kind.edges if edges is None else edges
        if edges is None:
            self.edges = self.find_edges()
        else:
            self.edges = edges if isinstance(edges, Edges) else edges_between(self, edges)
        if self.edges.n != len(self.states):
            raise InputError(
                f"edges are of {self.edges.n} states; the model names {len(self.states)}"
            )

    def rates(self, *args: Any, **kwargs: Any) -> Tensor | Mapping[tuple[Any, Any], Tensor]:
        """Rates of every edge, for any batch of inputs and parameters.

        Called as ``rates(load, p)``, with one argument for each input and then the parameters by
        name. Each of them, as in ``p.service_rate``, is a tensor ``[..., 1]``, or ``[..., k]`` for
        a vector of k parameters.

        Returns
        -------
        Tensor [..., E] or mapping
            One rate for each edge, or ``{(from, to): [..., 1]}`` by names of states, which is
            convenient for up to ten edges.
        """
        raise NotImplementedError(f"{type(self).__name__} must define rates(load, p)")

    def find_edges(self) -> Edges:
        """Where the chain may move, if neither class nor argument says it: the keys of `rates`."""
        self._keys = edge_keys(self, at_ones(self))
        return edges_between(self, self._keys)

    def edge_rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Rates ``[..., E]`` for inputs ``x [..., d]`` and parameters ``theta [..., P]``."""
        inputs = x.split(1, -1) if x.shape[-1] > 1 else (x,)
        # NumPy's function, because the one of torch is slow Python.
        batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
        return as_tensor(self, self.rates(*inputs, self.named(theta)), self._keys, batch)

    def generator(self, x: Tensor, theta: Tensor, index: Tensor | None = None) -> Generator:
        """Generators for inputs ``x [..., d]`` and parameters other than the model's own."""
        return Generator(self.edges, self.edge_rates(x, theta), index=index)

    def forward(self, x: Any) -> Generator:
        """Generator of every window, at the model's own parameters."""
        return self.generator(self.as_inputs(x), self.theta)

    def at(self, x: Any, theta: Tensor | None = None, solver: Solver | None = None) -> Point:
        """Return the model at inputs and parameters, by default its own."""
        return Point(self, self.as_inputs(x), self.theta if theta is None else theta, solver)

    def as_inputs(self, x: Any, least: int = 0) -> Tensor:
        """Return inputs as a float64 tensor ``[..., d]``, checked.

        Parameters
        ----------
        x : sequence, array, mapping or DataFrame
            One row per window. A flat sequence is that many windows of one input; a mapping or a
            DataFrame has a column for each input.
        least : int
            The fewest rows to accept.
        """
        names = self.inputs
        named = isinstance(x, Mapping) or hasattr(x, "columns")
        missing = [name for name in names if named and name not in x]
        if missing:
            raise InputError(f"x needs a column {missing[0]!r}; got {list(x)}")
        if not isinstance(x, Tensor):
            try:
                if named:
                    x = np.column_stack([np.asarray(x[name], dtype=float) for name in names])
                x = torch.from_numpy(np.array(x, dtype=np.float64))
            except (TypeError, ValueError):
                raise InputError(
                    f"inputs must be numbers, as in loads [80, 100, 120]; got {x!r}"
                ) from None
        x = torch.atleast_1d(x.to(self.theta))
        if x.ndim == 1 and len(names) == 1:
            x = x[:, None]
        if len(x) < least:
            raise InputError("x is empty; give the inputs of at least one window")
        if x.ndim < 2 or x.shape[-1] != len(names):
            raise InputError(
                f"{type(self).__name__} takes {len(names)} input column(s) "
                f"({', '.join(names)}); got x of shape {tuple(x.shape)}"
            )
        self.check_inputs(x)
        return x

    def check_inputs(self, x: Tensor) -> None:
        """Raise `InputError` for inputs ``x [..., d]`` that make no sense; by default none."""

    def arrivals(self, point: Point) -> Tensor | None:
        """Requests that arrive per unit time in each state ``[..., n]``; None if equal in all.

        An arriving request sees a state in proportion to the state's probability and to how many
        arrive there. Where this is None, arriving requests see time averages.
        """
        del point
        return None

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that a forecast shows by default; `measure` knows more."""
        return tuple(self._own) or tuple(f"p_{name}" for name in self.visible)

    def measure(self, name: str) -> Measure:
        """Return a functional of the steady state by name; ``p_NAME`` is a state's probability."""
        if name in self._own:
            return self._own[name]
        if isinstance(name, str) and name.startswith("p_"):
            inside = torch.zeros(len(self.states), dtype=torch.float64)
            inside[self.states_of(name.removeprefix("p_"))] = 1.0
            return probability(inside, f"probability of state {name.removeprefix('p_')}")
        times = time_measure(name)
        if times is not None:
            self.check_times(waiting=name.startswith("wait"))
            return times
        raise InputError(
            f"{type(self).__name__} has no measure {name!r}{did_you_mean(str(name), self.measures)}"
        )

    def check_times(self, waiting: bool) -> None:
        """Raise unless the model has response times or, if asked for them, waiting times."""
        method = "waiting_times" if waiting else "response_times"
        if not hasattr(self, method):
            raise InputError(
                f"{type(self).__name__} does not say how a request moves, so it knows no "
                f"{method.replace('_', ' ')}: {self.how_to_say_times}"
            )

    how_to_say_times: ClassVar[str] = (
        "take a queue such as MMmK, write rules with discipline= (RuleModel), or define "
        "response_times(point)"
    )
    """Advice for those who ask for percentiles of a model that has none."""

    def penalty(self, theta: Tensor) -> Tensor | float:
        """Regularisation ``[...]`` added to the negative log-likelihood; none by default."""
        del theta
        return 0.0

    def start(self, x: Tensor) -> Tensor:
        """Where a fit to windows with inputs ``x [M, d]`` starts: the present parameters."""
        del x
        return self.theta.detach().clone()

    def named(self, theta: Tensor) -> Values:
        """Parameters by name, each ``[..., size]``."""
        return self._declared.split(theta)

    def declared(self) -> dict[str, Param]:
        """Parameters as they were declared, at their present values."""
        return self._declared.at(self.theta.detach())

    @property
    def speed_mask(self) -> Tensor:
        """Which entries of ``theta`` a faster server multiplies, ``[P]``."""
        sizes = zip(self._declared.places, self._declared.sizes, strict=True)
        return torch.cat([torch.full((size,), name in self.speed) for name, size in sizes])

    @property
    def estimates(self) -> dict[str, float]:
        """Present value of every parameter, by name."""
        return dict(zip(self.param_names, self.theta.tolist(), strict=True))

    def set_theta(self, values: Tensor | Sequence[float], vanishing: bool = False) -> None:
        """Set every parameter, in the order of `param_names`.

        Positive ones must be so, unless rates may be ``vanishing``, as estimates may.
        """
        value = torch.as_tensor(values, dtype=torch.float64).detach()
        if value.shape != self.theta.shape:
            raise InputError(
                f"{type(self).__name__} has {len(self.theta)} parameters; got {value.numel()}"
            )
        least = value < 0 if vanishing else value <= 0
        bad = ~value.isfinite() | (self.positive & least)
        if bool(bad.any()):
            k = int(bad.nonzero()[0])
            need = "positive" if bool(self.positive[k]) else "finite"
            raise InputError(
                f"parameter {self.param_names[k]} must be {need}; got {float(value[k]):g}"
            )
        with torch.no_grad():
            self._keep(value)

    def _hold_parameters(self) -> None:
        """Make the tensor that holds the parameters."""
        self.theta = nn.Parameter(torch.empty(len(self.param_names), dtype=torch.float64))

    def _keep(self, value: Tensor) -> None:
        """Copy parameters ``[P]`` to where the model has them."""
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

    @property
    def options(self) -> dict[str, Any]:
        """Constructor arguments from which this model can be made again.

        Of the parameters, those that only some models of the class have.
        """
        usual = getattr(type(self), "params", self._declared.names)
        found: dict[str, Any] = {}
        for name, value in self._given.items():
            if name in self._declared.names:
                found |= {} if name in usual else {name: self.estimates[name]}
            elif value is not None:  # as the model understood it: capacity=20.0 is 20
                found[name] = value if name in DECLARED else self.__dict__.get(name, value)
        return found

    @property
    def changeable(self) -> dict[str, int | float]:
        """Options that a what-if can change, with their present values: those that are numbers."""
        return {
            name: value
            for name, value in self.options.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
            if name not in (*DECLARED, *self._declared.names)
        }

    def changed(self, **options: Any) -> Model:
        """Return the same model with other options and these parameters."""
        return self._give_parameters(type(self)(**{**self._given, **options}), options)

    def _give_parameters(self, other: Model, options: Mapping[str, Any]) -> Model:
        if other.param_names != self.param_names:
            raise InputError(
                f"{', '.join(f'{k}={v}' for k, v in options.items())} changes which parameters "
                f"there are, from {', '.join(few(self.param_names))} to "
                f"{', '.join(few(other.param_names))}, and nothing was learnt about new ones: fit "
                f"the other model instead"
            )
        other.set_theta(self.theta)
        return other

    def extra_repr(self) -> str:
        """Options and parameters, for ``print(model)``."""
        shown = {**self.options, **(self.estimates if len(self.param_names) <= 6 else {})}
        return ", ".join(
            f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in shown.items()
        )
