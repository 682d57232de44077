"""What a fit minimises, as a function of the free parameters: value, gradient, Hessian.

A fit moves ``z``, the logarithm of every positive parameter and the others as they are, so that no
step can leave the parameter space and a unit step means the same for every rate.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from stationary._support.types import Array
from stationary.data import Counts
from stationary.data.numbers import distinct_rows
from stationary.data.states import States
from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.checkpoints import Visit, VisitedPoints
from stationary.learning.derivatives import by_input
from stationary.models import Model, Point
from stationary.models.chunks import in_chunks, is_large, steady_states
from stationary.models.scales import Scale
from stationary.solvers import Auto, Solver

_MOST_PARAMETERS = 40
"""Up to here the Hessian of a large chain costs little beside its factor."""


class Likelihood:
    """Penalised negative log-likelihood of a model on windows, whatever was observed in them.

    Windows of equal inputs are added up, which leaves the likelihood as it is. Each may have a
    weight ``[M]``: zero leaves it out, and a bootstrap counts some of them several times.
    """

    def __init__(
        self,
        model: Model,
        windows: Windows,
        solver: Solver | None = None,
        weights: Tensor | None = None,
    ) -> None:
        data, size = windows.data, windows.size
        if weights is not None:
            data, size = weights[:, None] * data, weights * size
            kept = weights > 0
            windows, data, size = windows.select(kept), data[kept], size[kept]
        distinct, where = distinct_rows(windows.x)
        self.model = model
        self.x = model.as_inputs(distinct)
        self.data = data.new_zeros(len(distinct), data.shape[1]).index_add(0, where, data)
        self.observations = [kind.on(model) for kind in windows.observations]
        self._widths = [kind.data.shape[1] for kind in self.observations]
        parts = zip(self.observations, self.data.split(self._widths, -1), strict=True)
        self.data = torch.cat([kind.prepared(self.x, part) for kind, part in parts], -1)
        self.total = float(size.sum())
        self._check_kinds()
        self.solver = Auto() if solver is None else solver
        self.scale = model.scale()
        self.start = model.start(self.x)
        for kind in self.observations:
            self.start = kind.start(Point(model, windows.x, self.start))
        self.evaluations = 0
        self.visits = VisitedPoints()

    @torch.no_grad()
    def _check_kinds(self) -> None:
        """Raise unless kinds of a user's own give as many terms as they have columns."""
        new = [kind for kind in self.observations if not isinstance(kind, States)]
        if not new:
            return
        point = Point(self.model, self.x[:1], self.model.theta.detach())
        for kind in new:
            terms, width = kind.log_terms(point), kind.data.shape[1]
            if terms.shape != (1, width):
                raise InputError(
                    f"{type(kind).__name__} must give one term per column, [..., M, {width}]; got "
                    f"shape {tuple(terms.shape)} for one window"
                )
            total = float(terms.exp().sum())
            if isinstance(kind, Counts) and abs(total - 1) > 1e-6:
                raise InputError(
                    f"probabilities of {type(kind).__name__} must add up to 1 in every window; "
                    f"they add up to {total:g}"
                )

    def on(self, scale: Scale) -> Likelihood:
        """Return the same likelihood as a function of other coordinates."""
        other = copy.copy(self)
        other.scale, other.visits = scale, VisitedPoints()
        return other

    def __call__(self, z: Tensor) -> Tensor:
        """Differentiable value, to any order."""
        return self._nll(z, self.x, self.data) + self._penalty_of(z)

    def _penalty_of(self, z: Tensor) -> Tensor | float:
        return self.model.penalty(self.scale.natural(z))

    def _nll(self, z: Tensor, x: Tensor, data: Tensor) -> Tensor:
        return -(data * self.log_terms(z, x)).sum()

    def _by_kind(self, z: Tensor, x: Tensor, data: Tensor) -> Tensor:
        """The same, in the way of each kind, for first derivatives."""
        point = Point(self.model, x, self.scale.natural(z), self.solver)
        parts = zip(self.observations, data.split(self._widths, -1), strict=True)
        return sum((kind.nll(point, part) for kind, part in parts), point.theta.new_zeros(()))

    def log_terms(self, z: Tensor, x: Tensor) -> Tensor:
        """What the data at inputs ``x`` is multiplied by in the log-likelihood, ``[..., M, S]``."""
        point = Point(self.model, x, self.scale.natural(z), self.solver)
        return self.terms_at(point)

    def terms_at(self, point: Point) -> Tensor:
        """The same at a point."""
        parts = [kind.log_terms(point) for kind in self.observations]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def value_and_gradient(self, z: Array) -> tuple[float, Array]:
        """Value and exact gradient."""
        self.evaluations += 1
        if self.all_at_once(len(z)):
            return self._visit(z)[:2]
        parts = in_chunks(
            lambda x, data: _slope(lambda free: self._by_kind(free, x, data), z),
            *(self.model.edges, self.x, self.data),
        )
        parts.append(_slope(self._penalty_of, z))
        value, gradient = (sum(terms) for terms in zip(*parts, strict=True))
        return float(value), gradient

    def at(self, z: Array) -> tuple[float, Array, Array | None]:
        """Value, gradient and, where it costs little beside them, Hessian."""
        if self.all_at_once(len(z)):
            self.evaluations += 1
            return self._visit(z)
        known = self.by_formula(z)
        if known is None:
            return *self.value_and_gradient(z), None
        self.evaluations += 1
        return known

    def curvature(self, z: Array) -> Callable[[Array], Array]:
        """Return the product of the Hessian at ``z`` with a vector, one backward pass each."""
        free = torch.tensor(z, requires_grad=True)
        (gradient,) = torch.autograd.grad(self(free), free, create_graph=True)

        def product(vector: Array) -> Array:
            along = torch.from_numpy(vector)
            return torch.autograd.grad(gradient, free, along, retain_graph=True)[0].numpy()

        return product

    def hessian(self, z: Array) -> Array:
        """Exact second derivatives: by a formula, or one double backpropagation per parameter."""
        if self.all_at_once(len(z)):
            return self._visit(z)[2]
        known = self.by_formula(z)
        if known is not None:
            return known[2]
        H = _derivatives(self, z)[2]
        return (H + H.T) / 2

    def by_formula(self, z: Array) -> tuple[float, Array, Array] | None:
        """Value, gradient and Hessian by the formula of the only kind of observation.

        None where there is none, or it over- or underflows.
        """
        if len(self.observations) > 1:
            return None
        with torch.no_grad():
            theta = self.scale.natural(torch.from_numpy(z))
            point = Point(self.model, self.x, theta, self.solver)
            try:
                known = self.observations[0].derivatives(point, self.data)
            except np.linalg.LinAlgError:
                return None
            if known is None or not bool(known[2].isfinite().all()):
                return None
            value, gradient, hessian = known
            slope = 1 / self.scale.slope(theta)
            gradient = gradient * slope
            # The second derivative of an exponential is the exponential.
            curved = torch.diag(gradient.where(self.scale.log, 0.0))
            hessian = slope[:, None] * hessian * slope + curved
        penalty = self._penalty(z)
        return value + penalty[0], gradient.numpy() + penalty[1], hessian.numpy() + penalty[2]

    def _penalty(self, z: Array) -> tuple[float, Array, Array]:
        """The model's penalty with its derivatives."""
        # A copy of z for every row, so that two passes give all rows of the Hessian.
        free = torch.tensor(z).repeat(len(z), 1).requires_grad_()
        penalty = self._penalty_of(free)
        if not isinstance(penalty, Tensor):
            return penalty, np.zeros_like(z), np.zeros((len(z), len(z)))
        (pull,) = torch.autograd.grad(penalty.sum(), free, create_graph=True)
        (rows,) = torch.autograd.grad(pull.trace(), free)
        return penalty[0].item(), pull[0].detach().numpy(), rows.numpy()

    def slopes(self, z: Array) -> Array:
        """Derivatives ``[U, S, P]`` of the log-terms at every distinct input."""
        return by_input(self.log_terms, z, self.x, self.model.edges)[1]

    def all_at_once(self, parameters: int) -> bool:
        """Whether the Hessian comes with the value: a factor costs more than all its uses."""
        return is_large(self.model.edges) and parameters <= _MOST_PARAMETERS

    def _visit(self, z: Array) -> Visit:
        """Value, gradient and Hessian, a few inputs at a time, each with one factor; remembered."""
        known = self.visits.get(z)
        if known is not None:
            return known

        def of_part(x: Tensor, data: Tensor) -> list[Array]:
            return _derivatives(lambda free: self._nll(free, x, data), z)

        parts = in_chunks(of_part, self.model.edges, self.x, self.data)
        parts.append(_derivatives(self._penalty_of, z))
        value, gradient, hessian = (sum(terms) for terms in zip(*parts, strict=True))
        return self.visits.keep(z, (float(value), gradient, (hessian + hessian.T) / 2))


def _slope(function: Callable[[Tensor], Tensor | float], z: Array) -> tuple[float, Array]:
    """A function's value and gradient."""
    free = torch.tensor(z, requires_grad=True)
    value = function(free)
    if not isinstance(value, Tensor):
        return value, np.zeros(len(z))
    return value.item(), torch.autograd.grad(value, free)[0].numpy()


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
def solved(model: Model, windows: Windows, theta: Tensor | None = None) -> Point:
    """Return a model at the inputs of windows, each distinct one solved once."""
    x, group = distinct_rows(windows.x)
    theta = model.theta.detach() if theta is None else theta
    pi = steady_states(model, x, theta)
    return Point(model, model.as_inputs(windows.x), theta).with_pi(pi[group])


@torch.no_grad()
def log_terms(model: Model, windows: Windows, theta: Tensor | None = None) -> Array:
    """Log-terms ``[M, S]`` of every window, in their order."""
    point = solved(model, windows, theta)
    kinds = [kind.on(model) for kind in windows.observations]
    return torch.cat([kind.log_terms(point) for kind in kinds], -1).numpy()
