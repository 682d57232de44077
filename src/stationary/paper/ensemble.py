"""Many stochastic fits of one model side by side, each with its own data, order and draws.

A step of a small chain costs its dispatch, not its arithmetic: twenty repeats in one batch take
little longer than one. Every repeat goes the way `stationary.fit` would take it alone, but that a
window without counts, which `fit` does not take, is a step without a pull.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from stationary.data.states import ObservationMap, conditional_nll
from stationary.generator import Generator
from stationary.learning.stochastic import Stochastic
from stationary.models import Model
from stationary.steady import steady_state


def train(
    model: Model,
    x: Tensor,
    counts: Tensor,
    observation: ObservationMap,
    start: Tensor,
    training: Stochastic,
    seeds: Sequence[int],
) -> Iterator[Tensor]:
    """Yield the estimates ``[R, P]`` of R repeats at the start and after every epoch.

    Parameters
    ----------
    model : Model
        The chain they all fit.
    x : Tensor [R, M, d]
        Inputs of every repeat's windows.
    counts : Tensor [R, M, C]
        Counts of the observed categories; a window without any is a step without a pull.
    observation : ObservationMap
        1 where a category covers a state.
    start : Tensor [P]
        Where every repeat starts.
    training : Stochastic
        How to run; give a random gradient a seed for each repeat. Folder, callback and patience
        have no meaning here.
    seeds : sequence of int
        Of the order of each repeat's windows.
    """
    repeats, windows, _ = x.shape
    orders = [torch.Generator().manual_seed(seed) for seed in seeds]
    rows, offset = torch.arange(repeats)[:, None], windows * torch.arange(repeats)[:, None]
    theta = start.repeat(repeats, 1).requires_grad_()
    gradient = training.gradient
    heavy_tails = gradient.has_heavy_tails(model.generator(x[0], start))
    optimiser = training.rule.make(theta, heavy_tails)
    mean, averaged, step = theta.detach().clone(), 0, 0
    yield theta.detach().clone()
    for epoch in range(training.epochs):
        order = torch.stack([torch.randperm(windows, generator=each) for each in orders])
        for chosen in order.split(training.batch, 1):
            generator = Generator(
                model.edges,
                model.edge_rates(x[rows, chosen], theta[:, None]).flatten(0, 1),
                index=(chosen + offset).flatten(),
            )
            pi = steady_state(generator, gradient=gradient).pi
            nll = conditional_nll(pi, counts[rows, chosen].flatten(0, 1), observation)
            penalty = torch.as_tensor(model.penalty(theta)).sum()
            loss = nll.sum() / chosen.shape[1] + penalty / windows
            (slope,) = torch.autograd.grad(loss, theta)
            norm = slope.norm(dim=-1, keepdim=True)
            theta.grad = slope * (training.clip / (norm + 1e-6)).clamp_max(1.0)
            for group in optimiser.param_groups:
                group["lr"] = training.rule.rate(step)
            optimiser.step()
            with torch.no_grad():
                floored = theta.clamp_min(training.floor)
                theta.copy_(torch.where(model.positive, floored, theta))
            step += 1
            if training.average and 2 * epoch >= training.epochs:
                averaged += 1
                mean += (theta.detach() - mean) / averaged
        yield mean.clone() if averaged else theta.detach().clone()
