"""The parameters of stochastic fits, step by step: of one fit, or of several side by side.

A step takes the mean negative log-likelihood of its windows plus the model's penalty over the
number of all windows, the objective of the full fit per window; clips the gradient; moves; and
projects positive parameters to ``max(theta, floor)``, the paper's rule.

A step of a small chain costs its dispatch, not its arithmetic: twenty fits in one batch take little
longer than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from stationary.data import Observation
from stationary.errors import SolverError
from stationary.models import Model, Point
from stationary.models.chunks import split
from stationary.solvers import Auto, Solver

if TYPE_CHECKING:
    from stationary.learning.stochastic import Stochastic


class Iterates:
    """Parameters ``theta [..., P]`` on their way, with their optimiser and their mean.

    Inputs ``x [W, d]`` and data ``[W, S]`` of the windows of fits side by side stand one after the
    other, equally many each. A random gradient needs one seed per fit.
    """

    def __init__(
        self,
        model: Model,
        x: Tensor,
        observations: Sequence[Observation],
        data: Tensor,
        start: Tensor,
        training: Stochastic,
        solver: Solver | None = None,
    ) -> None:
        self.model, self.training, self.gradient = model, training, training.gradient.fresh()
        self.solver = Auto() if solver is None else solver
        self.x, self.data = x, data
        self.observations = [kind.on(model) for kind in observations]
        self.theta = start.clone().requires_grad_()
        self.count = len(x) * start.shape[-1] // start.numel()
        """Windows of each fit."""
        one = start.reshape(-1, start.shape[-1])[0]
        self.heavy_tails = any(
            self.gradient.has_heavy_tails(model.generator(part, one))
            for part in split(x, model.edges)
        )
        self.optimiser = training.rule.make(self.theta, self.heavy_tails)
        self.step = self.averaged = 0
        self.mean = torch.zeros_like(start)

    @property
    def estimate(self) -> Tensor:
        """The last iterate, or the mean of the second half."""
        return self.mean.clone() if self.averaged else self.theta.detach().clone()

    def move(self, chosen: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Take a step along the windows ``chosen [..., B]``; return losses and gradient norms."""
        training = self.training
        theta = self.theta[..., None, :]
        point = Point(self.model, self.x[chosen], theta, self.solver, self.gradient, chosen)
        terms = torch.cat([kind.log_terms(point) for kind in self.observations], -1)
        nll = -(self.data[chosen] * terms).sum(-1).mean(-1)
        loss = nll + self.model.penalty(self.theta) / self.count
        (slope,) = torch.autograd.grad(loss.sum(), self.theta)
        norm = slope.norm(dim=-1, keepdim=True)
        if not bool(norm.isfinite().all()):
            raise SolverError(
                f"the gradient of step {self.step} is {norm.max().item()}; use a smaller learning "
                f"rate, or a gradient strategy of smaller variance"
            )
        self.theta.grad = slope * (training.clip / (norm + 1e-6)).clamp_max(1.0)
        for group in self.optimiser.param_groups:
            group["lr"] = training.rule.rate(self.step)
        self.optimiser.step()
        with torch.no_grad():
            floored = self.theta.clamp_min(training.floor)
            self.theta.copy_(torch.where(self.model.positive, floored, self.theta))
        self.step += 1
        if training.average and 2 * epoch >= training.epochs:
            self.add_to_mean(self.theta.detach())
        return loss.detach(), norm.squeeze(-1)

    def add_to_mean(self, theta: Tensor) -> None:
        """Count parameters among those whose mean is the estimate."""
        self.averaged += 1
        self.mean += (theta - self.mean) / self.averaged
