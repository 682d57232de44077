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
from stationary.learning.covariances import covariance
from stationary.learning.estimate import End, Ended, Estimate
from stationary.learning.fitting import recorded
from stationary.learning.likelihood import Likelihood
from stationary.learning.stochastic import judged
from stationary.models import Model, Point


def lagrangian(likelihood: Likelihood, weight: float, z: Tensor, logits: Tensor) -> Tensor:
    """Return the objective at free parameters ``z [P]`` and logits ``[U, n]`` of ``pi``."""
    model, theta, pi = likelihood.model, likelihood.scale.natural(z), logits.softmax(-1)
    point = Point(model, likelihood.x, theta).with_pi(pi)
    nll = -(likelihood.data * likelihood.terms_at(point)).sum()
    balance = model.generator(likelihood.x, theta).balance(pi)
    residual = torch.linalg.vector_norm(balance, dim=-1).sum()
    return nll + weight * residual + model.penalty(theta)


def conditional_least_squares(
    model: Model, windows: Windows, weight: float = 100.0, steps: int = 5000, lr: float = 0.01
) -> Estimate:
    """Minimise the Lagrangian by Adam and return what it makes of ``theta``.

    The estimate is judged by the exact likelihood: ``converged`` says whether it came near the
    maximum, and ``ended.above`` how far from it it stayed, in nats.
    Adam takes so many steps from the model's start and uniform distributions.
    """
    if steps < 1 or not lr > 0:
        raise InputError(f"steps must be at least 1 and lr positive; got {steps!r}, {lr!r}")
    if not (weight > 0 and math.isfinite(weight)):
        raise InputError(f"weight must be positive and finite; got {weight!r}")
    exact = Likelihood(model, windows)
    z = model.free(exact.start).requires_grad_()
    logits = torch.zeros(len(exact.x), model.edges.n, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([z, logits], lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        lagrangian(exact, weight, z, logits).backward()
        optimiser.step()
    theta = exact.scale.natural(z.detach())
    found = judged(exact, theta, Ended(End.FOUND, False), steps)
    return recorded(exact, found, covariance(exact, windows, found.theta))
