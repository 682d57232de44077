"""Forecasts without a chain, from the failures that the training windows saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from stationary.data.windows import Windows
from stationary.paper.methods import Column, Outcome
from stationary.paper.settings import Problem


@dataclass(frozen=True)
class Trivial(Column):
    """A forecast that needs no learning, or next to none.

    Parameters
    ----------
    forecast : callable
        From training windows, with the counts of every state, and test loads.
    """

    forecast: Callable[[Windows, Tensor], Tensor]

    def run(self, problems: Sequence[Problem], seeds: Sequence[int], share: float) -> list[Outcome]:
        """Evaluate it."""
        del seeds, share
        return [self._one(problem) for problem in problems]

    def _one(self, problem: Problem) -> Outcome:
        began = time.perf_counter()
        predicted = self.forecast(problem.windows, problem.x[:, 0])[None]
        return Outcome(predicted, seconds=time.perf_counter() - began)


def zero(windows: Windows, x: Tensor) -> Tensor:
    """Nothing ever fails."""
    del windows
    return torch.zeros_like(x)


def mean(windows: Windows, x: Tensor) -> Tensor:
    """As much fails as in the training windows."""
    return (windows.counts[:, -1].sum() / windows.counts.sum()).expand_as(x)


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
