"""What a fit minimises, as a function of the free parameters: value, gradient, Hessian.

A fit moves ``z``, the logarithm of every positive parameter and the others as they are, so that no
step can leave the parameter space and a unit step means the same for every rate.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stationary.chunks import in_parts, is_large, probabilities
from stationary.data.windows import Windows
from stationary.derivatives import by_input
from stationary.losses import conditional_nll, conditional_probabilities, nll_and_gradient
from stationary.models import Model
from stationary.scales import Scale
from stationary.solvers import Auto, Solver
from stationary.steady import steady_state
from stationary.visits import Visit, Visits

Array = np.ndarray[Any, Any]

_MOST_PARAMETERS = 40
"""Up to here the Hessian of a large chain costs little beside its factor."""


class Objective:
    """Penalised conditional negative log-likelihood of a model on windows.

    Parameters
    ----------
    model : Model
        The chain; its own parameters are not touched.
    windows : Windows
        The data. Windows of equal inputs are added up, which leaves the likelihood as it is.
    solver
        As for `steady_state`.
    """

    def __init__(
        self,
        model: Model,
        windows: Windows,
        solver: Solver | None = None,
    ) -> None:
        pooled = windows.pooled()
        self.model = model
        self.x = model.as_inputs(pooled.x)
        self.counts = pooled.counts
        self.observation = windows.observation(model)
        self.total = float(self.counts.sum())
        self.solver = Auto() if solver is None else solver
        self.scale = model.scale()
        self.evaluations = 0
        self.visits = Visits()

    def on(self, scale: Scale) -> Objective:
        """Return the same objective as a function of other coordinates."""
        other = copy.copy(self)
        other.scale, other.visits = scale, Visits()
        return other

    def __call__(self, z: Tensor) -> Tensor:
        """Differentiable value, to any order."""
        return self._nll(z, self.x, self.counts) + self.model.penalty(self.scale.natural(z))

    def _nll(self, z: Tensor, x: Tensor, counts: Tensor) -> Tensor:
        return conditional_nll(self._pi(z, x), counts, self.observation).sum()

    def _pi(self, z: Tensor, x: Tensor) -> Tensor:
        generator = self.model.generator(x, self.scale.natural(z))
        return steady_state(generator, self.solver).pi

    def value_and_gradient(self, z: Array) -> tuple[float, Array]:
        """Value and exact gradient, with the chain rule written out.

        The same number as backpropagation through `__call__`, without the autograd engine between
        loss and rates, which at fifty windows of twenty states costs more than the mathematics.
        """
        self.evaluations += 1
        if self._is_large(len(z)):
            return self._visit(z)[:2]

        def of_part(x: Tensor, counts: Tensor) -> tuple[float, Array]:
            free = torch.from_numpy(z.copy()).requires_grad_()
            generator = self.model.generator(x, self.scale.natural(free))
            factor = self.solver.factor(generator)
            nll, g = nll_and_gradient(factor.pi, counts, self.observation)
            (gradient,) = torch.autograd.grad(generator.rates, free, factor.rate_gradient(g))
            return nll, gradient.numpy()

        parts = in_parts(of_part, self.model.edges, self.x, self.counts)
        value = sum(nll for nll, _ in parts)
        gradient = np.sum([slope for _, slope in parts], axis=0)
        free = torch.from_numpy(z.copy()).requires_grad_()
        penalty = self.model.penalty(self.scale.natural(free))
        if isinstance(penalty, Tensor):
            gradient = gradient + torch.autograd.grad(penalty, free)[0].numpy()
            penalty = penalty.item()
        return value + penalty, gradient

    def curvature(self, z: Array) -> Callable[[Array], Array]:
        """Return the product of the Hessian at ``z`` with a vector, one backward pass each."""
        free = torch.tensor(z, requires_grad=True)
        (gradient,) = torch.autograd.grad(self(free), free, create_graph=True)

        def product(vector: Array) -> Array:
            along = torch.from_numpy(vector)
            return torch.autograd.grad(gradient, free, along, retain_graph=True)[0].numpy()

        return product

    def hessian(self, z: Array) -> Array:
        """Exact second derivatives, one pass of double backpropagation a parameter."""
        if self._is_large(len(z)):
            return self._visit(z)[2]
        H = np.stack(list(map(self.curvature(z), np.eye(len(z)))))
        return (H + H.T) / 2

    def log_probabilities(self, z: Tensor, x: Tensor) -> Tensor:
        """Log of the conditional probability of every category at inputs ``x``, ``[M, C]``."""
        return conditional_probabilities(self._pi(z, x), self.observation).log()

    def slopes(self, z: Array) -> Array:
        """Derivatives ``[U, C, P]`` of the log-probabilities at every distinct input."""
        return by_input(self.log_probabilities, z, self.x, self.model.edges)[1]

    def _is_large(self, parameters: int) -> bool:
        """Whether a factor costs so much more than what it is used for that it is used for all."""
        return is_large(self.model.edges) and parameters <= _MOST_PARAMETERS

    def _visit(self, z: Array) -> Visit:
        """Value, gradient and Hessian, a few inputs at a time, each with one factor; remembered."""
        known = self.visits.get(z)
        if known is not None:
            return known

        def of_part(x: Tensor, counts: Tensor) -> list[Array]:
            return _derivatives(lambda free: self._nll(free, x, counts), z)

        parts = in_parts(of_part, self.model.edges, self.x, self.counts)
        parts.append(_derivatives(lambda free: self.model.penalty(self.scale.natural(free)), z))
        value, gradient, hessian = (sum(terms) for terms in zip(*parts, strict=True))
        return self.visits.keep(z, (float(value), gradient, (hessian + hessian.T) / 2))


def _derivatives(function: Callable[[Tensor], Tensor | float], z: Array) -> list[Array]:
    """A function's value, gradient and Hessian."""
    size, free = len(z), torch.tensor(z, requires_grad=True)
    value = function(free)
    if not isinstance(value, Tensor):
        return [np.array(value), np.zeros(size), np.zeros((size, size))]
    (gradient,) = torch.autograd.grad(value, free, create_graph=True)
    rows = [torch.autograd.grad(slope, free, retain_graph=True)[0] for slope in gradient]
    return [part.detach().numpy() for part in (value, gradient, torch.stack(rows))]


@torch.no_grad()
def predicted(model: Model, theta: Tensor, windows: Windows) -> Array:
    """Conditional probability ``[M, C]`` of every category in every window, in their order."""
    x, group = torch.unique(windows.x, dim=0, return_inverse=True)
    pi = probabilities(model, x, theta)
    return conditional_probabilities(pi, windows.observation(model))[group].numpy()
