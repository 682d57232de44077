r"""The paper's other baseline: conditional least squares, with ``pi`` as free parameters.

Every window gets a distribution ``pi_m`` of its own, and the steady-state equation becomes a
penalty (the paper's Eq. 3):

    sum_m  L(y_m, pi_m)  +  weight sum_m || pi_m^T Q(x_m, theta) ||.

Data and ``theta`` meet only through the penalty. A small weight leaves ``pi_m`` free to follow the
data and ``theta`` without a pull; a large one makes a narrow, curved valley. It is here to be
compared with, not to be used.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.learning.estimate import End, Ended, Estimate
from stationary.learning.fitting import recorded
from stationary.learning.likelihood import Likelihood
from stationary.learning.stochastic import judged
from stationary.models import Model, Point


class LagrangianObjective:
    """The objective as a function of free parameters ``z [P]`` and logits ``[U, n]`` of ``pi``.

    Parameters
    ----------
    model : Model
        The chain.
    windows : Windows
        The data; windows of equal inputs share one ``pi``.
    weight : float
        Of the penalty, the paper's lambda.
    """

    def __init__(self, model: Model, windows: Windows, weight: float) -> None:
        if not (weight > 0 and math.isfinite(weight)):
            raise InputError(f"weight must be positive and finite; got {weight!r}")
        self.exact = Likelihood(model, windows)
        self.weight = weight

    def __call__(self, z: Tensor, logits: Tensor) -> Tensor:
        """Differentiable value."""
        exact = self.exact
        theta = exact.scale.natural(z)
        pi = logits.softmax(-1)
        point = Point(exact.model, exact.x, theta).with_pi(pi)
        nll = -(exact.data * exact.terms_at(point)).sum()
        generator = exact.model.generator(exact.x, theta)
        residual = torch.linalg.vector_norm(generator.balance(pi), dim=-1).sum()
        return nll + self.weight * residual + exact.model.penalty(theta)


def conditional_least_squares(
    model: Model, windows: Windows, weight: float = 100.0, steps: int = 5000, lr: float = 0.01
) -> Estimate:
    """Minimise the Lagrangian by Adam and return what it makes of ``theta``.

    The estimate is judged by the exact likelihood: ``converged`` says whether it came near the
    maximum, and ``ended.above`` how far from it it stayed, in nats.

    Parameters
    ----------
    model, windows
        As for `stationary.fit`.
    weight : float
        Of the penalty.
    steps, lr
        Of Adam, from the model's start and uniform distributions.
    """
    if steps < 1 or not lr > 0:
        raise InputError(f"steps must be at least 1 and lr positive; got {steps!r}, {lr!r}")
    objective = LagrangianObjective(model, windows, weight)
    exact = objective.exact
    z = model.free(exact.start).requires_grad_()
    logits = torch.zeros(len(exact.x), model.edges.n, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([z, logits], lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        objective(z, logits).backward()
        optimiser.step()
    theta = exact.scale.natural(z.detach())
    found = judged(exact, theta, Ended(End.FOUND, False), steps)
    return recorded(exact, windows, found)
