"""Stochastic fitting: one window or a few at a time, with any gradient strategy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from stationary.data.windows import Windows
from stationary.errors import InputError
from stationary.gradients import Exact, Gradient
from stationary.learning import checkpoints
from stationary.learning.estimate import (
    End,
    Ended,
    FitResult,
    Method,
    check_resume,
    check_whole,
    largest_slope,
)
from stationary.learning.inference import NEAR, nats_above_minimum
from stationary.learning.iterates import Iterates
from stationary.learning.likelihood import Likelihood
from stationary.learning.optimisers import Adam, StepRule
from stationary.models import Model
from stationary.solvers import Solver

_EVERY = 2.0
"""Seconds between checkpoints, at least."""

_SHARE = 0.05
"""Share of the time that checkpoints may take: those of large chains hold one guess per window."""

_COUNTS = ("epoch", "position", "step", "stale")
_COLUMNS = ("step", "epoch", "loss", "gradient_norm", "terms")


@dataclass(frozen=True)
class Step:
    """What happened in one step; what a callback receives and the history keeps.

    ``gradient_norm`` is before clipping, ``terms`` the mean number of terms of a random series.
    """

    step: int
    epoch: int
    loss: float
    gradient_norm: float
    terms: float
    theta: tuple[float, ...]


@dataclass(frozen=True)
class Stochastic(Method):
    """A few windows at a time, with any gradient strategy: the paper's way.

    Parameters
    ----------
    gradient : Gradient
        How derivatives reach the rates; `Exact()` by default.
    epochs : int
        Passes over the windows.
    rule : StepRule
        `Adam` or `RobbinsMonro`.
    batch : int
        Windows a step.
    clip : float
        Largest norm of a gradient; infinity for none.
    floor : float
        Smallest value of a positive parameter; zero lets rates vanish.
    start : float or sequence of float, optional
        Where all parameters, or each of them, start, but for the floor; by default where the model
        says.
    average : bool
        Return the mean of the iterates of the second half (Polyak and Ruppert).
    patience : int, optional
        Stop after so many epochs without a lower mean training loss.
    folder : Path, optional
        Where checkpoints go, so that the run can be resumed.
    resume : bool
        Go on with what was left in the folder, if there is something.
    callback : callable, optional
        Called with every `Step`; returning True ends the run.
    """

    gradient: Gradient = field(default_factory=Exact)
    epochs: int = 50
    rule: StepRule = field(default_factory=Adam)
    batch: int = 1
    clip: float = 5.0
    floor: float = 1e-6
    start: float | Sequence[float] | None = None
    average: bool = False
    patience: int | None = None
    folder: Path | None = None
    resume: bool = False
    callback: Callable[[Step], bool | None] | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "patience"):
            check_whole(getattr(self, name), name, optional=name == "patience")
        if not isinstance(self.clip, int | float) or not self.clip > 0:
            raise InputError(f"clip must be positive; got {self.clip!r}")
        if not isinstance(self.floor, int | float) or not 0 <= self.floor < math.inf:
            raise InputError(f"floor must be zero or positive; got {self.floor!r}")
        if not isinstance(self.rule, StepRule):
            raise InputError(f"rule must be one such as Adam(lr=0.1); got {self.rule!r}")
        if not isinstance(self.gradient, Gradient):
            raise InputError(
                f"gradient must be a strategy such as Exact() or Infinity(p=0.1); got "
                f"{self.gradient!r}"
            )
        check_resume(self.resume, self.folder)

    def first(self, model: Model, x: Tensor) -> Tensor:
        """Where a fit of a model to windows with inputs ``x [M, d]`` starts, ``[P]``."""
        if self.start is None:
            start = model.start(x)
        else:
            number = math.nan if isinstance(self.start, str) else self.start
            given = torch.as_tensor(number, dtype=torch.float64)
            if given.shape not in ((), model.positive.shape) or not bool(given.isfinite().all()):
                raise InputError(
                    f"start must be a number, or one for each of {len(model.positive)} parameters; "
                    f"got {self.start!r}"
                )
            start = given.expand(len(model.positive)).clone()
        return torch.where(model.positive, start.clamp_min(self.floor), start)

    def run(self, likelihood: Likelihood, windows: Windows, seed: int) -> FitResult:
        """Train to the end, and judge the result by the exact likelihood."""
        trainer = Trainer(likelihood.model, windows, self, likelihood.solver, seed)
        ended = trainer.run()
        found = judged(likelihood, trainer.estimate, ended, trainer.step)
        return replace(found, history=trainer.frame(), heavy_tails=trainer.heavy_tails)


class Trainer(Iterates):
    """A stochastic fit in progress: its whole state, which it can save and take up again."""

    def __init__(
        self,
        model: Model,
        windows: Windows,
        training: Stochastic,
        solver: Solver | None = None,
        seed: int = 0,
    ) -> None:
        x, self.windows = model.as_inputs(windows.x), windows
        start = training.first(model, x)
        super().__init__(model, x, windows.observations, windows.data, start, training, solver)
        self.order = torch.Generator().manual_seed(seed)
        self.epoch = self.position = 0
        self.permutation = torch.empty(0, dtype=torch.long)
        self.loss_sum, self.best, self.stale = 0.0, float("inf"), 0
        self.history: list[Step] = []
        self.ended: Ended | None = None

    def run(self) -> Ended:
        """Train to the end and return how it ended."""
        file = self.training.folder and self.training.folder / checkpoints.CHECKPOINT
        if file is not None:
            self._open(file)
        due = time.monotonic() + _EVERY
        while self.ended is None:
            self._advance()
            if file is not None and (self.ended or time.monotonic() > due):
                began = time.monotonic()
                checkpoints.write(file, self._state())
                due = time.monotonic() + max(_EVERY, (time.monotonic() - began) / _SHARE)
        return self.ended

    def frame(self) -> pd.DataFrame:
        """Return the history, one row per step."""
        return pd.DataFrame(self._rows(), columns=[*_COLUMNS, *self.model.param_names])

    def _rows(self) -> list[tuple[float, ...]]:
        return [(*(getattr(s, name) for name in _COLUMNS), *s.theta) for s in self.history]

    def _advance(self) -> None:
        """Take one step, and close the epoch at its end."""
        training, count = self.training, self.count
        if self.position == 0:
            self.permutation = torch.randperm(count, generator=self.order)
        chosen = self.permutation[self.position : self.position + training.batch]
        number = self.step
        loss, norm = (value.item() for value in self.move(chosen, self.epoch))
        self.loss_sum += loss * len(chosen)
        terms, theta = self.gradient.terms_taken(), tuple(self.theta.tolist())
        record = Step(number, self.epoch, loss, norm, terms, theta)
        self.history.append(record)
        self.position += len(chosen)
        if self.position >= count:
            self._close_epoch()
        if training.callback is not None and training.callback(record):
            self.ended = self.ended or Ended(End.STOPPED, False, epochs=self.epoch)

    def _close_epoch(self) -> None:
        mean = self.loss_sum / len(self.windows)
        self.stale = 0 if mean < self.best else self.stale + 1
        self.best = min(self.best, mean)
        self.epoch, self.position, self.loss_sum = self.epoch + 1, 0, 0.0
        self._end()

    def _end(self) -> None:
        """Note the end of the run if it has made its epochs, or run out of patience."""
        if self.epoch >= self.training.epochs:
            self.ended = Ended(End.EPOCHS, False, epochs=self.epoch)
        elif self.training.patience is not None and self.stale >= self.training.patience:
            self.ended = Ended(End.PATIENCE, False, epochs=self.epoch, stale=self.stale)

    def _open(self, file: Path) -> None:
        state = checkpoints.taken_up(file.parent, self._owner(), self.training.resume)
        if state is None:
            return
        try:
            self._restore(state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:  # of torch, too
            raise checkpoints.damaged(file, error) from None
        self._end()  # unless more epochs or more patience are given than last time

    def _owner(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be this run's."""
        kept = ("rule", "batch", "clip", "floor", "start", "average")
        return {
            **checkpoints.fingerprint(self.model, self.windows),
            "gradient": checkpoints.identity(self.gradient),
            "training": {name: checkpoints.identity(getattr(self.training, name)) for name in kept},
            "seed": self.order.initial_seed(),
        }

    def _state(self) -> checkpoints.State:
        return {
            **{name: getattr(self, name) for name in _COUNTS},
            "loss_sum": self.loss_sum,
            "best": self.best,
            "owner": self._owner(),
            "history": torch.tensor(self._rows(), dtype=torch.float64),
            "theta": self.theta,
            "permutation": self.permutation,
            "order": self.order.get_state(),
            "optimiser": dict(self.optimiser.state.get(self.theta, {})),
            "strategy": self.gradient.export(),
        }

    def _restore(self, state: checkpoints.State) -> None:
        """Take up a state of this run."""
        for name in (*_COUNTS, "loss_sum", "best", "permutation"):
            setattr(self, name, state[name])
        self.order.set_state(state["order"])
        with torch.no_grad():
            self.theta.copy_(state["theta"])
        self.optimiser.state[self.theta] = state["optimiser"]
        self.gradient.restore(state["strategy"])
        self.history = [
            Step(int(step), int(epoch), loss, norm, terms, tuple(theta))
            for step, epoch, loss, norm, terms, *theta in state["history"].tolist()
        ]
        # A longer run has another second half, so its mean is made anew, to the same bits.
        total = max(self.epoch, self.training.epochs)
        for record in self.history:
            if self.training.average and 2 * record.epoch >= total:
                self.add_to_mean(torch.tensor(record.theta, dtype=self.mean.dtype))


def judged(likelihood: Likelihood, theta: Tensor, ended: Ended, evaluations: int) -> FitResult:
    """Return parameters that were found in another way, judged by the exact likelihood."""
    z = likelihood.scale.free(theta).numpy()
    nll, slope = likelihood.value_and_gradient(z)
    # At zero nothing was learnt, and logarithms have no slope that would say so.
    gap = nats_above_minimum(likelihood, z, slope) if bool(theta.any()) else math.inf
    ended = replace(ended, converged=gap <= NEAR, above=gap)
    return FitResult(theta, nll, largest_slope(slope, likelihood.total), ended, evaluations)
