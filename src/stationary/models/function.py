"""Chains from a function or from a module of PyTorch, without a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stationary.edges import Edges
from stationary.errors import InputError
from stationary.models._base import Model
from stationary.models._params import Param
from stationary.models._rates import at_ones, shape_of
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
        measures: Mapping[str, Measure] | None = None,
        **declared: Any,
    ) -> None:
        if not callable(rates_fn):
            raise InputError(f"rates_fn must be a function of load and p; got {rates_fn!r}")
        inputs = declared.get("inputs", ("load",))
        try:
            inspect.signature(rates_fn).bind(*inputs, "p")
        except TypeError as error:
            raise InputError(
                f"rates_fn is called with {', '.join(inputs)} and p, but cannot be: {error}"
            ) from None
        except ValueError:  # a function of C, which does not tell what it takes
            pass
        # In a tuple, so that a function that is a module does not become a submodule.
        self._function, self._dense = (rates_fn,), False
        self._own = dict(measures or {})
        super().__init__(states=states, **declared)

    def rates(self, *args: Any) -> Tensor | Mapping[tuple[Any, Any], Tensor]:
        """Call the user's function."""
        found = self._function[0](*args)
        if not self._dense:
            return found
        return _off_diagonal(found, self.edges, "rates_fn must return rates by edge, or of shape")

    def find_edges(self) -> Edges:
        """Those that the function names, or all if it returns a matrix."""
        if isinstance(at_ones(self), Mapping):
            return super().find_edges()
        self._dense = True
        return Edges.complete(len(self.states))


class FromModule(Model):
    """A chain whose rates come from a module of PyTorch, such as a neural network.

    Its parameters are those of the module that need gradients, of any shape: what trains the
    module trains the chain, and what fits the chain trains a copy of the module.

    Parameters
    ----------
    module : Module, or sequence of Module
        It maps inputs ``x [..., d]`` to rates ``[..., E]`` when ``edges`` are given, or
        ``[..., n, n]``, of which the diagonal is ignored. Rates of several modules are joined, in
        their order. It must be in float64, treat every row by itself and draw nothing at random:
        call ``module.double()``, and ``module.eval()`` where there is dropout.
    states : sequence of str or int, or int
        Names of the states, or their number.
    edges : sequence of (int, int) or of (str, str), optional
        Where the chain may move, in the order of the rates.
    inputs, groups, measures
        As for `FromFunction`.

    Examples
    --------
    A server whose speed is an unknown function of the load:

    >>> import torch
    >>> from torch import nn
    >>> class Server(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.speed = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    ...     def forward(self, x):
    ...         return torch.cat([x, self.speed(x / 10).exp()], -1)
    >>> model = FromModule(Server().double(), states=["idle", "busy"], edges=[(0, 1), (1, 0)])
    >>> len(model.param_names)
    13
    >>> model([8.0, 12.0])
    Generator(n=2, edges=2, batch=(2,))
    """

    weights = True

    def __init__(
        self,
        module: nn.Module | Sequence[nn.Module],
        *,
        states: Sequence[str | int] | int,
        edges: Sequence[tuple[Any, Any]] | None = None,
        measures: Mapping[str, Measure] | None = None,
        **declared: Any,
    ) -> None:
        parts = [module] if isinstance(module, nn.Module) else module
        listed = isinstance(parts, Sequence) and len(parts) > 0
        if not listed or not all(isinstance(part, nn.Module) for part in parts):
            raise InputError(f"module must be an nn.Module or a sequence of some; got {module!r}")
        module = parts[0] if len(parts) == 1 else _Joined(parts)
        self._unregistered = (module,)  # a submodule only when the chain is a module itself
        trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not trained:
            raise InputError("the module has no parameter that requires gradients: nothing to fit")
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if tensor.is_floating_point() and tensor.dtype != torch.float64:
                raise InputError(
                    f"{name} of the module is {tensor.dtype}, and rates need float64 (rare states "
                    f"need the digits): call module.double()"
                )
        self._shapes = {name: p.shape for name, p in trained.items()}
        self._own, self._dense = dict(measures or {}), edges is None
        number = states if isinstance(states, int) else len(states)
        super().__init__(
            states=states,
            params={
                name: Param(p.detach().reshape(-1).tolist(), positive=False)
                for name, p in trained.items()
            },
            edges=Edges.complete(number) if edges is None else edges,
            **declared,
        )

    def extra_repr(self) -> str:
        """Sizes, for ``print(model)``; the module is shown below."""
        return f"states={len(self.states)}, edges={len(self.edges)}, weights={len(self.positive)}"

    def _hold_parameters(self) -> None:
        (self.module,) = self._unregistered

    def _trained(self) -> list[nn.Parameter]:
        return [self.module.get_parameter(name) for name in self._shapes]

    @property
    def theta(self) -> Tensor:  # type: ignore[override]
        """The module's parameters in one vector ``[P]``, differentiable."""
        return torch.cat([p.reshape(-1) for p in self._trained()])

    def _keep(self, value: Tensor) -> None:
        for p, part in zip(self._trained(), self._tensors(value).values(), strict=True):
            p.copy_(part)

    def _tensors(self, theta: Tensor) -> dict[str, Tensor]:
        """Parameters ``[P]`` by their name in the module, in their shapes."""
        parts = theta.split([shape.numel() for shape in self._shapes.values()], -1)
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def edge_rates(self, x: Tensor, theta: Tensor) -> Tensor:
        """Rates ``[..., E]`` for inputs ``x [..., d]`` and parameters ``theta [..., P]``."""
        batch = np.broadcast_shapes(x.shape[:-1], theta.shape[:-1])
        lead = theta.shape[:-1]
        while lead and lead[-1] == 1:
            lead = lead[:-1]
        if not lead:
            return self._rates(x.expand(*batch, -1), theta.reshape(-1))
        # Parameters vary along the first axes of the batch only: these are mapped.
        count = len(batch) - (theta.ndim - 1 - len(lead))
        outer, inner = batch[:count], batch[count:]
        rows = theta.reshape(*lead, -1).expand(*outer, -1).reshape(-1, theta.shape[-1])
        inputs = x.expand(*batch, -1).reshape(len(rows), *(inner or (1,)), -1)
        return torch.func.vmap(self._rates)(inputs, rows).reshape(*batch, -1)

    def _rates(self, x: Tensor, theta: Tensor) -> Tensor:
        rates = torch.func.functional_call(self.module, self._tensors(theta), (x,))
        words = f"the module must map inputs {tuple(x.shape)} to rates of shape"
        if self._dense:
            return _off_diagonal(rates, self.edges, words)
        if not isinstance(rates, Tensor) or rates.shape != (*x.shape[:-1], len(self.edges)):
            raise InputError(f"{words} {(*x.shape[:-1], len(self.edges))}; got {shape_of(rates)}")
        return rates


class _Joined(nn.Module):
    """Rates of several modules, one after the other."""

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """Join the rates along the last axis."""
        return torch.cat([part(x) for part in self.parts], -1)


def _off_diagonal(found: Any, edges: Edges, words: str) -> Tensor:
    """Return the rates ``[..., E]`` of a matrix in which every state leads to every other."""
    n = edges.n
    if not isinstance(found, Tensor) or found.shape[-2:] != (n, n):
        raise InputError(f"{words} [..., {n}, {n}] where no edges are given; got {shape_of(found)}")
    return found[..., edges.src, edges.dst]
