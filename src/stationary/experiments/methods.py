"""The columns of the tables: every way to learn from a problem, behind one `Method.run`."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import ConvergenceWarning
from stationary.experiments.ensemble import train
from stationary.experiments.settings import Problem, Row, defaults, section
from stationary.generator import Generator
from stationary.gradients import (
    DivideAndConquerBPTT,
    Doubling,
    Exact,
    Gradient,
    Infinity,
    Powers,
)
from stationary.least_squares import conditional_least_squares
from stationary.models import Model, Relaxed
from stationary.newton import maximise_likelihood
from stationary.objective import Objective
from stationary.optimisers import Adam
from stationary.steady import steady_state
from stationary.stochastic import Training


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
    """

    predicted: Tensor
    seconds: float
    theta: list[float] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Method(ABC):
    """A column.

    Parameters
    ----------
    name, title : str
        What the cache and what the reader calls it.
    """

    name: str
    title: str

    random = False
    """Whether repeats on one data set differ."""

    @abstractmethod
    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Learn from every problem, with a seed each and a share of the row's epochs."""

    def cost(self, row: Row) -> float:
        """Rough work of a repeat, to start the longest runs first."""
        del row
        return 1.0


@dataclass(frozen=True)
class Stochastic(Method):
    """A gradient strategy with the paper's optimiser, or another one.

    Parameters
    ----------
    gradient : callable
        Makes the strategy from the row and the repeats' seeds.
    training : callable, optional
        Makes the training from the row, the epochs and the start; the paper's by default.
    at_zero : bool
        Start at zero, as the paper does, instead of at the model's own start.
    alpha : float, optional
        Relax the model at this price.
    """

    gradient: Callable[[Row, tuple[int, ...]], Gradient]
    training: Callable[[Row, int, Tensor], Training] | None = None
    at_zero: bool = True
    alpha: float | None = None

    random = True

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Run the repeats side by side and follow their forecasts from epoch to epoch."""
        row, began = problems[0].row, time.perf_counter()
        model = _model(row, self.alpha)
        x = torch.stack([problem.windows.x for problem in problems])
        counts = torch.stack([problem.counts for problem in problems])
        floor = torch.full_like(model.theta.detach(), defaults()["floor"])
        start = floor if self.at_zero else model.start(x[0])
        epochs = max(1, round(row.epochs * share))
        make = self.training or _paper_training
        strategy = self.gradient(row, tuple(seeds))
        path = train(
            model,
            x,
            counts,
            torch.eye(model.edges.n, dtype=torch.float64)[row.observe],
            start,
            strategy,
            make(row, epochs, start),
            seeds,
        )
        thetas = list(path)
        seconds = (time.perf_counter() - began) / len(problems)
        known = len(row.build().param_names)
        return [
            Outcome(
                predicted=_forecast(model, problem, torch.stack([t[k] for t in thetas]), strategy),
                seconds=seconds,
                theta=thetas[-1][k, :known].tolist(),
                nll=_losses(model, problem, torch.stack([t[k] for t in thetas])),
            )
            for k, problem in enumerate(problems)
        ]

    def cost(self, row: Row) -> float:
        """Steps, weighed by the size of the model."""
        size = 3.0 if self.alpha is not None or row.model["name"] == "uppertriangular" else 1.0
        return 1e3 + row.epochs * len(row.train_loads() if row.simulated else range(86)) * size


@dataclass(frozen=True)
class MaximumLikelihood(Method):
    """The exact optimum: the best that the data allows in the likelihood's own terms.

    Parameters
    ----------
    alpha : float, optional
        Relax the model at this price.
    """

    alpha: float | None = None

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Second-order steps on each problem."""
        del share
        return [self._one(problem, seed) for problem, seed in zip(problems, seeds, strict=True)]

    def _one(self, problem: Problem, seed: int) -> Outcome:
        began = time.perf_counter()
        model = _model(problem.row, self.alpha)
        objective = Objective(model, problem.observed())
        best = maximise_likelihood(objective, problem.row.starts, seed, max_iterations=1000)
        seconds = time.perf_counter() - began
        theta = model.natural(torch.tensor(best.x))
        return _of_theta(model, problem, theta, seconds)

    def cost(self, row: Row) -> float:
        """Little, unless there are many parameters."""
        return 1e3 if self.alpha is not None or row.model["name"] == "uppertriangular" else 10.0


@dataclass(frozen=True)
class LeastSquares(Method):
    """The paper's Lagrangian baseline."""

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Adam on each problem's Lagrangian."""
        del seeds
        return [self._one(problem, share) for problem in problems]

    def _one(self, problem: Problem, share: float) -> Outcome:
        began = time.perf_counter()
        settings = section("least_squares")
        model = problem.row.build()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it seldom does: that is the point
            fit = conditional_least_squares(
                model,
                problem.observed(),
                weight=settings["weight"],
                steps=round(settings["steps"] * share),
            )
        seconds = time.perf_counter() - began
        return _of_theta(model, problem, fit.model.theta.detach(), seconds)

    def cost(self, row: Row) -> float:
        """A few seconds."""
        del row
        return 5e3


@dataclass(frozen=True)
class Trivial(Method):
    """A forecast without a chain, from the failures that the training windows saw.

    Parameters
    ----------
    forecast : callable
        From training windows, with the counts of every state, and test loads.
    """

    forecast: Callable[[Windows, Tensor], Tensor]

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Evaluate it."""
        del seeds, share
        return [Outcome(self.forecast(p.windows, p.x[:, 0])[None], seconds=0.0) for p in problems]


def logistic(windows: Windows, x: Tensor) -> Tensor:
    """Logistic regression of the last state's share on load, by maximum likelihood.

    Half a count is added to each side at the mean load, so that windows without a failure still
    have an estimate.
    """
    load = windows.loads.numpy()
    centre, spread = load.mean(), load.std()
    failed = windows.counts[:, -1].numpy()
    seen = windows.counts.sum(-1).numpy()
    z = np.append((load - centre) / spread, 0.0)
    failed, seen = np.append(failed, 0.5), np.append(seen, 1.0)

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        eta = b[0] + b[1] * z
        residual = seen / (1 + np.exp(-eta)) - failed
        value = (seen * np.logaddexp(0.0, eta) - failed * eta).sum()
        return value, np.array([residual.sum(), (residual * z).sum()])

    best = minimize(objective, np.array([-5.0, 0.0]), jac=True, method="BFGS").x
    return torch.sigmoid(best[0] + best[1] * (x - centre) / spread)


def _zero(windows: Windows, x: Tensor) -> Tensor:
    del windows
    return torch.zeros_like(x)


def _mean(windows: Windows, x: Tensor) -> Tensor:
    return (windows.counts[:, -1].sum() / windows.counts.sum()).expand_as(x)


def _dc(steps: int, row: Row, seeds: tuple[int, ...]) -> Gradient:
    del seeds
    return DivideAndConquerBPTT(steps=steps, margin=row.margin)


def _infinity(p: float, row: Row, seeds: tuple[int, ...]) -> Gradient:
    return Infinity(p=p, seed=seeds, series=Powers(margin=row.margin))


def _ours(row: Row, seeds: tuple[int, ...]) -> Gradient:
    del row
    return Infinity(p=section("ours")["p"], seed=seeds, series=Doubling(), control=True)


def _paper_training(row: Row, epochs: int, start: Tensor) -> Training:
    del start
    settings = defaults()
    return Training(
        epochs=epochs,
        rule=Adam(lr=row.lr, amsgrad=False),
        clip=settings["clip"],
        floor=settings["floor"],
    )


def _our_training(row: Row, epochs: int, start: Tensor) -> Training:
    del row
    settings = section("ours")
    return Training(
        epochs=epochs,
        rule=Adam(lr=settings["step"] * start.mean().item(), amsgrad=False),
        batch=settings["batch"],
        clip=math.inf,
        floor=defaults()["floor"],
        average=True,
    )


def _relaxed(alpha: float) -> list[Method]:
    return [
        Stochastic(
            f"alpha-{alpha:g}",
            f"infinity-SGD, alpha = {alpha:g}",
            partial(_infinity, 0.1),
            alpha=alpha,
        ),
        MaximumLikelihood(f"mle-alpha-{alpha:g}", f"exact, alpha = {alpha:g}", alpha=alpha),
    ]


TABLE: list[Method] = [
    Stochastic("dc16", "DC-BPTT 16", partial(_dc, 16)),
    Stochastic("dc128", "DC-BPTT 128", partial(_dc, 128)),
    Stochastic("infinity", "infinity-SGD (paper)", partial(_infinity, 0.1)),
    Stochastic("ours", "infinity-SGD (ours)", _ours, _our_training, at_zero=False),
    LeastSquares("cls", "conditional least squares"),
    MaximumLikelihood("mle", "exact MLE"),
    Trivial("zero", "predict zero", _zero),
    Trivial("mean", "training mean", _mean),
    Trivial("logistic", "logistic on load", logistic),
]
"""The columns of the main tables."""

METHODS: dict[str, Method] = {
    method.name: method
    for method in [
        *TABLE,
        *(
            Stochastic(f"p-{p:g}", f"infinity-SGD, p = {p:g}", partial(_infinity, p))
            for p in (0.01, 0.001)
        ),
        *(method for alpha in defaults()["alpha"] for method in _relaxed(alpha)),
    ]
}
"""Every method by name, those of the studies included."""


def _model(row: Row, alpha: float | None) -> Model:
    model = row.build()
    return model if alpha is None else Relaxed(model, alpha=alpha, initial=defaults()["floor"])


def _of_theta(model: Model, problem: Problem, theta: Tensor, seconds: float) -> Outcome:
    return Outcome(
        predicted=_forecast(model, problem, theta[None], Exact()),
        seconds=seconds,
        theta=theta[: len(problem.row.build().param_names)].tolist(),
        nll=_losses(model, problem, theta[None]),
    )


@torch.no_grad()
def _forecast(model: Model, problem: Problem, thetas: Tensor, strategy: Gradient) -> Tensor:
    """Probability of the last state ``[E, T]``, by the forward value the method learnt with."""
    rates = torch.func.vmap(model.rates, in_dims=(None, 0))(problem.x, thetas)
    forward = Exact() if strategy.exact_forward else strategy
    return steady_state(Generator(model.edges, rates), gradient=forward).pi[..., -1]


def _losses(model: Model, problem: Problem, thetas: Tensor) -> list[float]:
    """Exact negative log-likelihood a window, windows without counts included."""
    objective = Objective(model, problem.observed())
    count = len(problem.windows)
    values = []
    for theta in thetas:
        penalty = float(model.penalty(theta))
        value, _ = objective.value_and_gradient(objective.scale.free(theta).numpy())
        values.append((value - penalty) / count)
    return values
