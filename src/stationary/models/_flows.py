"""Measures of a model made of rules: what is lost, how many there are, how long they stay."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stationary.expressions import Expression, Program, Step, on_arrays, postfix
from stationary.measures import Flows, Measure, probability, reward
from stationary.models._rates import Tables, compiled
from stationary.models._rule import Rule
from stationary.models._space import Columns

Evaluate = Callable[[Program, Tensor, Tensor], Tensor]
"""``evaluate(program, x, theta)``: what a program computes, with the model's names and tables."""


def state_reward(expression: Expression, columns: Columns, about: str) -> Measure:
    """Return the long-run mean of what only the state decides; of a condition, its probability."""
    values = torch.from_numpy(np.array(on_arrays(postfix(expression), columns), dtype=np.float64))
    if expression.boolean:
        return probability(values, about)
    low, high = float(values.min()), float(values.max())
    # An interval needs room around the value, which a constant does not have.
    return reward(values, low, high, about) if low < high else reward(values, about=about)


def rate_reward(program: Program, evaluate: Evaluate, about: str) -> Measure:
    """Return the long-run mean of what state, inputs and parameters decide together."""

    def mean(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
        return (pi * evaluate(program, x, theta)).sum(-1)

    return Measure(mean, about=about, of_theta=True)


def flow_programs(
    rules: Sequence[Rule], arrivals: Sequence[str], columns: Columns, tables: Tables
) -> tuple[Program, Program, Program]:
    """Return programs for requests offered, refused and dropped per unit time in each state.

    A rule of the arrivals offers requests where its guard is true, and those of ``else lost`` also
    where it is false; what happens in other rules that say ``lost`` had been let in before.
    """
    length = len(next(iter(columns.values())))
    zero: Program = (Step(0.0),)
    offered, refused, dropped = zero, zero, zero
    for rule in rules:
        arrives = rule.name in arrivals
        if not arrives and not rule.lost:
            continue
        holds = rule.holds(columns, length)
        rate = compiled(rule.rate, columns, tables)
        here = _added((), rate, holds, tables)
        if not arrives:
            dropped = _added(dropped, rate, holds, tables)
            continue
        offered = (*offered, *here, Step("+", 2))
        if rule.lost:
            refused = _added(refused, rate, holds, tables)
        if rule.refuses:
            offered = _added(offered, rate, ~holds, tables)
            refused = _added(refused, rate, ~holds, tables)
    return offered, refused, dropped


def _added(total: Program, rate: Program, where: NDArray[np.bool_], tables: Tables) -> Program:
    """Return a sum with a rate added to it in some states."""
    term = rate if where.all() else (*rate, tables.add(where.astype(np.float64)), Step("*", 2))
    return (*total, *term, Step("+", 2)) if total else term


def flow_measures(
    flows: Callable[[Tensor, Tensor], Flows], jobs: NDArray[np.float64] | None
) -> dict[str, Measure]:
    """Return loss and throughput, and where requests are counted the time they stay."""

    def loss(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
        flow = flows(x, theta)
        return (pi * (flow.refused + flow.dropped)).sum(-1) / (pi * flow.offered).sum(-1)

    def throughput(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
        flow = flows(x, theta)
        return (pi * (flow.offered - flow.refused - flow.dropped)).sum(-1)

    found = {
        "loss": Measure(loss, 0.0, 1.0, "share of arriving requests that are lost", True),
        "throughput": Measure(throughput, 0.0, math.inf, "requests served per unit time", True),
    }
    if jobs is not None:
        levels = torch.from_numpy(np.array(jobs))

        def response_time(x: Tensor, pi: Tensor, theta: Tensor) -> Tensor:
            flow = flows(x, theta)  # Little's law on those let in, served or not
            return (pi @ levels.to(pi)) / (pi * (flow.offered - flow.refused)).sum(-1)

        about = "mean time in the system of an accepted request"
        found["response_time"] = Measure(response_time, 0.0, math.inf, about, True)
    return found
