"""The model: a map from inputs ``x`` and parameters ``theta`` to the rates of a generator.

One rule holds everywhere. Inputs ``x [..., d]`` and parameters ``theta [..., P]`` broadcast on
their leading axes, and every value that a model's author sees ends in an axis of its own:

- ``[P]`` with ``[M, d]``: one set of parameters for all windows, as in a fit;
- ``[B, 1, P]`` with ``[M, d]``: several sets at all windows, as in draws over loads;
- ``[M, P]`` with ``[M, d]``: one set for each window, as in the scores of windows;
- ``[B, 1, P]`` with ``[B, 1, d]``: one set for each load, as in a search for limits.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from stationary.edges import Edges
from stationary.errors import InputError, did_you_mean
from stationary.generator import Generator
from stationary.gradients import Gradient
from stationary.models.measures import Measure, probability
from stationary.models.scales import Scale
from stationary.solvers import Solver
from stationary.steady import steady_state

_MOST_CHECKED = 10_000
"""Edges up to which a new model's rates are tried on a batch."""

_DECLARED = ("states", "params", "edges", "inputs", "groups", "measures")
"""Arguments of which a model makes an attribute of the same name that is something else."""


@dataclass(frozen=True)
class Param:
    """A parameter, or a vector of parameters of one kind.

    Parameters
    ----------
    value : float or sequence of float
        Present value, or values.
    positive : bool
        Whether it must be positive; otherwise it may take either sign.
    per_time : int
        1 for a rate, -1 for a time, 0 for a plain number: what happens to it when the unit of time
        changes.
    labels : sequence of str, optional
        Names of the entries of a vector; by default the parameter's name with ``_0``, ``_1``, ...
    """

    value: float | Sequence[float]
    positive: bool = True
    per_time: int = 0
    labels: Sequence[str] | None = None


class _Made(ABCMeta):
    """Lets a model see its own construction: the arguments are kept and the rates are tried."""

    @property
    def __signature__(cls) -> inspect.Signature:
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        model = super().__call__(*args, **kwargs)
        bound = inspect.signature(cls).bind(*args, **kwargs)
        bound.apply_defaults()
        given: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            given |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        model._given = given
        model._try_rates()
        return model


class Model(nn.Module, metaclass=_Made):
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
        Where the chain may move, needed if `rates` returns a tensor. Otherwise the keys of the
        mapping that it returns say it.
    inputs : sequence of str
        Names of the columns of ``x``; the first is the load.
    groups : sequence of str or int, optional
        For each state, the name by which people count it: the queue length, for states that also
        say in which phase a server is. States that share one are one category.
    **values : float
        Other present values of parameters.

    Examples
    --------
    A server that crashes at rate ``load * wear`` and is repaired at rate ``repair``:

    >>> class Crashing(Model):
    ...     states = ["up", "down"]
    ...     params = {"wear": 0.1, "repair": 1.0}
    ...     def rates(self, load, p):
    ...         return {("up", "down"): load * p.wear, ("down", "up"): p.repair}
    >>> Crashing(wear=0.2)([[10.0]]).dense().detach()
    tensor([[[-2.,  2.],
             [ 1., -1.]]], dtype=torch.float64)
    >>> Crashing().measures
    ('p_up', 'p_down')
    """

    name: ClassVar[str] = ""
    """What the command line and saved runs call this model; empty if they cannot make it."""

    speed: Sequence[str] = ("service_rate",)
    """Parameters that a faster server multiplies, as far as the model has them."""

    arrives_alone: bool = True
    """Whether requests arrive one at a time. Those of a batch find one another, so that counts by
    arriving requests cannot be fitted."""

    states: Sequence[Any]
    params: Mapping[str, float | Param]
    edges: Any = None
    inputs: tuple[str, ...] = ("load",)
    groups: Any = None

    theta: nn.Parameter
    positive: Tensor
    per_time: Tensor
    _given: dict[str, Any]

    def __init__(
        self,
        *,
        states: Sequence[str | int] | None = None,
        params: Mapping[str, float | Param] | None = None,
        edges: Edges | Iterable[tuple[int, int]] | None = None,
        inputs: Sequence[str] | None = None,
        groups: Sequence[str | int] | None = None,
        **values: float | Sequence[float],
    ) -> None:
        super().__init__()
        self.states = self._named_states(self._declared("states", states))
        self.inputs = tuple(self.inputs if inputs is None else inputs)
        declared = _params(self._declared("params", params))
        self._params = declared
        self._sizes = {
            name: 1 if isinstance(p.value, int | float) else len(p.value)
            for name, p in declared.items()
        }
        self.param_names: tuple[str, ...] = tuple(
            label for name, p in declared.items() for label in _labels(name, p)
        )
        if len(set(self.param_names)) < len(self.param_names):
            raise InputError(f"two parameters have the same name: {', '.join(self.param_names)}")
        each = [(p, k) for name, p in declared.items() for k in range(self._sizes[name])]
        start = [p.value if isinstance(p.value, int | float) else p.value[k] for p, k in each]
        positive = torch.tensor([p.positive for p, _ in each], dtype=torch.bool)
        per_time = torch.tensor([p.per_time for p, _ in each], dtype=torch.float64)
        self.register_buffer("positive", positive, persistent=False)
        self.register_buffer("per_time", per_time, persistent=False)
        place = dict(zip(self._sizes, np.cumsum([0, *self._sizes.values()]), strict=False))
        for name, value in values.items():
            if name not in self.param_names and name not in place:
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; it has "
                    f"{', '.join(self.param_names)}"
                )
            many: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
            first = self.param_names.index(name) if name in self.param_names else place[name]
            if not all(isinstance(v, Real) for v in many) or (
                len(many) != (1 if name in self.param_names else self._sizes[name])
            ):
                raise InputError(f"parameter {name!r} must be a number; got {value!r}")
            start[first : first + len(many)] = many
        self.theta = nn.Parameter(torch.empty(len(start), dtype=torch.float64))
        self.set_theta(start)
        groups = type(self).groups if groups is None else groups
        n = len(self.states)
        self.groups: Sequence[str] = self.states if groups is None else tuple(map(str, groups))
        if len(self.groups) != n:
            raise InputError(f"groups= must name {n} states; got {len(self.groups)} names")
        edges = type(self).edges if edges is None else edges
        self.edges = self._edges_of_rates() if edges is None else edges
        if not isinstance(self.edges, Edges):
            pairs = [(self._place(i), self._place(j)) for i, j in self.edges]
            self.edges = Edges.from_pairs(pairs, n)
        if self.edges.n != n:
            raise InputError(f"edges are of {self.edges.n} states; the model names {n}")

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

    def declared(self) -> dict[str, Param]:
        """Parameters as they were declared, at their present values."""
        found, place = {}, 0
        for name, size in self._sizes.items():
            part = slice(place, place + size)
            value, labels = self.theta[part].tolist(), self.param_names[part]
            found[name] = replace(self._params[name], value=value, labels=labels)
            place += size
        return found

    def named(self, theta: Tensor) -> SimpleNamespace:
        """Parameters by name, each ``[..., size]``."""
        sizes = tuple(self._sizes.values())
        parts = theta.split(sizes, -1) if len(sizes) > 1 else (theta,) * len(sizes)
        return Values(**dict(zip(self._sizes, parts, strict=True)))

    def edge_rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Rates ``[..., E]`` for inputs ``x [..., d]`` and parameters ``theta [..., P]``."""
        inputs = x.split(1, -1) if x.shape[-1] > 1 else (x,)
        found = self.rates(*inputs, self.named(theta))
        # numpy's, because torch's own is slow Python.
        batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
        if isinstance(found, Mapping):
            found = torch.cat([rate.expand(*batch, 1) for rate in self._in_order(found)], -1)
        if not isinstance(found, Tensor):
            raise InputError(
                f"rates of {type(self).__name__} must be a tensor [..., edges] or rates by edge; "
                f"got {type(found).__name__}"
            )
        if found.shape[-1:] != (len(self.edges),):
            raise InputError(
                f"rates of {type(self).__name__} must end in an axis of {len(self.edges)} edges; "
                f"got shape {tuple(found.shape)}"
            )
        return found if found.shape[:-1] == batch else found.expand(*batch, len(self.edges))

    def generator(self, x: Tensor, theta: Tensor, index: Tensor | None = None) -> Generator:
        """Generators for inputs ``x [..., d]`` and parameters other than the model's own."""
        return Generator(self.edges, self.edge_rates(x, theta), index=index)

    def forward(self, x: Any) -> Generator:
        """Generator of every window, at the model's own parameters."""
        return self.generator(self.as_inputs(x), self.theta)

    def at(self, x: Any, theta: Tensor | None = None, solver: Solver | None = None) -> Point:
        """Return the model at inputs and parameters, by default its own."""
        return Point(self, self.as_inputs(x), self.theta if theta is None else theta, solver)

    def arrivals(self, point: Point) -> Tensor | None:
        """Requests that arrive per unit time in each state ``[..., n]``; None if equal in all.

        A request finds the system in a state in proportion to the state's probability and to how
        many arrive there. They see time averages where this is None.
        """
        del point
        return None

    @property
    def measures(self) -> tuple[str, ...]:
        """Measures that a forecast shows by default; `measure` knows more."""
        return tuple(f"p_{name}" for name in self.visible)

    def measure(self, name: str) -> Measure:
        """Return a functional of the steady state by name; ``p_NAME`` is a state's probability."""
        if isinstance(name, str) and name.startswith("p_"):
            inside = torch.zeros(len(self.states), dtype=torch.float64)
            inside[self.states_of(name.removeprefix("p_"))] = 1.0
            return probability(inside, f"probability of state {name.removeprefix('p_')}")
        raise InputError(
            f"{type(self).__name__} has no measure {name!r}{did_you_mean(str(name), self.measures)}"
        )

    def penalty(self, theta: Tensor) -> Tensor | float:
        """Regularisation ``[...]`` added to the negative log-likelihood; none by default."""
        del theta
        return 0.0

    def start(self, x: Tensor) -> Tensor:
        """Where a fit to windows with inputs ``x [M, d]`` starts: the present parameters."""
        del x
        return self.theta.detach().clone()

    @property
    def options(self) -> dict[str, Any]:
        """Constructor arguments, parameters apart, from which this model can be made again."""
        return {
            # As the model understood it: capacity=20.0 is 20.
            name: value if name in _DECLARED else self.__dict__.get(name, value)
            for name, value in self._given.items()
            if name not in self.param_names and value is not None
        }

    @property
    def changeable(self) -> dict[str, int | float]:
        """Options that a what-if can change, with their present values: those that are numbers."""
        return {
            name: value
            for name, value in self.options.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }

    def changed(self, **options: Any) -> Model:
        """Return the same model with other options and these parameters."""
        other = type(self)(**{**self._given, **options})
        if other.param_names != self.param_names:
            raise InputError(
                f"{', '.join(f'{k}={v}' for k, v in options.items())} changes which parameters "
                f"there are, from {_few(self)} to {_few(other)}, and nothing was learnt about new "
                f"ones: fit the other model instead"
            )
        other.set_theta(self.theta)
        return other

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
        """``x`` as a float64 tensor ``[..., d]``; a flat sequence is M windows of one input."""
        if not isinstance(x, Tensor):
            try:
                x = torch.from_numpy(np.array(x, dtype=np.float64))
            except (TypeError, ValueError):
                raise InputError(f"inputs must be numbers, one row per window; got {x!r}") from None
        x = x.to(self.theta)
        if x.ndim == 0:
            x = x[None]
        if x.ndim == 1 and len(self.inputs) == 1:
            x = x[:, None]
        if x.ndim < 2 or x.shape[-1] != len(self.inputs):
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

    def _place(self, state: Any) -> int:
        """Position of a state in an edge: a number is one, a name is looked up."""
        return self.state_index(state) if isinstance(state, str) else int(state)

    def _declared(self, name: str, given: Any) -> Any:
        found = getattr(type(self), name, None) if given is None else given
        if found is None:
            raise InputError(f"{type(self).__name__} must declare its {name}")
        return found

    def _named_states(self, states: Sequence[str | int]) -> Sequence[str]:
        if not isinstance(states, list | tuple | range):
            return states  # type: ignore[return-value]  # makes its names when they are asked for
        names = tuple(map(str, states))
        if len(set(names)) != len(names):
            raise InputError(
                f"a model needs different names of its states; got {len(names)}, "
                f"{len(set(names))} of them different"
            )
        return names

    def _edges_of_rates(self) -> Edges:
        """Edges by one call of `rates`, which must name them."""
        with torch.no_grad():
            ones = torch.ones(len(self.inputs), 1, 1, dtype=torch.float64)
            found = self.rates(*ones, self.named(self.theta))
        if not isinstance(found, Mapping):
            raise InputError(
                f"{type(self).__name__} must declare its edges, or return rates by edge, as in "
                f"{{({self.states[0]!r}, {self.states[-1]!r}): load}}"
            )
        for key in found:
            if not isinstance(key, tuple) or len(key) != 2:
                raise InputError(
                    f"rates of {type(self).__name__} are by edge, as in ('up', 'down'); got {key!r}"
                )
        self._keys = tuple(found)
        pairs = [(self.state_index(i), self.state_index(j)) for i, j in found]
        return Edges.from_pairs(pairs, len(self.states))

    def _in_order(self, found: Mapping[tuple[Any, Any], Tensor]) -> list[Tensor]:
        keys = getattr(self, "_keys", None)
        if keys is None or tuple(found) != keys:
            raise InputError(
                f"rates of {type(self).__name__} must name the same edges at all inputs and "
                f"parameters, in one order; got {list(found)}, before {keys}"
            )
        rates = [torch.as_tensor(rate, dtype=torch.float64) for rate in found.values()]
        for (source, target), rate in zip(found, rates, strict=True):
            if rate.ndim and rate.shape[-1] != 1:
                raise InputError(
                    f"the rate from {source!r} to {target!r} of {type(self).__name__} must end in "
                    f"an axis of one entry, as load and parameters do; got {tuple(rate.shape)}"
                )
        return rates

    def _try_rates(self) -> None:
        """Raise unless `rates` treats every row of a batch as it treats it alone."""
        if len(self.edges) > _MOST_CHECKED:
            return
        base, theta = self.theta.detach(), []
        for k in range(2):
            theta.append(torch.where(self.positive, base * (1 + k / 8), base + k / 8))
        x = torch.tensor([[0.75], [1.0], [1.5]], dtype=torch.float64)
        x = x.expand(-1, len(self.inputs))
        with torch.no_grad():
            alone = [[self.edge_rates(row[None], t)[0] for row in x] for t in theta]
            try:
                batch = self.edge_rates(x, torch.stack(theta)[:, None])
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                raise InputError(f"{_no_batches(self)}: {error}") from error
        expected = torch.stack([torch.stack(rows) for rows in alone])
        if not torch.allclose(batch, expected, rtol=1e-9, atol=0.0, equal_nan=True):
            raise InputError(_no_batches(self))


class Values(SimpleNamespace):
    """Parameters by name; a name that is none of them gets a sentence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(f"there is no parameter {name!r}; there are {', '.join(vars(self))}")


class Point:
    """A model at inputs and parameters: what observations and measures read.

    Attributes
    ----------
    model : Model
        The chain.
    x : Tensor [..., d]
        Inputs, checked by `Model.as_inputs`.
    theta : Tensor [..., P]
        Parameters.
    """

    def __init__(
        self,
        model: Model,
        x: Tensor,
        theta: Tensor,
        solver: Solver | None = None,
        gradient: Gradient | None = None,
        index: Tensor | None = None,
    ) -> None:
        self.model, self.x, self.theta = model, x, theta
        self._how = solver, gradient, index

    @property
    def load(self) -> Tensor:
        """The first input, ``[..., 1]``."""
        return self.x[..., :1]

    @cached_property
    def p(self) -> SimpleNamespace:
        """Parameters by name, each ``[..., size]``."""
        return self.model.named(self.theta)

    @cached_property
    def pi(self) -> Tensor:
        """Steady states ``[..., n]``, solved when first asked for."""
        solver, gradient, index = self._how
        generator = self.model.generator(self.x, self.theta, index)
        return steady_state(generator, solver, gradient).pi

    def with_pi(self, pi: Tensor) -> Point:
        """Return the same point with steady states that were found elsewhere."""
        other = Point(self.model, self.x, self.theta)
        other.__dict__["pi"] = pi
        return other

    def mean(self, per_state: Tensor) -> Tensor:
        """Long-run mean ``[...]`` of what is worth ``[..., n]`` in each state."""
        return (self.pi * per_state).sum(-1)


def _params(given: Any) -> dict[str, Param]:
    if not isinstance(given, Mapping):
        raise InputError(
            f"params must give parameters by name, as in {{'wear': 0.1}}; got {given!r}"
        )
    found = {
        name: value if isinstance(value, Param) else Param(value) for name, value in given.items()
    }
    for name, param in found.items():
        values = [param.value] if isinstance(param.value, int | float) else param.value
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise InputError(
                f"parameter {name!r} must be a number or a Param(...); got {param.value!r}"
            )
    return found


def _labels(name: str, param: Param) -> Sequence[str]:
    if isinstance(param.value, int | float):
        return (name,)
    labels = param.labels or [f"{name}_{k}" for k in range(len(param.value))]
    if len(labels) != len(param.value):
        raise InputError(
            f"parameter {name!r} has {len(param.value)} values and {len(labels)} labels"
        )
    return labels


def _few(model: Model) -> str:
    names = model.param_names
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, ..., {names[-1]}"


def _no_batches(model: Model) -> str:
    return (
        f"rates of {type(model).__name__} must take any batch of inputs and parameters, and treat "
        f"each row by itself; use operations along the last axis only, no .item() and no 'if' on "
        f"values (torch.where chooses)"
    )
