"""Ways to learn from a problem, behind one `Column.run`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from stationary.data.states import ObservationMap
from stationary.gradients import Exact, Gradient
from stationary.learning.least_squares import conditional_least_squares
from stationary.learning.likelihood import Likelihood
from stationary.learning.newton import Newton
from stationary.learning.optimisers import Adam
from stationary.learning.stochastic import Stochastic
from stationary.models import Model, Relaxed
from stationary.paper.ensemble import train
from stationary.paper.settings import Problem, Row, defaults, section
from stationary.steady import steady_state


@dataclass(frozen=True)
class Outcome:
    """What a method made of one problem.

    Attributes
    ----------
    predicted : Tensor [E, T]
        Forecast of the last state at the test loads, after each epoch; its last row is the answer.
    seconds : float
        Wall time; of repeats that ran side by side, each one's share.
    theta : list of float
        Estimates, parametric ones only; empty if there are none.
    nll : list of float
        Exact negative log-likelihood a window after each epoch, without penalty; empty for
        forecasts that come from no chain.
    steady : Tensor [T], optional
        Forecast by the steady state of the learnt chain, where the method has another of its own.
    converged : bool
        Whether an optimiser that can tell says so.
    """

    predicted: Tensor
    seconds: float
    theta: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    steady: Tensor | None = None
    converged: bool = True


@dataclass(frozen=True)
class Column(ABC):
    """A column of the tables: a way to learn, with its settings.

    Parameters
    ----------
    name, title : str
        What the cache and what the reader calls it.
    alpha : float, optional
        Price at which the model is relaxed, if it is.
    """

    name: str
    title: str
    alpha: float | None = field(default=None, kw_only=True)

    random = False
    """Whether repeats on one data set differ."""

    trains = False
    """Whether it takes epochs, of which a quick run takes a share."""

    @abstractmethod
    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Learn from every problem, with a seed each and a share of the row's epochs."""

    def describe(self, row: Row) -> str:
        """All its settings on a row; kept runs with others are made again."""
        del row
        return self.name

    def cost(self, row: Row) -> float:
        """Rough work of a repeat, to start the longest runs first."""
        del row
        return 1.0


@dataclass(frozen=True)
class Trained(Column):
    """A gradient strategy with the paper's optimiser, or another one.

    Parameters
    ----------
    gradient : callable
        Makes the strategy from the row and the repeats' seeds.
    training : callable, optional
        Makes the training from the strategy, the row and the start; the paper's by default.
    at_zero : bool
        Start at zero, as the paper does, instead of at the model's own start.
    """

    gradient: Callable[[Row, tuple[int, ...]], Gradient]
    training: Callable[[Gradient, Row, Tensor], Stochastic] | None = None
    at_zero: bool = True

    random = True
    trains = True

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Run the repeats side by side and follow their forecasts from epoch to epoch."""
        row, began = problems[0].row, time.perf_counter()
        model = _model(row, self.alpha)
        x = torch.stack([problem.windows.x for problem in problems])
        counts = torch.stack([problem.counts for problem in problems])
        start = self._start(model, x[0])
        # Draws and order of windows come from streams of their own.
        training = self._training(row, tuple(_stream(seed) for seed in seeds), start)
        training = replace(training, epochs=max(1, round(row.epochs * share)))
        observation = ObservationMap.of_states(row.observe, model.edges.n)
        thetas = train(model, x, counts, observation, start, training, seeds)
        paths = torch.stack(list(thetas), 1)
        seconds = (time.perf_counter() - began) / len(problems)
        known = len(row.family().param_names)

        def outcome(problem: Problem, path: Tensor) -> Outcome:
            own = not training.gradient.exact_forward
            return Outcome(
                predicted=_forecast(model, problem, path, training.gradient),
                seconds=seconds,
                theta=path[-1, :known].tolist(),
                nll=_losses(model, problem, path),
                steady=_forecast(model, problem, path[-1:], Exact())[0] if own else None,
            )

        return [outcome(problem, path) for problem, path in zip(problems, paths, strict=True)]

    def describe(self, row: Row) -> str:
        """The strategy and the training, as they print themselves."""
        model = _model(row, self.alpha)
        start = self._start(model, torch.ones(1, 1, dtype=torch.float64))
        return f"{self._training(row, (0,), start)} {self.alpha} {self.at_zero}"

    def _start(self, model: Model, x: Tensor) -> Tensor:
        floor = torch.full_like(model.theta.detach(), defaults()["floor"])
        return floor if self.at_zero else model.start(x)

    def _training(self, row: Row, seeds: tuple[int, ...], start: Tensor) -> Stochastic:
        return (self.training or _paper_training)(self.gradient(row, seeds), row, start)

    def cost(self, row: Row) -> float:
        """Steps, weighed by the size of the model."""
        size = 3.0 if self.alpha is not None or row.model["name"] == "uppertriangular" else 1.0
        windows = len(row.train_loads()) if row.simulated else 100
        return 1e3 + row.epochs * windows * size


@dataclass(frozen=True)
class MaximumLikelihood(Column):
    """The exact optimum: the best that the data allows in the likelihood's own terms."""

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Second-order steps on each problem."""
        del share
        return [self._one(problem, seed) for problem, seed in zip(problems, seeds, strict=True)]

    def _one(self, problem: Problem, seed: int) -> Outcome:
        began = time.perf_counter()
        model = _model(problem.row, self.alpha)
        windows = problem.observed()
        found = Newton(starts=problem.row.starts).run(Likelihood(model, windows), windows, seed)
        seconds = time.perf_counter() - began
        return _of_theta(model, problem, found.theta, seconds, found.ended.converged)

    def describe(self, row: Row) -> str:
        """The relaxation; the rest is in the row."""
        del row
        return f"exact {self.alpha}"

    def cost(self, row: Row) -> float:
        """Little, unless there are many parameters."""
        return 1e3 if self.alpha is not None or row.model["name"] == "uppertriangular" else 10.0


@dataclass(frozen=True)
class LeastSquares(Column):
    """The paper's Lagrangian baseline."""

    trains = True

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Adam on each problem's Lagrangian."""
        del seeds
        return [self._one(problem, share) for problem in problems]

    def _one(self, problem: Problem, share: float) -> Outcome:
        began = time.perf_counter()
        settings = section("least_squares")
        model = problem.row.family()
        steps = round(settings["steps"] * share)
        found = conditional_least_squares(model, problem.observed(), settings["weight"], steps)
        seconds = time.perf_counter() - began
        return _of_theta(model, problem, found.theta, seconds, found.converged)

    def describe(self, row: Row) -> str:
        """Weight and steps."""
        del row
        return str(section("least_squares"))

    def cost(self, row: Row) -> float:
        """A few seconds."""
        del row
        return 5e3


def _paper_training(gradient: Gradient, row: Row, start: Tensor) -> Stochastic:
    del start
    settings = defaults()
    return Stochastic(
        gradient,
        epochs=row.epochs,
        rule=Adam(lr=row.lr, amsgrad=False),
        clip=settings["clip"],
        floor=settings["floor"],
    )


def _model(row: Row, alpha: float | None) -> Model:
    model = row.family()
    return model if alpha is None else Relaxed(model, alpha=alpha, initial=defaults()["floor"])


def _stream(seed: int) -> int:
    """Seed of a stream that has nothing to do with the one the seed itself starts."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0])


def _of_theta(
    model: Model, problem: Problem, theta: Tensor, seconds: float, converged: bool
) -> Outcome:
    return Outcome(
        predicted=_forecast(model, problem, theta[None], Exact()),
        seconds=seconds,
        theta=theta[: len(problem.row.family().param_names)].tolist(),
        nll=_losses(model, problem, theta[None]),
        converged=converged,
    )


@torch.no_grad()
def _forecast(model: Model, problem: Problem, thetas: Tensor, strategy: Gradient) -> Tensor:
    """Probability of the last state ``[E, T]``, by the forward value the method learnt with."""
    forward = Exact() if strategy.exact_forward else strategy
    return steady_state(model.generator(problem.x, thetas[:, None]), gradient=forward).pi[..., -1]


def _losses(model: Model, problem: Problem, thetas: Tensor) -> list[float]:
    """Exact negative log-likelihood a window, windows without counts included."""
    likelihood = Likelihood(model, problem.observed())
    count = len(problem.windows)
    values = []
    for theta in thetas:
        penalty = float(model.penalty(theta))
        value, _ = likelihood.value_and_gradient(likelihood.scale.free(theta).numpy())
        values.append((value - penalty) / count)
    return values
