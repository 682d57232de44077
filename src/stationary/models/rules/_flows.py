"""Measures of a model made of rules: what is lost, how many there are, how long they stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from stationary.models.measures import Measure, probability, reward
from stationary.models.rules._arrivals import RuleFlow
from stationary.models.rules._blame import DescriptionError
from stationary.models.rules._rates import Tables, compiled
from stationary.models.rules._space import Columns, States
from stationary.models.rules.formulas import Expression, Program, Step, on_arrays, postfix

_ZERO: Program = (Step(0.0),)


def in_states(
    expression: Expression, states: States, section: str, key: str = ""
) -> NDArray[np.float64]:
    """Return what only the state decides, in every state: finite, or an error that says where."""
    values = np.array(on_arrays(postfix(expression), states.columns), dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DescriptionError(
            f"{expression} is {values[bad[0]]:g} in state {states[int(bad[0])]}, and must be "
            f"finite in every state: except those where it is not, by if(condition, ..., 0)",
            section,
            key,
        )
    return values


def counted(
    expression: Expression | None, states: States
) -> tuple[tuple[str, ...] | None, list[str] | None]:
    """Return the values of ``count`` for people, in order, and that of every state."""
    if expression is None:
        return None, None
    found = in_states(expression, states, "count") + 0.0  # -0 is 0, and needs no name of its own
    values, code = np.unique(found, return_inverse=True)
    names = [f"{value:.12g}" for value in values.tolist()]
    return tuple(names), [names[k] for k in code.tolist()]


def state_reward(values: NDArray[Any], boolean: bool, about: str) -> Measure:
    """Return the long-run mean of what only the state decides; of a condition, its probability."""
    vector = torch.from_numpy(np.array(values, dtype=np.float64))
    if boolean:
        return probability(vector, about)
    low, high = float(vector.min()), float(vector.max())
    # An interval needs room around the value, which a constant does not have.
    return reward(vector, low, high, about) if low < high else reward(vector, about=about)


def flow_programs(
    flows: Sequence[RuleFlow], columns: Columns, tables: Tables
) -> tuple[Program, Program, Program]:
    """Return programs for requests offered, refused and dropped per unit time in each state."""
    offered, refused, dropped = _ZERO, _ZERO, _ZERO
    for flow in flows:
        rate = compiled(flow.rate, columns, tables)
        offered = _added(offered, rate, flow.offered, tables)
        refused = _added(refused, rate, flow.refused, tables)
        dropped = _added(dropped, rate, flow.dropped, tables)
    return offered, refused, dropped


def _added(total: Program, rate: Program, weight: NDArray[np.float64], tables: Tables) -> Program:
    """Return a sum with a multiple of a rate added to it."""
    if not weight.any():
        return total
    term = rate if (weight == 1).all() else (*rate, tables.add(weight), Step("*", 2))
    return (*total, *term, Step("+", 2))
