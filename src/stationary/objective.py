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

from stationary.data.windows import Windows
from stationary.generator import Generator
from stationary.losses import (
    categories,
    conditional_nll,
    conditional_probabilities,
    nll_and_gradient,
)
from stationary.models import Model
from stationary.scales import Scale
from stationary.solvers import Auto, Solver
from stationary.steady import steady_state

Array = np.ndarray[Any, Any]


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
        self._category = categories(self.observation)
        self.total = float(self.counts.sum())
        self.solver = Auto() if solver is None else solver
        self.scale = model.scale()
        self.evaluations = 0

    def on(self, scale: Scale) -> Objective:
        """Return the same objective as a function of other coordinates."""
        other = copy.copy(self)
        other.scale = scale
        return other

    def __call__(self, z: Tensor) -> Tensor:
        """Differentiable value, to any order."""
        theta = self.scale.natural(z)
        nll = conditional_nll(self._pi(theta), self.counts, self.observation).sum()
        return nll + self.model.penalty(theta)

    def _pi(self, theta: Tensor) -> Tensor:
        generator = Generator(self.model.edges, self.model.rates(self.x, theta))
        return steady_state(generator, self.solver).pi

    def value_and_gradient(self, z: Array) -> tuple[float, Array]:
        """Value and exact gradient, with the chain rule written out.

        The same number as backpropagation through `__call__`, without the autograd engine between
        loss and rates, which at fifty windows of twenty states costs more than the mathematics.
        """
        self.evaluations += 1
        free = torch.from_numpy(z.copy()).requires_grad_()
        theta = self.scale.natural(free)
        rates = self.model.rates(self.x, theta)
        factor = self.solver.factor(Generator(self.model.edges, rates))
        nll, g = nll_and_gradient(factor.pi, self.counts, self._category)
        outputs, weights = [rates], [factor.rate_gradient(g)]
        penalty = self.model.penalty(theta)
        if isinstance(penalty, Tensor):
            outputs.append(penalty)
            weights.append(torch.ones_like(penalty))
            penalty = penalty.item()
        (gradient,) = torch.autograd.grad(outputs, free, weights)
        return nll + penalty, gradient.numpy()

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
        H = np.stack(list(map(self.curvature(z), np.eye(len(z)))))
        return (H + H.T) / 2

    def log_probabilities(self, z: Tensor) -> Tensor:
        """Log of the conditional probability of every category at every distinct input."""
        pi = self._pi(self.scale.natural(z))
        return conditional_probabilities(pi, self.observation).log()


@torch.no_grad()
def predicted(model: Model, theta: Tensor, windows: Windows) -> Array:
    """Conditional probability ``[M, C]`` of every category in every window, in their order."""
    x, group = torch.unique(windows.x, dim=0, return_inverse=True)
    pi = steady_state(model.generator(x, theta)).pi
    return conditional_probabilities(pi, windows.observation(model))[group].numpy()
