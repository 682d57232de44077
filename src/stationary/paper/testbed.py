"""The paper's testbed recording, studied with exact maximum likelihood.

Each result is a function that makes its table:

- `facts`: what the recording counts, and what its light load already shows.
- `undetermined`: the upper-triangular model on states {1, 2} says nothing about overload. Multiply
  every rate out of the overload state by s. The flow into it and the shares in which it leaves stay
  the same, so all other states keep their ratios and the likelihood does not change, while the odds
  of overload are divided by s. Any forecast has the same likelihood.
- `zero_start`: from theta = 0, where the text starts this model, nothing can be learnt.
- `learnt_rates`: which of the paper's readings of the learnt rates the data determine.
- `ladder`: with all states of the training windows observed, chains chosen by a backtest inside the
  training windows. The one it picks has arrivals in bursts and a server that stalls.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

import stationary as st
from stationary.data import Sampling
from stationary.data.losses import ObservationMap, conditional_probabilities
from stationary.errors import InputError
from stationary.learning.estimate import FitResult
from stationary.learning.likelihood import Likelihood, log_terms
from stationary.learning.stochastic import Trainer
from stationary.paper.cells import Line, listed, number
from stationary.paper.chains import FULL, candidates
from stationary.paper.columns import METHODS
from stationary.paper.methods import training
from stationary.paper.runner import errors
from stationary.paper.settings import SETTINGS, Problem, rows
from stationary.trust.backtest import held_out, score

_LIGHT = 1000.0  # heaviest load of the training windows

_CUTS = (300.0, 400.0, 500.0, 600.0, 700.0)
"""Loads at which the backtest cuts the training windows into fitted and held out."""


@dataclass(frozen=True, eq=False)
class Recording:
    """The recording, cut at load 1000: counts of queue sizes 0..20 and of overload."""

    light: st.Windows  # for training
    heavy: st.Windows  # for testing
    failed: Tensor  # calls that really failed, in each test window
    failed_light: float  # calls that failed in all training windows
    agree: int  # windows in which the counts of all queue sizes add up to the successful calls

    @property
    def target(self) -> Tensor:
        """Overload over calls sent in each test window: what the paper predicts."""
        return self.heavy.counts[:, -1] / self.heavy.loads


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read the recording; idle windows are left out."""
    if not Path(path).is_file():
        raise InputError(f"{path}: there is no such file; name the CSV of the recording")
    given = ("callrate", "successful_calls", "failed_calls")
    windows = st.read_windows(path, x=given, counts="Q={}", loads=(1.0, None))
    if len(windows.observe) <= FULL:
        raise InputError(f"{path}: the testbed recording has columns Q=0 to Q={FULL} or more")
    x, (_, successful, failed) = windows.x[:, :1], windows.x.T
    counts = torch.cat(
        [windows.counts[:, :FULL], windows.counts[:, FULL:].sum(-1, keepdim=True)], -1
    )
    light = windows.loads <= _LIGHT
    if not bool(light.any() and (~light).any()):
        raise InputError(f"{path}: the testbed recording has loads below and above {_LIGHT:g}")

    def part(kept: Tensor) -> st.Windows:
        return st.Windows(x[kept], counts[kept], range(FULL + 1), Sampling.ARRIVAL)

    agree = int((counts.sum(-1) == successful).sum())
    return Recording(part(light), part(~light), failed[~light], float(failed[light].sum()), agree)


def problems(recording: Recording) -> dict[str, Problem]:
    """Return the problems of the testbed rows."""
    return {
        row.name: Problem(row, recording.light, recording.heavy.x, recording.target)
        for row in rows().values()
        if not row.simulated
    }


def facts(recording: Recording) -> Line:
    """What the recording counts: answers by question."""
    light, heavy = recording.light, recording.heavy
    over, failed = heavy.counts[:, -1], recording.failed
    at_light_load = light.counts[:, -1].sum() / light.counts.sum()
    agree = np.corrcoef(over / heavy.loads, failed / heavy.loads)[0, 1]
    slope, at_zero = plateau(light)
    most = heavy.counts.sum(-1).max().item()
    some = (light.loads >= 500) & (light.loads <= 600)
    waiting = 1 - (light.counts[some, 0].sum() / light.counts[some].sum()).item()
    load = light.loads[some].mean().item()
    return {
        "training and test windows": f"{len(light)} and {len(heavy)}",
        "requests counted as overload (Q >= 21) per window, mean and median": (
            f"training {light.counts[:, -1].mean():.2f} and {light.counts[:, -1].median():.0f} "
            f"(printed 7.7 and 3), test {over.mean():.2f} and {over.median():.0f} (printed 135.2 "
            f"and 254)"
        ),
        "calls that failed in training windows": (
            f"{recording.failed_light:.0f}: the paper's losses are requests that found the queue "
            f"at 21 or more"
        ),
        "overload, the target, against calls that failed, test windows": (
            f"{over.sum():.0f} against {failed.sum():.0f}; the target is above the failures in "
            f"{int((over > failed).sum())} of {len(heavy)} windows, correlation {agree:.2f}"
        ),
        "windows in which the counts of all queue sizes add up to the successful calls": (
            f"{recording.agree} of {len(light) + len(heavy)}; where they do, the target counts "
            f"calls that were slow and succeeded"
        ),
        "overload at light load": (
            f"{at_light_load:.1%} of requests, at most {_LIGHT:g} calls per second"
        ),
        "requests that found others waiting, load 500 to 600": (
            f"{waiting:.0%}; with Poisson arrivals it would be the utilisation, at most "
            f"{load / most:.0%} (the server has answered {most:.0f} per second)"
        ),
        "queue size up to which all sizes are about equally frequent": (
            f"{at_zero:.1f} + {1e3 * slope:.1f} for every 1000 calls per second: as many as arrive "
            f"in {1e3 * slope:.0f} ms, as if they came in bursts of that period"
        ),
    }


def undetermined(recording: Recording, at: float = 1500.0) -> pd.DataFrame:
    """Return fits of equal likelihood whose forecasts of overload at load ``at`` differ widely."""
    problem = problems(recording)["testbed"]
    model, windows = problem.row.family(), problem.observed()
    likelihood = Likelihood(model, windows)
    theta = st.Newton(starts=problem.row.starts).run(likelihood, windows, seed=0).theta
    # The parameters are the rates of the edges down, which are listed last.
    leaving = model.edges.src[-len(theta) :] == FULL

    def scaled(log_s: float) -> Tensor:
        return torch.where(leaving, theta * math.exp(log_s), theta)

    @torch.no_grad()
    def steady(x: Tensor, log_s: float) -> Tensor:
        return st.steady_state(model.generator(x, scaled(log_s))).pi

    pi = steady(torch.tensor([[at]], dtype=torch.float64), 0.0)[0]
    log_odds = float(pi[-1].log() - pi[:-1].sum().log())
    lines = []
    for p in (1e-6, 0.01, 0.05, 0.5, 0.99, 1 - 1e-6):
        log_s = log_odds - math.log(p / (1 - p))
        predicted = steady(problem.x, log_s)[:, -1]
        lines.append(
            {
                "overload": p,
                "nll": likelihood(likelihood.scale.free(scaled(log_s))).item(),
                **_scores(predicted, problem.target),
                "predicted": predicted.tolist(),
            }
        )
    return pd.DataFrame(lines)


def zero_start(recording: Recording, epochs: int = 2) -> Iterator[Line]:
    """DC-BPTT of the upper-triangular model from theta = 0, as the text has it, in two precisions.

    The library computes in float64. What torch's default float32 makes of the first gradient is
    computed here, by the same squarings.
    """
    problem = problems(recording)["testbed"]
    row, model, windows = problem.row, problem.row.family(), problem.observed()
    for steps in SETTINGS["defaults"]["steps"]:
        way = st.DivideAndConquerBPTT(steps, margin=row.margin)
        for dtype in (torch.float64, torch.float32):
            forecast = partial(_through_time, model, way, dtype)
            zero = torch.zeros(len(model.param_names), dtype=torch.float64, requires_grad=True)
            before = forecast(problem.x, zero)[:, -1].detach()
            counts = windows.counts.to(dtype)
            pi = forecast(windows.x, zero)
            seen = ObservationMap.of_states(row.observe, pi.shape[-1])
            terms = counts * conditional_probabilities(pi, seen).log()
            (slope,) = torch.autograd.grad(terms.sum(), zero)
            after = "cannot move"
            if bool(slope.isfinite().all()):
                trained = training(gradient=way, lr=row.lr, epochs=epochs)
                trainer = Trainer(model, windows, replace(trained, floor=0.0))
                trainer.run()
                moved = forecast(problem.x, trainer.estimate)[:, -1]
                after = listed(_scores(moved, problem.target).values())
            yield {
                "steps": str(steps),
                "precision": str(dtype).removeprefix("torch."),
                "gradient at zero": number(slope.norm().item()),
                "MAPE/100, MSE at zero": listed(_scores(before, problem.target).values()),
                f"after {epochs} epochs": after,
                "printed": listed(row.printed(f"dc{steps}")),
            }


def _through_time(
    model: st.Model, way: st.DivideAndConquerBPTT, dtype: torch.dtype, x: Tensor, theta: Tensor
) -> Tensor:
    """``p0 P^t`` by squarings in a precision that `DivideAndConquerBPTT` does not have."""
    chains = model.generator(x, theta)
    P = chains.uniformize(chains.event_rate() + way.margin)[0].to(dtype)
    for _ in range(way.steps.bit_length() - 1):
        P = P @ P
    return P.mean(-2)


def learnt_rates(thetas: Sequence[Sequence[float]]) -> Iterator[Line]:
    """What the paper reads off the learnt rates, over repeats on the same data.

    A claim that the data determine has nearly the same value in every repeat.
    """
    n = FULL + 1
    Q = np.zeros((len(thetas), n, n))
    Q[:, *np.tril_indices(n, -1)] = np.array(thetas)
    down = np.stack([Q[:, k, k - 1] for k in range(1, n)], 1)
    claims = {
        "service rate from 2 to 1": down[:, 1],
        "service falls with the queue: mean rate of 15..20 over that of 1..5": (
            down[:, 14:20].mean(1) / down[:, :5].mean(1)
        ),
        "resets: share of the rates out of 15..21 that lead to 0..3": (
            Q[:, 15:, :4].sum((1, 2)) / Q[:, 15:].sum((1, 2))
        ),
        "blocks: share of the rates that lead down by at most 3": (
            np.triu(Q, -3).sum((1, 2)) / Q.sum((1, 2))
        ),
    }
    for name, values in claims.items():
        yield {
            "what is read off the rates": name,
            "median": number(float(np.median(values))),
            "smallest .. largest repeat": f"{number(values.min())} .. {number(values.max())}",
        }


def ladder(
    recording: Recording, progress: Callable[[int, str], None] | None = None
) -> pd.DataFrame:
    """Return chains on all states, ranked by the backtest; then forecasts that need no chain.

    The backtest fits the training windows up to each of five loads and scores those above: the
    negative log-likelihood per request, every window with the same weight. Test windows play no
    part in the choice; the table shows their scores beside it. Last come baselines, and the best
    that a monotone curve through the test windows can do.
    """
    light, heavy, target = recording.light, recording.heavy, recording.target

    def fitted(model: st.Model, windows: st.Windows) -> FitResult:
        return st.Newton().run(Likelihood(model, windows), windows, seed=0)

    def held_out_score(model: st.Model, cut: float) -> float:
        held, theta = held_out(light, cut), fitted(model, light.between(None, cut)).theta
        return score(log_terms(model, held, theta), held).mean

    lines: list[dict[str, Any]] = []

    def line(name: str, predicted: Tensor, **more: Any) -> None:
        errors = _scores(predicted, target)
        lines.append({"model": name, **more, **errors, "predicted": predicted.tolist()})

    for done, (name, model) in enumerate(candidates().items(), 1):
        found = fitted(model, light)
        estimates = zip(model.param_names, found.theta.tolist(), strict=True)
        line(
            name,
            torch.from_numpy(np.exp(log_terms(model, heavy, found.theta))[:, -1]),
            parameters=len(model.param_names),
            nll=found.nll,
            aic=2 * (found.nll + len(model.param_names)),
            backtest=float(np.mean([held_out_score(model, cut) for cut in _CUTS])),
            estimates=", ".join(f"{k} {v:.4g}" for k, v in estimates),
        )
        if progress is not None:
            progress(done, name)
    lines.sort(key=lambda each: each["backtest"])
    problem = problems(recording)["testbed"]
    for name in ("zero", "mean", "logistic"):
        line(METHODS[name].title, METHODS[name].run([problem], [0], 1.0)[0].predicted[-1])
    order, curve = heavy.loads.argsort(), torch.empty_like(target)
    curve[order] = torch.from_numpy(isotonic_regression(target[order].numpy()).x)
    line("monotone curve through the test windows", curve)
    frame = pd.DataFrame(lines)
    frame.insert(0, "picked", frame.index == 0)
    return frame


def _scores(predicted: Tensor, target: Tensor) -> dict[str, Any]:
    return {name: errors(predicted, target)[name] for name in ("mape", "mse")}


def plateau(windows: st.Windows) -> tuple[float, float]:
    """Slope and intercept over load of the queue size at which the counts fall to half."""
    edges, loads = [], []
    for counts, load in zip(windows.counts.numpy(), windows.loads.tolist(), strict=True):
        level = np.median(counts[2:5])
        below = np.flatnonzero(counts[:FULL] < level / 2)
        if load >= 300 and level > 20 and len(below):
            edges.append(int(below[0]))
            loads.append(load)
    if len(set(loads)) < 2:
        raise InputError(
            "the recording has too few windows at loads of 300 to 1000 to measure bursts; use the "
            "recording that was published with the paper"
        )
    slope, at_zero = np.polyfit(loads, edges, 1)
    return float(slope), float(at_zero)
