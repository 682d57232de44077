"""Ways to learn from a problem, behind one `Column.run`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import stationary as st
from stationary.gradients import Gradient, Powers
from stationary.learning.checkpoints import identity
from stationary.learning.iterates import Iterates
from stationary.learning.least_squares import conditional_least_squares
from stationary.learning.likelihood import Likelihood
from stationary.paper.settings import SETTINGS, Problem, Row
from stationary.trust.baselines import trend

_DEFAULTS = SETTINGS["defaults"]


@dataclass(frozen=True)
class Outcome:
    """What a method made of one problem; a forecast without a chain has neither theta nor nll."""

    predicted: Tensor  # [E, T]: of the last state at the test loads, after each epoch
    seconds: float = math.nan  # of repeats that ran side by side, each one's share
    theta: list[float] = field(default_factory=list)  # of the parametric chain
    nll: list[float] = field(default_factory=list)  # per window after each epoch, no penalty
    steady: Tensor | None = (
        None  # [T]: by the steady state, where the method's own forecast differs
    )
    converged: bool = True  # also for methods that cannot tell


@dataclass(frozen=True)
class Column:
    """A column of the tables: a way to learn, with its settings."""

    name: str  # in files
    title: str  # in tables
    alpha: float | None = field(default=None, kw_only=True)  # price of a relaxation, if any
    exact: str = field(default="mle", kw_only=True)  # the column of the same objective's optimum

    random = False  # whether repeats on one data set differ
    trains = False  # whether it takes epochs, of which a quick run takes a share

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Learn from every problem, with one seed each and a share of the row's epochs."""
        outcomes = []
        for problem, seed in zip(problems, seeds, strict=True):
            began = time.perf_counter()
            outcome = self.learn(problem, seed, share)
            outcomes.append(replace(outcome, seconds=time.perf_counter() - began))
        return outcomes

    def learn(self, problem: Problem, seed: int, share: float) -> Outcome:
        """Learn from one problem; a column overrides this, or `run`."""
        raise NotImplementedError

    def settings(self, row: Row) -> Any:
        """Return all settings of a run on a row, as plain data; they identify kept runs."""
        del row
        return identity(self)

    def model(self, row: Row) -> st.Model:
        """Return the model that it learns: the row's, relaxed if that is asked for."""
        model = row.family()
        if self.alpha is None:
            return model
        return st.models.Relaxed(model, alpha=self.alpha, initial=_DEFAULTS["floor"])


MakeGradient = Callable[[Row, tuple[int, ...]], Gradient]
"""Makes a strategy from the row and the seeds of the repeats."""


@dataclass(frozen=True)
class Trained(Column):
    """A gradient strategy with the paper's optimiser, or another one.

    Parameters
    ----------
    gradient : callable
        Makes the strategy from the row and the seeds of the repeats.
    training : callable, optional
        Makes the training from the strategy, the row and the model's own start; the paper's, which
        starts at zero, by default.
    """

    gradient: MakeGradient
    training: Callable[[Gradient, Row, Tensor], st.Stochastic] | None = None

    random = True
    trains = True

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Run the repeats side by side, and follow their forecasts from epoch to epoch."""
        row, began = problems[0].row, time.perf_counter()
        model = self.model(row)
        # The order of the windows comes from the seed, the draws from another stream of it.
        way = self._training(row, tuple(map(_stream, seeds)), problems[0].windows.x)
        way = replace(way, epochs=max(1, round(row.epochs * share)))
        paths = train(model, problems, way, seeds)
        seconds = (time.perf_counter() - began) / len(problems)
        return [
            replace(_outcome(model, problem, path, way.gradient), seconds=seconds)
            for problem, path in zip(problems, paths, strict=True)
        ]

    def settings(self, row: Row) -> Any:
        """Return the strategy and the training."""
        way = self._training(row, (0,), torch.ones(1, 1, dtype=torch.float64))
        return [identity(way), self.alpha]

    def _training(self, row: Row, seeds: tuple[int, ...], x: Tensor) -> st.Stochastic:
        gradient = self.gradient(row, seeds)
        if self.training is None:
            return training(gradient=gradient, lr=row.lr, epochs=row.epochs)
        return self.training(gradient, row, self.model(row).start(x))


def train(
    model: st.Model, problems: Sequence[Problem], way: st.Stochastic, seeds: Sequence[int]
) -> Tensor:
    """Return the estimates ``[R, E + 1, P]`` of R repeats, at the start and after every epoch.

    Every repeat goes the way `stationary.fit` would take it alone, except that a window in which
    no observed state was counted, which `fit` refuses, is a step without a gradient.
    """
    start = way.first(model, problems[0].windows.x)
    fits = Iterates(
        model,
        torch.cat([problem.windows.x for problem in problems]),
        problems[0].observed().observations,
        torch.cat([problem.counts for problem in problems]),
        start.repeat(len(problems), 1),
        way,
    )
    orders = [torch.Generator().manual_seed(seed) for seed in seeds]
    first = fits.count * torch.arange(len(problems))[:, None]
    path = [fits.estimate]
    for epoch in range(way.epochs):
        order = torch.stack([torch.randperm(fits.count, generator=each) for each in orders])
        for chosen in (order + first).split(way.batch, 1):
            fits.move(chosen, epoch)
        path.append(fits.estimate)
    return torch.stack(path, 1)


@dataclass(frozen=True)
class MaximumLikelihood(Column):
    """The exact optimum: the best that the data allow in terms of the likelihood."""

    def learn(self, problem: Problem, seed: int, share: float) -> Outcome:
        """Take second-order steps."""
        del share
        model, windows = self.model(problem.row), problem.observed()
        newton = st.Newton(starts=problem.row.starts)
        found = newton.run(Likelihood(model, windows), windows, seed)
        return _outcome(model, problem, found.theta[None], converged=found.ended.converged)


@dataclass(frozen=True)
class LeastSquares(Column):
    """The paper's Lagrangian baseline, by Adam; ``weight`` is the paper's lambda."""

    weight: float = SETTINGS["least_squares"]["weight"]
    steps: int = SETTINGS["least_squares"]["steps"]

    trains = True

    def learn(self, problem: Problem, seed: int, share: float) -> Outcome:
        """Run Adam on the Lagrangian."""
        del seed
        model, steps = self.model(problem.row), round(self.steps * share)
        found = conditional_least_squares(model, problem.observed(), self.weight, steps)
        return _outcome(model, problem, found.theta[None], converged=found.converged)


@dataclass(frozen=True)
class Baseline(Column):
    """A forecast without a chain, from the counts of all states in the training windows."""

    forecast: Callable[[st.Windows, Tensor], Tensor]

    def learn(self, problem: Problem, seed: int, share: float) -> Outcome:
        """Evaluate it."""
        del seed, share
        return Outcome(self.forecast(problem.windows, problem.x[:, 0])[None])


def zero(windows: st.Windows, x: Tensor) -> Tensor:
    """Nothing ever fails."""
    del windows
    return torch.zeros_like(x)


def mean(windows: st.Windows, x: Tensor) -> Tensor:
    """As much fails as in the training windows."""
    return (windows.counts[:, -1].sum() / windows.counts.sum()).expand_as(x)


def logistic(windows: st.Windows, x: Tensor) -> Tensor:
    """Logistic regression of the share of the last state on the load."""
    failed = windows.counts[:, -1].numpy()
    counts = np.column_stack([windows.counts.sum(-1).numpy() - failed, failed])
    return torch.from_numpy(trend(counts, windows.loads.numpy(), x.numpy(), log=False)[:, 1])


def training(
    p: float = 0.1,
    *,
    lr: float = 0.1,
    epochs: int = 50,
    seed: int | tuple[int, ...] | None = 0,
    gradient: Gradient | None = None,
) -> st.Stochastic:
    """Return the paper's way to fit: its gradient and optimiser, with its clip, floor and start.

    Parameters
    ----------
    p : float
        Stopping probability of infinity-SGD.
    lr : float
        Learning rate of Adam: 0.1 in most of the paper's rows, 0.01 for M/M/Multiple/K, 1 for the
        testbed.
    epochs : int
        Passes over the windows, one window per step: 50, and 100 for the testbed.
    seed : int or tuple of int, optional
        Of the draws.
    gradient : Gradient, optional
        Another strategy, such as ``st.DivideAndConquerBPTT(128)``.

    Examples
    --------
    >>> import stationary as st
    >>> way = st.paper.training(p=0.1)  # then st.fit(model, windows, method=way)
    >>> way.gradient.p, way.epochs, way.clip, way.floor, way.start
    (0.1, 50, 5.0, 1e-06, 0.0)
    """
    return st.Stochastic(
        gradient or st.Infinity(p=p, seed=seed, series=Powers()),
        epochs=epochs,
        rule=st.optimisers.Adam(lr=lr, amsgrad=False),
        clip=_DEFAULTS["clip"],
        floor=_DEFAULTS["floor"],
        start=0.0,
    )


def _stream(seed: int) -> int:
    """Seed of a stream that is independent of the one that the seed itself starts."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def _outcome(
    model: st.Model,
    problem: Problem,
    path: Tensor,
    gradient: Gradient | None = None,
    converged: bool = True,
) -> Outcome:
    """Return what the estimates ``path [E, P]`` forecast, and how likely they are.

    A method forecasts by the forward value that it learnt with, which may not be the steady state.
    """
    likelihood = Likelihood(model, problem.observed())

    def nll(theta: Tensor) -> float:  # per window, windows without counts included
        value, _ = likelihood.value_and_gradient(likelihood.scale.free(theta).numpy())
        return (value - float(model.penalty(theta))) / len(problem.windows)

    @torch.no_grad()
    def forecast(path: Tensor, gradient: Gradient) -> Tensor:
        chains = model.generator(problem.x, path[:, None])
        return st.steady_state(chains, gradient=gradient).pi[..., -1]

    own = gradient is not None and not gradient.exact_forward
    return Outcome(
        predicted=forecast(path, gradient if own and gradient else st.Exact()),
        theta=path[-1, : len(problem.row.family().param_names)].tolist(),
        nll=[nll(theta) for theta in path],
        steady=forecast(path[-1:], st.Exact())[0] if own else None,
        converged=converged,
    )
